//! The one place with `unsafe` in this project: a few calls, each with the reason why it is
//! sound.

#![allow(unsafe_code)]

use super::blocks::{Block, Blocks};
use super::lanes::BLOCK;

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

/// Reads a block in the fastest way that this processor has.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn read(blocks: &mut Blocks<'_>) -> Option<Block> {
    // The answer is remembered by the standard library: this is one load.
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was just found to be there, which is all that this asks for.
        unsafe { x86::read_with_avx2(blocks) }
    } else {
        // SAFETY: SSE2 is part of x86-64 itself; there is no such processor without it.
        unsafe { x86::read_with_sse2(blocks) }
    }
}

/// The bytes of a block at which a string ends or breaks, and whether any is not ASCII.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn string_bytes(block: &[u8; BLOCK]) -> (u64, bool) {
    // SAFETY: SSE2 is part of x86-64 itself; there is no such processor without it.
    let classes = unsafe { super::lanes::sse2(block) };
    (classes.quote | classes.backslash | classes.control, classes.high != 0)
}

/// The bytes of a block at which a string ends or breaks, and whether any is not ASCII.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn string_bytes(block: &[u8; BLOCK]) -> (u64, bool) {
    let classes = super::lanes::plain(block);
    (classes.quote | classes.backslash | classes.control, classes.high != 0)
}

/// Reads a block.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn read(blocks: &mut Blocks<'_>) -> Option<Block> {
    blocks.read(super::lanes::plain)
}

/// The whole reading is compiled once for each, so that the classing becomes a part of it.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m128i, __m256i, _mm_loadu_si128, _mm256_loadu_si256};

    use super::super::lanes::{avx2, sse2};
    use super::{BLOCK, Block, Blocks};

    #[target_feature(enable = "avx2")]
    pub(super) fn read_with_avx2(blocks: &mut Blocks<'_>) -> Option<Block> {
        blocks.read(|block| avx2(block))
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn read_with_sse2(blocks: &mut Blocks<'_>) -> Option<Block> {
        blocks.read(|block| sse2(block))
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
pub(super) fn classified_every_way(
    block: &[u8; BLOCK],
) -> Vec<(&'static str, super::lanes::Classes)> {
    let mut ways = vec![("plain", super::lanes::plain(block))];
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: SSE2 is part of x86-64 itself.
        ways.push(("sse2", unsafe { super::lanes::sse2(block) }));
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was just found to be there.
            ways.push(("avx2", unsafe { super::lanes::avx2(block) }));
        }
    }
    ways
}
