//! Byte classes of a block of 64 bytes, for the grammar check.
//!
//! A byte-by-byte scanner must find the end of a string before it can read on. Here all bytes of a
//! block are classified together, without a branch, and the grammar then visits only the few that
//! matter. On x86-64 this uses AVX2 if the processor has it, else SSE2; other processors run plain
//! code.

/// The number of bytes in a block.
pub(super) const BLOCK: usize = 64;

/// The classes of a block's bytes: bit *n* of each field stands for byte *n*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// `"`
    pub(super) quote: u64,
    /// One of `{ } [ ] : ,`, or one of two control characters that differ from these only in
    /// [`FOLD`]. The check of [`Rare`] bytes refuses those two.
    pub(super) structural: u64,
    /// A structural byte with this bit is one of `{ [ :`, without it one of `} ] ,`.
    pub(super) opening: u64,
    /// A structural byte with this bit is one of `{ } [ ]`.
    pub(super) bracket: u64,
    /// A bracket with this bit is `{` or `}`.
    pub(super) curly: u64,
    /// Space, tab, LF or CR.
    pub(super) white: u64,
    /// `0` to `9`
    pub(super) digit: u64,
    /// `0`
    pub(super) zero: u64,
    /// Not zero if some byte is not ASCII.
    pub(super) any_high: u32,
    /// Not zero if some byte belongs to [`Rare`].
    pub(super) any_rare: u32,
}

/// Bytes that are absent from most blocks. They are looked up only where some are present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rare {
    /// `\`
    pub(super) backslash: u64,
    /// Below 0x20: not allowed inside a string, and outside only if it is white space.
    pub(super) control: u64,
}

/// Bytes that are looked up only where a number is not a plain integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signs {
    /// `-`
    pub(super) minus: u64,
    /// `.`
    pub(super) point: u64,
}

/// Positions of the bits that distinguish the structural characters, counted from the lowest: see
/// [`Classes`].
const OPENING: u32 = 1;
const BRACKET: u32 = 6;
const CURLY: u32 = 5;

/// Set in every byte before the search for structural characters: it turns `[` and `]` into `{` and
/// `}`, so four comparisons suffice for six characters.
const FOLD: u8 = 0x20;

