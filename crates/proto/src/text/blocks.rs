//! The structural characters of a text, one after the other, each with what stands before it.
//!
//! A structural character is one of `{ } [ ] : ,` outside of strings; an *atom* is a string, a
//! number or a word. Atoms are never visited: they are checked here in bulk, block by block, and
//! what the grammar needs to know of them is only whether one stands before a structural
//! character. That halves the number of steps.
//!
//! A block is checked as a whole, also behind the end of the value that is being read: all of it
//! belongs to the same text, which is refused for a fault anywhere.

use super::lanes::{BLOCK, Classes};
use super::scalar;

/// A walk over the structural characters. Whoever loops owns it, so that it lives in registers;
/// that is worth a third of the time.
///
/// A token is the bit of its place in the current block, so that what is known of it is one test
/// away. The end of the text is no bit at all, of which nothing is true.
pub(super) struct Tokens<'s, 'a, R> {
    blocks: &'s mut Blocks<'a>,
    current: Block,
    read: R,
}

/// The tokens of one block.
#[derive(Clone, Copy, Default)]
pub(super) struct Block {
    start: usize,
    /// The structural characters that were not given out yet.
    pending: u64,
    /// Those with an atom before them.
    behind_atom: u64,
    /// The commas.
    commas: u64,
    /// The colons that have a string before them.
    names: u64,
}

impl<'s, 'a, R: Fn(&mut Blocks<'a>) -> Option<Block>> Tokens<'s, 'a, R> {
    /// A walk over all the tokens of these blocks, which are read in a way of the caller's.
    pub(super) fn new(blocks: &'s mut Blocks<'a>, read: R) -> Self {
        Tokens { blocks, current: Block::default(), read }
    }

    /// The next token; behind the last one, the end.
    #[inline(always)]
    pub(super) fn next(&mut self) -> u64 {
        while self.current.pending == 0 {
            match (self.read)(self.blocks) {
                Some(block) => self.current = block,
                None => return 0,
            }
        }
        let token = self.current.pending & self.current.pending.wrapping_neg();
        self.current.pending ^= token;
        token
    }

    /// Whether an atom stands before the latest token.
    #[inline(always)]
    pub(super) fn has_atom(&self, latest: u64) -> bool {
        latest & self.current.behind_atom != 0
    }

    /// Whether the latest token is a comma.
    #[inline(always)]
    pub(super) fn is_comma(&self, latest: u64) -> bool {
        latest & self.current.commas != 0
    }

    /// Whether the latest token is a colon with a string before it.
    #[inline(always)]
    pub(super) fn is_name(&self, latest: u64) -> bool {
        latest & self.current.names != 0
    }

    /// The latest token's character; zero at the end.
    #[inline(always)]
    pub(super) fn byte(&self, latest: u64) -> u8 {
        self.blocks.bytes.get(self.place(latest)).copied().unwrap_or(0)
    }

    /// Where the latest token stands.
    #[inline(always)]
    pub(super) fn place(&self, latest: u64) -> usize {
        match latest {
            0 => self.blocks.bytes.len(),
            _ => self.current.start + latest.trailing_zeros() as usize,
        }
    }
}

/// A text cut into blocks, with what one block must tell the next.
pub(super) struct Blocks<'a> {
    bytes: &'a [u8],
    next: usize,
    /// All ones if the last block ended inside a string.
    in_string: u64,
    /// Bit 0: the last block ended inside a number or word.
    in_scalar: u64,
    /// Bit 0: the last block ended with a backslash that escapes what comes next.
    escaped: u64,
    /// Bit 0: the last thing in the last block, but for white space, was a string.
    behind_string: u64,
    /// The same for a number or word.
    behind_scalar: u64,
    /// Not zero once a byte that is not ASCII was seen.
    pub(super) high: u64,
    /// Where an atom was found broken.
    pub(super) broken_at: Option<usize>,
}

impl<'a> Blocks<'a> {
    /// Blocks from `start` on, which stands outside of strings.
    pub(super) fn new(bytes: &'a [u8], start: usize) -> Self {
        Blocks {
            bytes,
            next: start,
            in_string: 0,
            in_scalar: 0,
            escaped: 0,
            behind_string: 0,
            behind_scalar: 0,
            high: 0,
            broken_at: None,
        }
    }

