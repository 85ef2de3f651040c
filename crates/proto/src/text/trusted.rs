//! The one place with `unsafe` in this project: a few calls, each with the reason why it is
//! sound.

#![allow(unsafe_code)]

use super::NotJson;
use super::bulk::container_with;
use super::lanes::{self, BLOCK, LANE};

/// Views bytes as the `&str` that the scanner has found them to be.
///
/// A text is checked once. Checking it again each time a `&str` is wanted would cost a fifth of
/// the whole decoding of a small message.
///
/// Call it only with bytes for which `scan::text` returned an outline, or with a piece of such
/// bytes cut at positions that the scanner reported: those stand next to ASCII characters, so
/// they never fall inside a character.
pub(super) fn as_str(scanned: &[u8]) -> &str {
    debug_assert!(std::str::from_utf8(scanned).is_ok());
    // SAFETY: the scanner accepts a text only when every byte was ASCII, or when
    // `simdutf8::basic::from_utf8` accepted the text as a whole; see `scan::text`.
    unsafe { std::str::from_utf8_unchecked(scanned) }
}

/// `bulk::container_with`, in the fastest way that this processor has.
pub(super) fn container(
    bytes: &[u8],
    start: usize,
    depths: (usize, usize),
) -> Result<(usize, bool), NotJson> {
    #[cfg(target_arch = "x86_64")]
    if x86::is_recent() {
        // SAFETY: what this asks for was just found to be there.
        return unsafe { x86::container(bytes, start, depths) };
    }
    container_with(bytes, start, depths, |blocks| blocks.read(classify, lanes::parities))
}

/// The bytes of a lane at which a string ends or breaks, and those that are not ASCII.
#[inline(always)]
pub(super) fn special(lane: &[u8; LANE]) -> lanes::Special {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64 itself; 16 bytes are read from a reference to 16 bytes, at any
    // alignment.
    return unsafe {
        lanes::sse2_special(std::arch::x86_64::_mm_loadu_si128(lane.as_ptr().cast()))
    };
    #[cfg(not(target_arch = "x86_64"))]
    lanes::plain_special(lane)
}

/// Classes the bytes of a block in a way that every processor of this kind has.
#[inline(always)]
fn classify(block: &[u8; BLOCK]) -> lanes::Classes {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64 itself; there is no such processor without it.
    return unsafe { lanes::sse2(block) };
    #[cfg(not(target_arch = "x86_64"))]
    lanes::plain(block)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{__m128i, __m256i, _mm_loadu_si128, _mm256_loadu_si256};

    use super::super::NotJson;
    use super::super::blocks::{Block, Blocks};
    use super::super::bulk::container_with;
    use super::super::lanes::{BLOCK, avx2, multiplied_parities};

    /// Whether the processor has all that [`container`] asks for: those since about 2013 do.
    pub(super) fn is_recent() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("pclmulqdq")
    }

    /// The whole walk is compiled with these instructions, so that nothing of it is a call but
    /// the reading of a block.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,pclmulqdq")]
    pub(super) fn container(
        bytes: &[u8],
        start: usize,
        depths: (usize, usize),
    ) -> Result<(usize, bool), NotJson> {
        container_with(bytes, start, depths, |blocks| read(blocks))
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,pclmulqdq")]
    #[inline(never)]
    fn read(blocks: &mut Blocks<'_>) -> Option<Block> {
        blocks.read(|block| avx2(block), |bits| multiplied_parities(bits))
    }

    /// A block as two registers.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(in super::super) fn halves(block: &[u8; BLOCK]) -> [__m256i; 2] {
        let (halves, _) = block.as_chunks::<32>();
        // SAFETY: 32 bytes are read from a reference to 32 bytes, at any alignment.
        [0, 1].map(|n| unsafe { _mm256_loadu_si256(halves[n].as_ptr().cast()) })
    }

    /// A block as four registers.
    #[target_feature(enable = "sse2")]
    #[inline]
    pub(in super::super) fn quarters(block: &[u8; BLOCK]) -> [__m128i; 4] {
        let (quarters, _) = block.as_chunks::<16>();
        // SAFETY: 16 bytes are read from a reference to 16 bytes, at any alignment.
        [0, 1, 2, 3].map(|n| unsafe { _mm_loadu_si128(quarters[n].as_ptr().cast()) })
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{halves, quarters};

/// What each way that this processor can go makes of a block.
#[cfg(test)]
pub(super) fn classified_every_way(block: &[u8; BLOCK]) -> Vec<(&'static str, lanes::Classes)> {
    let mut ways = vec![("plain", lanes::plain(block)), ("usual", classify(block))];
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was just found to be there.
        ways.push(("avx2", unsafe { lanes::avx2(block) }));
    }
    ways
}

/// The parities of bits, in each way that this processor can go.
#[cfg(test)]
pub(super) fn parities_every_way(bits: u64) -> Vec<u64> {
    let mut ways = vec![lanes::parities(bits)];
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: what this asks for was just found to be there.
        ways.push(unsafe { lanes::multiplied_parities(bits) });
    }
    ways
}

/// A container as a processor without the newer instructions checks it.
#[cfg(test)]
pub(super) fn container_the_slow_way(bytes: &[u8], depths: (usize, usize)) -> Option<usize> {
    let read = |blocks: &mut _| super::blocks::Blocks::read(blocks, lanes::plain, lanes::parities);
    container_with(bytes, 0, depths, read).ok().map(|(end, _)| end)
}