/// The first byte that is not a control character.
pub(super) const FIRST_PRINTABLE: u8 = 0x20;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn avx2(block: &[u8; BLOCK]) -> Classes {
    use std::arch::x86_64::{
        __m256i, _mm_setr_epi8, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8,
        _mm256_slli_epi16, _mm256_xor_si256,
    };
    // The low four bits of a byte select an entry of a table. The entry is the one byte of the
    // class with those bits, or zero. A byte belongs to the class if it equals its entry. No byte
    // with a zero entry equals it, and bytes that are not ASCII always select zero.
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
        let digit = _mm256_xor_si256(bytes, _mm256_set1_epi8(b'0' as i8));
        [
            bits(equal(bytes, b'"')),
            bits(_mm256_cmpeq_epi8(folded, _mm256_shuffle_epi8(structural_table, bytes))),
            bits(_mm256_slli_epi16::<{ 7 - OPENING as i32 }>(bytes)),
            bits(_mm256_slli_epi16::<{ 7 - BRACKET as i32 }>(bytes)),
            bits(_mm256_slli_epi16::<{ 7 - CURLY as i32 }>(bytes)),
            bits(_mm256_cmpeq_epi8(bytes, _mm256_shuffle_epi8(white_table, bytes))),
            bits(_mm256_cmpeq_epi8(digit, _mm256_min_epu8(digit, _mm256_set1_epi8(9)))),
            bits(equal(bytes, b'0')),
        ]
    };
    let rare = |bytes: __m256i| {
        let at_most = _mm256_min_epu8(bytes, _mm256_set1_epi8(FIRST_PRINTABLE as i8 - 1));
        _mm256_or_si256(equal(bytes, b'\\'), _mm256_cmpeq_epi8(bytes, at_most))
    };
    let halves @ [a, b] = super::unchecked::halves(block);
    let [low, high] = halves.map(half);
    joined(
        |class| u64::from(low[class]) | u64::from(high[class]) << 32,
        bits(_mm256_or_si256(a, b)),
        bits(_mm256_or_si256(rare(a), rare(b))),
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn avx2_rare(block: &[u8; BLOCK]) -> Rare {
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8,
    };
    let bits = |found: __m256i| u64::from(_mm256_movemask_epi8(found) as u32);
    let half = |bytes: __m256i| {
        let at_most = _mm256_min_epu8(bytes, _mm256_set1_epi8(FIRST_PRINTABLE as i8 - 1));
        let backslash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\' as i8));
        [bits(backslash), bits(_mm256_cmpeq_epi8(bytes, at_most))]
    };
    let [low, high] = super::unchecked::halves(block).map(half);
    Rare { backslash: low[0] | high[0] << 32, control: low[1] | high[1] << 32 }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn avx2_signs(block: &[u8; BLOCK]) -> Signs {
    use std::arch::x86_64::{__m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_set1_epi8};
    let equal = |bytes: __m256i, byte: u8| {
        let found = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8));
        u64::from(_mm256_movemask_epi8(found) as u32)
    };
    let [low, high] = super::unchecked::halves(block);
    let both = |byte| equal(low, byte) | equal(high, byte) << 32;
    Signs { minus: both(b'-'), point: both(b'.') }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn sse2(block: &[u8; BLOCK]) -> Classes {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm_slli_epi16, _mm_xor_si128,
    };
    let bits = |found: __m128i| u64::from(_mm_movemask_epi8(found) as u16);
    let equal = |bytes: __m128i, byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
    let any = |bytes: __m128i, of: [u8; 4]| {
        let [a, b, c, d] = of.map(|byte| equal(bytes, byte));
        _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))
    };
    let quarter = |bytes: __m128i| {
        let folded = _mm_or_si128(bytes, _mm_set1_epi8(FOLD as i8));
        let digit = _mm_xor_si128(bytes, _mm_set1_epi8(b'0' as i8));
        [
            bits(equal(bytes, b'"')),
            bits(any(folded, *b":,{}")),
            bits(_mm_slli_epi16::<{ 7 - OPENING as i32 }>(bytes)),
            bits(_mm_slli_epi16::<{ 7 - BRACKET as i32 }>(bytes)),
            bits(_mm_slli_epi16::<{ 7 - CURLY as i32 }>(bytes)),
            bits(any(bytes, *b" \t\n\r")),
            bits(_mm_cmpeq_epi8(digit, _mm_min_epu8(digit, _mm_set1_epi8(9)))),
            bits(equal(bytes, b'0')),
            bits(bytes),
        ]
    };
    let quarters = super::unchecked::quarters(block).map(quarter);
    let class = |class: usize| {
        let [a, b, c, d] = quarters.map(|quarter| quarter[class]);
        a | b << 16 | c << 32 | d << 48
    };
    joined(class, u32::from(class(8) != 0), u32::from(sse2_rare(block) != Rare::default()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn sse2_rare(block: &[u8; BLOCK]) -> Rare {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8,
    };
    let bits = |found: __m128i| u64::from(_mm_movemask_epi8(found) as u16);
    let quarter = |bytes: __m128i| {
        let at_most = _mm_min_epu8(bytes, _mm_set1_epi8(FIRST_PRINTABLE as i8 - 1));
        let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        [bits(backslash), bits(_mm_cmpeq_epi8(bytes, at_most))]
    };
    let quarters = super::unchecked::quarters(block).map(quarter);
    let [backslash, control] = [0, 1].map(|class| {
        let [a, b, c, d] = quarters.map(|quarter| quarter[class]);
        a | b << 16 | c << 32 | d << 48
    });
    Rare { backslash, control }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn sse2_signs(block: &[u8; BLOCK]) -> Signs {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
    let quarters = super::unchecked::quarters(block);
    let all = |byte: u8| {
        let [a, b, c, d] = quarters.map(|bytes| {
            let found = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            u64::from(_mm_movemask_epi8(found) as u16)
        });
        a | b << 16 | c << 32 | d << 48
    };
    Signs { minus: all(b'-'), point: all(b'.') }
}

/// Plain code for any processor. The tests compare the other variants with it.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain(block: &[u8; BLOCK]) -> Classes {
    let all = |is: fn(u8) -> bool| bits_of(block, is);
    let classes = [
        all(|byte| byte == b'"'),
        all(|byte| matches!(byte | FOLD, b':' | b',' | b'{' | b'}')),
        all(|byte| byte >> OPENING & 1 == 1),
        all(|byte| byte >> BRACKET & 1 == 1),
        all(|byte| byte >> CURLY & 1 == 1),
        all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
        all(|byte| byte.is_ascii_digit()),
        all(|byte| byte == b'0'),
    ];
    let is_rare = plain_rare(block) != Rare::default();
    joined(|class| classes[class], u32::from(!block.is_ascii()), u32::from(is_rare))
}

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain_rare(block: &[u8; BLOCK]) -> Rare {
    Rare {
        backslash: bits_of(block, |byte| byte == b'\\'),
        control: bits_of(block, |byte| byte < FIRST_PRINTABLE),
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(super) fn plain_signs(block: &[u8; BLOCK]) -> Signs {
    Signs { minus: bits_of(block, |byte| byte == b'-'), point: bits_of(block, |byte| byte == b'.') }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
fn bits_of(block: &[u8; BLOCK], is: fn(u8) -> bool) -> u64 {
    block.iter().rev().fold(0, |bits, &byte| bits << 1 | u64::from(is(byte)))
}

/// Makes each bit the parity of itself and all lower bits. A carry-less multiplication by all ones
/// has this effect.
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

/// Plain code for any processor.
#[inline(always)]
pub(super) fn parities(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[inline(always)]
fn joined(class: impl Fn(usize) -> u64, any_high: u32, any_rare: u32) -> Classes {
    Classes {
        quote: class(0),
        structural: class(1),
        opening: class(2),
        bracket: class(3),
        curly: class(4),
        white: class(5),
        digit: class(6),
        zero: class(7),
        any_high,
        any_rare,
    }
}

#[cfg(test)]
mod tests {
    use super::super::differential_tests::EVERY;
    use super::{BLOCK, plain, plain_rare};

    fn check(block: &[u8; BLOCK]) {
        let mut ways = super::super::unchecked::seen_every_way(block);
        for (classes, _, _) in &mut ways {
            classes.any_high = classes.any_high.min(1);
            classes.any_rare = classes.any_rare.min(1);
        }
        assert!(ways.iter().all(|way| *way == ways[0]), "{block:?}: {ways:?}");
    }

    #[test]
    fn every_variant_classifies_every_byte_alike_in_every_place() {
        for byte in (0..=255u8).step_by(EVERY) {
            for place in (0..BLOCK).step_by(EVERY) {
                let mut block = [b'x'; BLOCK];
                block[place] = byte;
                block[(place + 1) % BLOCK] = byte.wrapping_add(1);
                check(&block);
            }
            check(&[byte; BLOCK]);
        }
    }

    #[test]
    fn every_variant_counts_parities_alike() {
        let mut bits = 0x9e37_79b9_7f4a_7c15u64;
        for shift in (0..1000).step_by(EVERY) {
            bits = bits.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(shift) ^ u64::from(shift);
            let expect = (0..64)
                .fold(0, |found, n| found | u64::from((bits << (63 - n)).count_ones() % 2) << n);
            for found in super::super::unchecked::parities_every_way(bits) {
                assert_eq!(found, expect, "{bits:x}");
            }
        }
    }

    #[test]
    fn plain_code_finds_each_class() {
        let mut block = [b'x'; BLOCK];
        block[..13].copy_from_slice(b"\"\\{}[]:, \t\n\r\x01");
        block[60..].copy_from_slice(b"\x0f09\xff");
        let (found, rare) = (plain(&block), plain_rare(&block));
        assert_eq!(found.quote, 0b1);
        assert_eq!(found.structural, 0b1111_1100);
        assert_eq!(found.structural & found.opening, 0b0101_0100);
        assert_eq!(found.structural & found.bracket, 0b0011_1100);
        assert_eq!(found.structural & found.bracket & found.curly, 0b0000_1100);
        assert_eq!(found.white, 0b1111_0000_0000);
        assert_eq!(found.digit, 0b11 << 61);
        assert_eq!(found.zero, 1 << 61);
        assert!(found.any_high != 0 && found.any_rare != 0);
        assert_eq!(rare.backslash, 0b10);
        assert_eq!(rare.control, 1 << 60 | 0b1_1110_0000_0000);
        block = [b'x'; BLOCK];
        assert!(plain(&block).any_high == 0 && plain(&block).any_rare == 0);
    }
}
