//! Method table: names that only the program itself can add to.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Values by name.
///
/// Names are looked up at the remote's will, but it cannot add any, so it cannot make them collide
/// either; a hasher that is proof against that would cost more than the rest of the look-up.
pub(crate) type MethodTable<T> = HashMap<Box<str>, T, BuildHasherDefault<NameHasher>>;

/// Eight bytes at a time: turn, add, multiply.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl NameHasher {
    /// An odd number with its bits well mixed: the golden ratio's.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(Self::FACTOR);
    }
}

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        self.add(rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table looks at the highest and at the lowest bits, and only the former are mixed.
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn names_are_told_apart() {
        let hasher = BuildHasherDefault::<NameHasher>::default();
        let names = (0..10_000).map(|n| format!("workspace/method{n}"));
        let hashes: HashSet<_> = names.map(|name| hasher.hash_one(name.as_str())).collect();
        assert_eq!(hashes.len(), 10_000);
        let low_bits: HashSet<_> = hashes.iter().map(|hash| hash & 0x3fff).collect();
        assert!(low_bits.len() > 5_000, "{}", low_bits.len());
    }

    #[test]
    fn a_name_and_its_beginnings_differ() {
        let hasher = BuildHasherDefault::<NameHasher>::default();
        let name = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let hashes: HashSet<_> = (0..name.len()).map(|n| hasher.hash_one(&name[..n])).collect();
        assert_eq!(hashes.len(), name.len());
    }
}
