//! Sixty-four bytes at a time: which of them are what JSON cares about.
//!
//! A byte-by-byte scanner waits for each string to end before it can look at what follows. Here
//! all bytes of a block are classed at once, without a branch, and the grammar then looks only
//! at the few that matter. On x86-64 the work is done with AVX2 where the processor has it and
//! with SSE2 where not; elsewhere plain code does the same.

/// The bytes of one block.
pub(super) const BLOCK: usize = 64;

/// The classes of a block's bytes; bit *n* of each speaks of byte *n*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// `"`
    pub(super) quote: u64,
    /// `\`
    pub(super) backslash: u64,
    /// One of `{ } [ ] : ,`, or one of two control characters that are the same but for
    /// [`FOLD`]; the grammar refuses those, as it would anyway.
    pub(super) structural: u64,
    /// `:`
    pub(super) colon: u64,
    /// `,`
    pub(super) comma: u64,
    /// Space, tab, LF or CR.
    pub(super) white: u64,
    /// Below 0x20: not allowed inside a string.
    pub(super) control: u64,
    /// `0` to `9`
    pub(super) digit: u64,
    /// `0`
    pub(super) zero: u64,
    /// Not ASCII.
    pub(super) high: u64,
}

/// Set in every byte before the structural ones are looked for: it makes `[` and `]` into `{`
/// and `}`, so that four comparisons do for six.
const FOLD: u8 = 0x20;

/// Below this, bytes are control characters.
const FIRST_PRINTABLE: u8 = 0x20;

/// Where a short string is looked at: so many bytes at once, as every x86-64 has it.
pub(super) const LANE: usize = 16;

/// What matters of the bytes inside a string; bit *n* of each speaks of byte *n*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    /// Quote, backslash, control character: where the string ends, or breaks.
    pub(super) ends: u32,
    /// Not ASCII.
    pub(super) high: u32,
}

impl Special {
    /// Without the first bytes: those behind them move up.
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

/// The same for any processor.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain_special(lane: &[u8; LANE]) -> Special {
    let is_end = |byte: u8| byte == b'"' || byte == b'\\' || byte < FIRST_PRINTABLE;
    lane.iter().rev().fold(Special { ends: 0, high: 0 }, |special, &byte| Special {
        ends: special.ends << 1 | u32::from(is_end(byte)),
        high: special.high << 1 | u32::from(!byte.is_ascii()),
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn avx2(block: &[u8; BLOCK]) -> Classes {
    use std::arch::x86_64::{
        __m256i, _mm_setr_epi8, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
        _mm256_xor_si256,
    };
    // Looked up by a byte's low four bits, a table holds the one byte of the class that has
    // them, so a byte is of the class if it equals what it finds. Nothing that finds a zero can
    // equal it, and bytes that are not ASCII always find one.
    let white_table = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0x09, 0x0a, 0, 0, 0x0d, 0, 0,
    ));
    let structural_table = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3a, 0x7b, 0x2c, 0x7d, 0, 0,
    ));
    let bits = |found: __m256i| _mm256_movemask_epi8(found) as u32;
    let equal = |bytes: __m256i, byte: u8| _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8));
    let half = |bytes: __m256i| {
        let folded = _mm256_or_si256(bytes, _mm256_set1_epi8(FOLD as i8));
        let at_most = _mm256_min_epu8(bytes, _mm256_set1_epi8(FIRST_PRINTABLE as i8 - 1));
        let digit = _mm256_xor_si256(bytes, _mm256_set1_epi8(b'0' as i8));
        [
            bits(equal(bytes, b'"')),
            bits(equal(bytes, b'\\')),
            bits(_mm256_cmpeq_epi8(folded, _mm256_shuffle_epi8(structural_table, bytes))),
            bits(equal(bytes, b':')),
            bits(equal(bytes, b',')),
            bits(_mm256_cmpeq_epi8(bytes, _mm256_shuffle_epi8(white_table, bytes))),
            bits(_mm256_cmpeq_epi8(bytes, at_most)),
            bits(_mm256_cmpeq_epi8(digit, _mm256_min_epu8(digit, _mm256_set1_epi8(9)))),
            bits(equal(bytes, b'0')),
            bits(bytes),
        ]
    };
    let [low, high] = super::trusted::halves(block).map(half);
    joined(|class| u64::from(low[class]) | u64::from(high[class]) << 32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn sse2(block: &[u8; BLOCK]) -> Classes {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_xor_si128,
    };
    let bits = |found: __m128i| u64::from(_mm_movemask_epi8(found) as u16);
    let equal = |bytes: __m128i, byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
    let any = |bytes: __m128i, of: [u8; 4]| {
        let [a, b, c, d] = of.map(|byte| equal(bytes, byte));
        _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))
    };
    let quarter = |bytes: __m128i| {
        let folded = _mm_or_si128(bytes, _mm_set1_epi8(FOLD as i8));
        let at_most = _mm_min_epu8(bytes, _mm_set1_epi8(FIRST_PRINTABLE as i8 - 1));
        let digit = _mm_xor_si128(bytes, _mm_set1_epi8(b'0' as i8));
        [
            bits(equal(bytes, b'"')),
            bits(equal(bytes, b'\\')),
            bits(any(folded, *b":,{}")),
            bits(equal(bytes, b':')),
            bits(equal(bytes, b',')),
            bits(any(bytes, *b" \t\n\r")),
            bits(_mm_cmpeq_epi8(bytes, at_most)),
            bits(_mm_cmpeq_epi8(digit, _mm_min_epu8(digit, _mm_set1_epi8(9)))),
            bits(equal(bytes, b'0')),
            bits(bytes),
        ]
    };
    let quarters = super::trusted::quarters(block).map(quarter);
    joined(|class| {
        let [a, b, c, d] = quarters.map(|quarter| quarter[class]);
        a | b << 16 | c << 32 | d << 48
    })
}

