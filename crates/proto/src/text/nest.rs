//! Which containers are open.

use super::MAX_DEPTH;

/// One bit a level: whether the container around that level is an object.
#[derive(Default)]
pub(super) struct Nest([u64; MAX_DEPTH / 64]);

impl Nest {
    #[inline(always)]
    pub(super) fn remember(&mut self, depth: usize, in_object: bool) {
        let word = &mut self.0[(depth / 64) % (MAX_DEPTH / 64)];
        *word = *word & !(1 << (depth % 64)) | u64::from(in_object) << (depth % 64);
    }

    #[inline(always)]
    pub(super) fn recall(&self, depth: usize) -> bool {
        self.0[(depth / 64) % (MAX_DEPTH / 64)] >> (depth % 64) & 1 == 1
    }
}
