//! Which containers are open.

/// One bit a level, for up to `64 * WORDS` levels: whether the container around that level is an
/// object. A small one costs less to begin with.
pub(super) struct NestingStack<const WORDS: usize> {
    /// The innermost 64 levels, with the last at the lowest bit.
    innermost: u64,
    /// What was in there before it was full.
    others: [u64; WORDS],
}

impl<const WORDS: usize> NestingStack<WORDS> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        NestingStack { innermost: 0, others: [0; WORDS] }
    }

    /// Enters a level, which is to be left before any that is around it.
    #[inline(always)]
    pub(super) fn remember(&mut self, depth: usize, in_object: bool) {
        if depth % 64 == 63 {
            self.others[(depth / 64) % WORDS] = self.innermost;
        }
        self.innermost = self.innermost << 1 | u64::from(in_object);
    }

    /// Leaves a level.
    #[inline(always)]
    pub(super) fn recall(&mut self, depth: usize) -> bool {
        let in_object = self.innermost & 1 == 1;
        self.innermost >>= 1;
        if depth % 64 == 63 {
            self.innermost = self.others[(depth / 64) % WORDS];
        }
        in_object
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

/// What is known of a block once its brackets were passed.
pub(super) struct Passed {
    /// The places that stand in an object; but for a container that closes at once, a bracket
    /// itself in what is around it.
    pub(super) in_object: u64,
    /// The brackets that close something else than was opened.
    pub(super) mismatched: u64,
    /// The place of the bracket that closes the outermost level.
    pub(super) end: Option<u32>,
}

impl Levels {
    /// As many as it can hold.
    pub(super) const MOST: u32 = 63;

    pub(super) const NONE: Levels = Levels(1);

    fn count(self) -> u32 {
        63 - self.0.leading_zeros()
    }

    /// Goes over the brackets of a block, up to the one that closes the outermost level if it is
    /// there. `None` if there are more levels than `most`, which is at most [`Levels::MOST`].
    #[inline(always)]
    pub(super) fn over(&mut self, brackets: Brackets, most: u32) -> Option<Passed> {
        let Brackets { opens, closes, curly } = brackets;
        if self.count() + opens.count_ones() > most && self.exceed(opens, closes, most) {
            return None;
        }
        let mut levels = *self;
        let (mut all, mut visited) = (opens | closes, closes);
        let mut mismatched = 0;
        let empty = closes & opens << 1;
        if empty != 0 && levels.0 != Self::NONE.0 {
            // Containers that close at once need no visit.
            mismatched = empty & (curly ^ curly << 1);
            all &= !(empty | empty >> 1);
            visited &= !empty;
        }
        let mut pending = all;
        // The brackets behind which an object goes on.
        let mut objects = 0;
        let mut end = None;
        if visited.count_ones() < self.count() {
            while pending != 0 {
                objects |= levels.pass(pending.trailing_zeros(), opens, curly);
                pending &= pending - 1;
            }
        } else {
            while pending != 0 {
                let place = pending.trailing_zeros();
                objects |= levels.pass(place, opens, curly);
                pending &= pending - 1;
                if levels.0 == Self::NONE.0 {
                    end = Some(place);
                    break;
                }
            }
        }
        // Behind each of these, adding a bit to the run of what is no bracket carries through to
        // the next that is one: so all between them changes.
        let others = !all;
        let in_object = others.wrapping_add(objects << 1 | self.0 & 1) ^ others;
        *self = levels;
        mismatched |= visited & (in_object ^ curly);
        Some(Passed { in_object, mismatched, end })
    }

    /// Passes a bracket. Returns it if an object goes on behind it.
    #[inline(always)]
    fn pass(&mut self, place: u32, opens: u64, curly: u64) -> u64 {
        // No branch, as there is no guessing what comes.
        let opened = self.0 << 1 | curly >> place & 1;
        let closed = self.0 >> 1;
        self.0 = if opens >> place & 1 == 1 { opened } else { closed };
        (self.0 & 1) << place
    }

    /// Whether the brackets of a block open more levels than `most` at a time.
    #[cold]
    fn exceed(self, opens: u64, closes: u64, most: u32) -> bool {
        let mut count = self.count();
        let mut pending = opens | closes;
        while pending != 0 {
            let place = pending.trailing_zeros();
            match opens >> place & 1 {
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
