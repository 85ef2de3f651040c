//! All `unsafe` code of this project: a few calls, each with the reason why it is sound.

#![allow(unsafe_code)]

use super::simd::container_with;
use super::simd_check::Classifier;
use super::simd_classes::{self, BLOCK};
use super::string_scan::{self, LANE};

/// Views scanned bytes as a `&str`.
///
/// A text is checked once. Checking it again for each `&str` would cost a fifth of the decoding of
/// a small message.
///
/// Call it only with bytes for which `scan::text` returned an outline, or with a piece of such
/// bytes cut at positions that the scanner reported. Those positions stand next to ASCII
/// characters, so they never split a character.
pub(super) fn as_str(scanned: &[u8]) -> &str {
    debug_assert!(std::str::from_utf8(scanned).is_ok());
    // SAFETY: the scanner accepts a text only when every byte was ASCII, or when
    // `simdutf8::basic::from_utf8` accepted the text as a whole; see `scan::text`.
    unsafe { std::str::from_utf8_unchecked(scanned) }
}

/// `simd::container_with`, in the fastest variant that this processor supports.
#[inline]
pub(super) fn container(bytes: &[u8], start: usize, max_depth: usize) -> Option<(usize, bool)> {
    #[cfg(target_arch = "x86_64")]
    if x86::is_recent() {
        // SAFETY: `is_recent` found the instructions that this function needs.
        return unsafe { x86::container(bytes, start, max_depth) };
    }
    usual_container(bytes, start, max_depth)
}

/// `simd::container_with`, in the variant that every processor of this architecture supports.
#[inline(never)]
pub(super) fn usual_container(
    bytes: &[u8],
    start: usize,
    max_depth: usize,
) -> Option<(usize, bool)> {
    container_with(bytes, start, max_depth, &Usual)
}

/// The bytes of a lane at which a string ends or breaks, and the bytes that are not ASCII.
#[inline(always)]
pub(super) fn special(lane: &[u8; LANE]) -> string_scan::Special {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64; 16 bytes are read from a reference to 16 bytes, at any
    // alignment.
    return unsafe {
        string_scan::sse2_special(std::arch::x86_64::_mm_loadu_si128(lane.as_ptr().cast()))
    };
    #[cfg(not(target_arch = "x86_64"))]
    string_scan::plain_special(lane)
}

/// The variant that every x86-64 processor supports.
#[cfg(target_arch = "x86_64")]
struct Usual;

#[cfg(target_arch = "x86_64")]
impl Classifier for Usual {
    #[inline(always)]
    fn classes(&self, block: &[u8; BLOCK]) -> simd_classes::Classes {
        // SAFETY: SSE2 is part of x86-64; every such processor has it.
        unsafe { simd_classes::sse2(block) }
    }

    #[inline(always)]
    fn rare(&self, block: &[u8; BLOCK]) -> simd_classes::Rare {
        // SAFETY: as above.
        unsafe { simd_classes::sse2_rare(block) }
    }

    #[inline(always)]
    fn signs(&self, block: &[u8; BLOCK]) -> simd_classes::Signs {
        // SAFETY: as above.
        unsafe { simd_classes::sse2_signs(block) }
    }

    #[inline(always)]
    fn parities(&self, bits: u64) -> u64 {
        simd_classes::parities(bits)
    }
}

#[cfg(not(target_arch = "x86_64"))]
use Plain as Usual;

/// The variant that every processor supports.
#[cfg(any(test, not(target_arch = "x86_64")))]
struct Plain;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Classifier for Plain {
    fn classes(&self, block: &[u8; BLOCK]) -> simd_classes::Classes {
        simd_classes::plain(block)
    }

    fn rare(&self, block: &[u8; BLOCK]) -> simd_classes::Rare {
        simd_classes::plain_rare(block)
    }

    fn signs(&self, block: &[u8; BLOCK]) -> simd_classes::Signs {
        simd_classes::plain_signs(block)
    }

    fn parities(&self, bits: u64) -> u64 {
        simd_classes::parities(bits)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{__m128i, __m256i, _mm_loadu_si128, _mm256_loadu_si256};
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::super::simd::container_with;
    use super::super::simd_check::Classifier;
    use super::super::simd_classes::{
        BLOCK, Classes, Rare, Signs, avx2, avx2_rare, avx2_signs, multiplied_parities,
    };

    /// True if the processor has all instructions that [`container`] needs. Processors since about
    /// 2013 have them.
    #[inline(always)]
    pub(super) fn is_recent() -> bool {
        match FOUND.load(Ordering::Relaxed) {
            UNKNOWN => detect(),
            found => found == RECENT,
        }
    }

    /// The cached answer: one test instead of one for each feature.
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const OLD: u8 = 1;
    const RECENT: u8 = 2;

    #[cold]
    fn detect() -> bool {
        let is_recent = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("pclmulqdq");
        FOUND.store(if is_recent { RECENT } else { OLD }, Ordering::Relaxed);
        is_recent
    }

    /// The whole loop is compiled with these instructions, so that everything in it is inlined.
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,pclmulqdq")]
    #[inline(never)]
    pub(super) fn container(bytes: &[u8], start: usize, max_depth: usize) -> Option<(usize, bool)> {
        container_with(bytes, start, max_depth, &Recent)
    }

    /// Constructed only where [`is_recent`] holds, because all methods rely on it.
    pub(super) struct Recent;

    impl Classifier for Recent {
        #[inline(always)]
        fn classes(&self, block: &[u8; BLOCK]) -> Classes {
            // SAFETY: a `Recent` exists only on processors with AVX2.
            unsafe { avx2(block) }
        }

        #[inline(always)]
        fn rare(&self, block: &[u8; BLOCK]) -> Rare {
            // SAFETY: a `Recent` exists only on processors with AVX2.
            unsafe { avx2_rare(block) }
        }

        #[inline(always)]
        fn signs(&self, block: &[u8; BLOCK]) -> Signs {
            // SAFETY: a `Recent` exists only on processors with AVX2.
            unsafe { avx2_signs(block) }
        }

        #[inline(always)]
        fn parities(&self, bits: u64) -> u64 {
            // SAFETY: a `Recent` exists only on processors with this multiplication.
            unsafe { multiplied_parities(bits) }
        }
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

/// The classes of a block, from each variant that this processor supports.
#[cfg(test)]
pub(super) fn seen_every_way(
    block: &[u8; BLOCK],
) -> Vec<(simd_classes::Classes, simd_classes::Rare, simd_classes::Signs)> {
    fn seen(
        classifier: &impl Classifier,
        block: &[u8; BLOCK],
    ) -> (simd_classes::Classes, simd_classes::Rare, simd_classes::Signs) {
        (classifier.classes(block), classifier.rare(block), classifier.signs(block))
    }
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
    let mut ways = vec![seen(&Plain, block), seen(&Usual, block)];
    #[cfg(target_arch = "x86_64")]
    if x86::is_recent() {
        ways.push(seen(&x86::Recent, block));
    }
    ways
}

/// The parities of bits, from each variant that this processor supports.
#[cfg(test)]
pub(super) fn parities_every_way(bits: u64) -> Vec<u64> {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
    let mut ways = vec![simd_classes::parities(bits)];
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the line above found the instruction.
        ways.push(unsafe { simd_classes::multiplied_parities(bits) });
    }
    ways
}

/// `simd::container_with` in plain code, as on processors other than x86-64.
#[cfg(test)]
pub(super) fn plain_container(
    bytes: &[u8],
    start: usize,
    max_depth: usize,
) -> Option<(usize, bool)> {
    container_with(bytes, start, max_depth, &Plain)
}
