//! Nesting: the kinds of the open containers.

/// A stack with one bit per level, for up to `64 * WORDS` levels. The bit is set if the container
/// around that level is an object. A stack with few words costs less to create.
pub(super) struct NestingStack<const WORDS: usize> {
    /// The innermost 64 levels, the last at the lowest bit.
    innermost: u64,
    /// Former values of `innermost`, stored when it was full.
    others: [u64; WORDS],
}

impl<const WORDS: usize> NestingStack<WORDS> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        NestingStack { innermost: 0, others: [0; WORDS] }
    }

    /// Enters a level. Levels are left in reverse order.
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

/// The brackets of a block, as bits.
#[derive(Clone, Copy)]
pub(super) struct Brackets {
    pub(super) opens: u64,
    pub(super) closes: u64,
    /// Set for `{` and `}`. Bits of bytes that are not brackets have no meaning.
    pub(super) curly: u64,
}

/// The open containers in one register, at most [`Levels::MOST`] of them.
///
/// The lowest bit is the innermost level, set if it is an object. The highest set bit is not a
/// level: it marks the number of levels.
#[derive(Clone, Copy)]
pub(super) struct Levels(u64);

/// The result of passing the brackets of a block.
pub(super) struct Passed {
    /// Bytes inside an object. A bracket counts as part of the container around it, except where a
    /// container closes immediately.
    pub(super) in_object: u64,
    /// Closing brackets that do not match their opening bracket.
    pub(super) mismatched: u64,
    /// The position of the bracket that closes the outermost level.
    pub(super) end: Option<u32>,
}

impl Levels {
    /// The maximum number of levels.
    pub(super) const MOST: u32 = 63;

    pub(super) const NONE: Levels = Levels(1);

    fn count(self) -> u32 {
        63 - self.0.leading_zeros()
    }

    /// Passes the brackets of a block, up to the bracket that closes the outermost level. `None` if
    /// there are more levels than `most`, which is at most [`Levels::MOST`].
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
            // Empty containers need no visit.
            mismatched = empty & (curly ^ curly << 1);
            all &= !(empty | empty >> 1);
            visited &= !empty;
        }
        let mut pending = all;
        // The brackets after which the text is inside an object.
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
        // Adding the bit after a bracket to the run of other bytes carries through to the next
        // bracket. So all bits between the two change.
        let others = !all;
        let in_object = others.wrapping_add(objects << 1 | self.0 & 1) ^ others;
        *self = levels;
        mismatched |= visited & (in_object ^ curly);
        Some(Passed { in_object, mismatched, end })
    }

    /// Passes a bracket. Returns its bit if the text after it is inside an object.
    #[inline(always)]
    fn pass(&mut self, place: u32, opens: u64, curly: u64) -> u64 {
        // No branch, because the processor could not predict it.
        let opened = self.0 << 1 | curly >> place & 1;
        let closed = self.0 >> 1;
        self.0 = if opens >> place & 1 == 1 { opened } else { closed };
        (self.0 & 1) << place
    }

    /// True if the brackets of a block open more levels than `most` at a time.
    #[cold]
    fn exceed(self, opens: u64, closes: u64, most: u32) -> bool {
        let mut count = self.count();
        let mut pending = opens | closes;
        while pending != 0 {
            let place = pending.trailing_zeros();
            match opens >> place & 1 {
                1 if count >= most => return true,
                1 => count += 1,
                // The bytes after the end belong to the container outside.
                _ if count <= 1 => return false,
                _ => count -= 1,
            }
            pending &= pending - 1;
        }
        false
    }
}
