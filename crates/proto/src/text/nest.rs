//! Which containers are open.

/// One bit a level, for up to `64 * WORDS` levels: whether the container around that level is an
/// object. A small one costs less to begin with.
pub(super) struct Nest<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Nest<WORDS> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Nest([0; WORDS])
    }

    #[inline(always)]
    pub(super) fn remember(&mut self, depth: usize, in_object: bool) {
        let word = &mut self.0[(depth / 64) % WORDS];
        *word = *word & !(1 << (depth % 64)) | u64::from(in_object) << (depth % 64);
    }

    #[inline(always)]
    pub(super) fn recall(&self, depth: usize) -> bool {
        self.0[(depth / 64) % WORDS] >> (depth % 64) & 1 == 1
    }
}
