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

/// The brackets of a block of a text, a bit for each.
#[derive(Clone, Copy)]
pub(super) struct Brackets {
    pub(super) opens: u64,
    pub(super) closes: u64,
    /// Those that are `{` or `}`; what else is set here is none.
    pub(super) curly: u64,
}

/// The open containers in one register, for as many levels as that has.
///
/// The lowest bit is the innermost level, set if that is an object. The highest bit that is set is
/// no level: it marks how many there are.
#[derive(Clone, Copy)]
pub(super) struct Levels(u64);

impl Levels {
    /// As many as it can hold.
    pub(super) const MOST: u32 = 63;

    pub(super) const NONE: Levels = Levels(1);

    fn count(self) -> u32 {
        63 - self.0.leading_zeros()
    }

    /// Goes over the brackets of a block. Returns which places stand in an object, a bracket itself
    /// in what is around it; and the place of the bracket that closes the outermost level, if it is
    /// there. What is closed must be what was opened: that is for the caller to see.
    ///
    /// `None` if there are more levels than `most`, which is at most [`Levels::MOST`].
    #[inline(always)]
    pub(super) fn over(&mut self, brackets: Brackets, most: u32) -> Option<(u64, Option<u32>)> {
        if self.count() + brackets.opens.count_ones() > most && self.exceed(brackets, most) {
            return None;
        }
        let mut levels = self.0;
        let all = brackets.opens | brackets.closes;
        let mut pending = all;
        // The brackets behind which an object goes on.
        let mut objects = 0;
        let mut end = None;
        while pending != 0 {
            let place = pending.trailing_zeros();
            pending &= pending - 1;
            // No branch, as there is no guessing what comes.
            let opened = levels << 1 | brackets.curly >> place & 1;
            let closed = levels >> 1;
            levels = if brackets.opens >> place & 1 == 1 { opened } else { closed };
            objects |= (levels & 1) << place;
            if levels == Self::NONE.0 {
                end = Some(place);
                break;
            }
        }
        // Behind each of these, adding a bit to the run of what is no bracket carries through to
        // the next that is one: so all between them changes.
        let others = !all;
        let in_object = others.wrapping_add(objects << 1 | self.0 & 1) ^ others;
        self.0 = levels;
        Some((in_object, end))
    }

    /// Whether the brackets of a block open more levels than `most` at a time.
    #[cold]
    fn exceed(self, brackets: Brackets, most: u32) -> bool {
        let mut count = self.count();
        let mut pending = brackets.opens | brackets.closes;
        while pending != 0 {
            let place = pending.trailing_zeros();
            match brackets.opens >> place & 1 {
                1 if count >= most => return true,
                1 => count += 1,
                // What stands behind the end is another's.
                _ if count <= 1 => return false,
                _ => count -= 1,
            }
            pending &= pending - 1;
        }
        false
    }
}
