//! Random numbers, from the keys with which the standard library seeds its hash tables.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A random number.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one(0)
}

/// A longer random number, for secrets.
pub(crate) fn seed() -> u128 {
    u128::from(number()) << 64 | u128::from(number())
}