/// The same for any processor, and what the others are tested against.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain(block: &[u8; BLOCK]) -> Classes {
    let all = |is: fn(u8) -> bool| {
        block.iter().rev().fold(0, |bits, &byte| bits << 1 | u64::from(is(byte)))
    };
    let classes = [
        all(|byte| byte == b'"'),
        all(|byte| byte == b'\\'),
        all(|byte| matches!(byte | FOLD, b':' | b',' | b'{' | b'}')),
        all(|byte| byte == b':'),
        all(|byte| byte == b','),
        all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
        all(|byte| byte < FIRST_PRINTABLE),
        all(|byte| byte.is_ascii_digit()),
        all(|byte| byte == b'0'),
        all(|byte| !byte.is_ascii()),
    ];
    joined(|class| classes[class])
}

/// Makes each bit the parity of itself and all lower ones: multiplying by all ones, without
/// carries, does just that.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2,pclmulqdq")]
#[inline]
pub(super) fn multiplied_parities(bits: u64) -> u64 {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi8,
    };
    let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1));
    _mm_cvtsi128_si64(product) as u64
}

/// The same for any processor.
#[inline(always)]
pub(super) fn parities(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[inline(always)]
fn joined(class: impl Fn(usize) -> u64) -> Classes {
    Classes {
        quote: class(0),
        backslash: class(1),
        structural: class(2),
        colon: class(3),
        comma: class(4),
        white: class(5),
        control: class(6),
        digit: class(7),
        zero: class(8),
        high: class(9),
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Classes, LANE, plain, plain_special};

    fn check(block: &[u8; BLOCK]) {
        let expect = plain(block);
        for (name, found) in super::super::trusted::classified_every_way(block) {
            assert_eq!(found, expect, "{name}: {block:?}");
        }
    }

    #[test]
    fn every_byte_value_is_classed_alike_in_every_place() {
        for byte in 0..=255u8 {
            for place in 0..BLOCK {
                let mut block = [b'x'; BLOCK];
                block[place] = byte;
                block[(place + 1) % BLOCK] = byte.wrapping_add(1);
                check(&block);
            }
            check(&[byte; BLOCK]);
        }
    }

    #[test]
    fn every_byte_value_is_special_alike_in_every_place() {
        for byte in 0..=255u8 {
            for place in 0..LANE {
                let mut lane = [b'x'; LANE];
                lane[place] = byte;
                lane[(place + 1) % LANE] = byte.wrapping_add(1);
                let (expect, found) = (plain_special(&lane), super::super::trusted::special(&lane));
                assert_eq!(found, expect, "{lane:?}");
            }
        }
    }

    #[test]
    fn parities_are_counted_alike() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for shift in 0..1000 {
            bits = bits.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(shift) ^ u64::from(shift);
            let expect = (0..64)
                .fold(0, |found, n| found | u64::from((bits << (63 - n)).count_ones() % 2) << n);
            for found in super::super::trusted::parities_every_way(bits) {
                assert_eq!(found, expect, "{bits:x}");
            }
        }
    }

    #[test]
    fn the_plain_version_says_what_the_classes_mean() {
        let mut block = [b'x'; BLOCK];
        block[..13].copy_from_slice(b"\"\\{}[]:, \t\n\r\x01");
        block[60..].copy_from_slice(b"\x0f09\xff");
        let found = plain(&block);
        let expect = Classes {
            quote: 0b1,
            backslash: 0b10,
            structural: 0b1111_1100,
            colon: 0b0100_0000,
            comma: 0b1000_0000,
            white: 0b1111_0000_0000,
            control: 1 << 60 | 0b1_1110_0000_0000,
            digit: 0b11 << 61,
            zero: 1 << 61,
            high: 1 << 63,
        };
        assert_eq!(found, expect);
    }
}
