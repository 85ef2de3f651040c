//! Scan of a string, 16 bytes at a time, for the bytes at which it ends or breaks.

use super::simd_classes::FIRST_PRINTABLE;

/// The number of bytes scanned together: one SSE2 register, which every x86-64 has.
pub(super) const LANE: usize = 16;

/// The special bytes inside a string: bit *n* of each field stands for byte *n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    /// Quote, backslash or control character: the string ends or breaks here.
    pub(super) ends: u32,
    /// Not ASCII.
    pub(super) high: u32,
}

impl Special {
    /// Removes the first `count` bytes.
    pub(super) fn without(self, count: usize) -> Self {
        Special { ends: self.ends >> count, high: self.high >> count }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn sse2_special(lane: std::arch::x86_64::__m128i) -> Special {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    let quote = _mm_cmpeq_epi8(lane, _mm_set1_epi8(b'"' as i8));
    let backslash = _mm_cmpeq_epi8(lane, _mm_set1_epi8(b'\\' as i8));
    let at_most = _mm_min_epu8(lane, _mm_set1_epi8(FIRST_PRINTABLE as i8 - 1));
    let ends = _mm_or_si128(_mm_or_si128(quote, backslash), _mm_cmpeq_epi8(lane, at_most));
    Special { ends: _mm_movemask_epi8(ends) as u32, high: _mm_movemask_epi8(lane) as u32 }
}

/// Plain code for any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain_special(lane: &[u8; LANE]) -> Special {
    let is_end = |byte: u8| byte == b'"' || byte == b'\\' || byte < FIRST_PRINTABLE;
    lane.iter().rev().fold(Special { ends: 0, high: 0 }, |special, &byte| Special {
        ends: special.ends << 1 | u32::from(is_end(byte)),
        high: special.high << 1 | u32::from(!byte.is_ascii()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::differential_tests::EVERY;
    use super::{LANE, plain_special};

    #[test]
    fn every_variant_finds_special_bytes_alike_in_every_place() {
        for byte in (0..=255u8).step_by(EVERY) {
            for place in 0..LANE {
                let mut lane = [b'x'; LANE];
                lane[place] = byte;
                lane[(place + 1) % LANE] = byte.wrapping_add(1);
                let (expect, found) =
                    (plain_special(&lane), super::super::unchecked::special(&lane));
                assert_eq!(found, expect, "{lane:?}");
            }
        }
    }
}