    /// Reads the next block, if there is one, with a function that classes its bytes and one that
    /// makes each bit the parity of itself and all lower ones.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        classify: impl FnOnce(&[u8; BLOCK]) -> Classes,
        parities: impl FnOnce(u64) -> u64,
    ) -> Option<Block> {
        let start = self.next;
        let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
        self.next += BLOCK;
        let padded;
        let classes = classify(match rest.first_chunk::<BLOCK>() {
            Some(block) => block,
            None => {
                padded = padded_block(rest);
                &padded
            }
        });
        self.high |= classes.high;

        let escaped = self.escaped_bytes(classes.backslash);
        let quotes = classes.quote & !escaped;
        // From each opening quote up to, but without, its closing one.
        let strings = parities(quotes) ^ self.in_string;
        self.in_string = ((strings as i64) >> 63) as u64;
        let outside = !(strings | quotes);
        let scalars = outside & !(classes.structural | classes.white);
        let scalar_starts = scalars & !(scalars << 1 | self.in_scalar);

        let white = classes.white & outside;
        let closing = quotes & !strings;
        let behind_string = reach(closing, white, &mut self.behind_string);
        let behind_scalar = reach(scalars, white, &mut self.behind_scalar);
        // No atom may stand behind another.
        let openings = scalar_starts | (quotes & strings);
        let broken = (behind_string | behind_scalar) & openings
            | strings & (classes.control | self.bad_escapes(start, escaped))
            | self.bad_scalars(start, &classes, scalars, scalar_starts);
        self.in_scalar = scalars >> 63;
        if broken != 0 {
            return self.give_up(start + broken.trailing_zeros() as usize);
        }
        Some(Block {
            start,
            pending: outside & classes.structural,
            behind_atom: behind_string | behind_scalar,
            commas: classes.comma,
            names: classes.colon & behind_string,
        })
    }

    /// The bytes that stand behind a backslash which is not itself escaped.
    #[inline(always)]
    fn escaped_bytes(&mut self, backslashes: u64) -> u64 {
        let mut escaped = std::mem::take(&mut self.escaped);
        let mut escaping = backslashes & !escaped;
        while escaping != 0 {
            let first = escaping & escaping.wrapping_neg();
            escaped |= first << 1;
            self.escaped = first >> 63;
            escaping &= !(first | first << 1);
        }
        escaped
    }

    /// Those of the escaped bytes that may not stand behind a backslash.
    #[inline(always)]
    fn bad_escapes(&self, start: usize, escaped: u64) -> u64 {
        if escaped == 0 { 0 } else { self.look_at_escapes(start, escaped) }
    }

    #[inline(never)]
    fn look_at_escapes(&self, start: usize, escaped: u64) -> u64 {
        let is_bad = |&offset: &usize| scalar::end_of_escape(self.bytes, start + offset).is_none();
        bits(escaped).filter(is_bad).fold(0, |bad, offset| bad | 1 << offset)
    }

    /// The starts of those numbers and words that are none.
    ///
    /// A run of digits that does not begin with a zero needs no second look. All others are read
    /// byte by byte, once, from where they start, even if that is past the end of this block.
    #[inline(always)]
    fn bad_scalars(&self, start: usize, classes: &Classes, scalars: u64, starts: u64) -> u64 {
        let carried_on = scalars & !(scalars.wrapping_add(self.in_scalar & 1));
        let leading_zeros = classes.zero & starts & scalars >> 1;
        let cut_off = scalars & 1 << 63;
        let odd = (scalars & !classes.digit & !carried_on) | leading_zeros | cut_off;
        if odd == 0 { 0 } else { self.look_at_scalars(start, odd, scalars, starts) }
    }

    #[inline(never)]
    fn look_at_scalars(&self, start: usize, mut odd: u64, scalars: u64, starts: u64) -> u64 {
        let mut bad = 0;
        while odd != 0 {
            let first = odd & odd.wrapping_neg();
            let before = starts & (first | (first - 1));
            // None, if the run that is cut off at the end of this block began before it.
            if before == 0 {
                break;
            }
            let offset = before.ilog2() as usize;
            if !scalar::is_whole(self.bytes, start + offset) {
                bad |= 1 << offset;
            }
            // On to the next run: all bits of this one go.
            let run_start = 1u64 << offset;
            odd &= !(scalars & !(scalars.wrapping_add(run_start))) & !(first | (first - 1));
        }
        bad
    }

    /// Ends the tokens at a broken atom; the grammar then finds the text incomplete.
    #[cold]
    fn give_up(&mut self, place: usize) -> Option<Block> {
        self.broken_at = Some(place);
        self.next = self.bytes.len();
        None
    }
}

/// The last bytes of a text, filled up with spaces.
#[inline(never)]
fn padded_block(rest: &[u8]) -> [u8; BLOCK] {
    let mut padded = [b' '; BLOCK];
    padded[..rest.len()].copy_from_slice(rest);
    padded
}

/// The first bytes that are not white space behind those in `ends`. `carry` says, from block to
/// block, whether the last one was still looking for it.
#[inline(always)]
fn reach(ends: u64, white: u64, carry: &mut u64) -> u64 {
    let behind = ends << 1 | *carry;
    if white == 0 {
        *carry = ends >> 63;
        return behind;
    }
    // Where the byte behind is white, adding its bit to the run of white bytes carries through
    // to the first byte that is not.
    let (through, past_the_end) = (behind & white).overflowing_add(white);
    *carry = ends >> 63 | u64::from(past_the_end);
    (behind | through) & !white
}

/// The numbers of the bits that are set, from the lowest.
#[inline(always)]
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        lowest
    })
}
