//! Grammar check for blocks of 64 bytes: everything but the matching of brackets.
//!
//! Almost no byte is visited on its own. The rules of RFC 8259 are phrased so that bit operations
//! decide for all bytes of a block together which may follow which, white space aside:
//!
//! - A value never follows directly after another value.
//! - `,` and closing brackets stand directly after a value, except the closing bracket of an empty
//!   container.
//! - `:` stands directly after a string.
//! - The next structural character after the `{` of an object that is not empty, and after a `,`
//!   in an object, is a `:`. A `:` stands nowhere else. (The structural characters are
//!   `{ } [ ] : ,` outside of strings.)
//!
//! Only the brackets decide which commas belong to an object: see [`nesting`](super::nesting).

use super::nesting::{Brackets, Passed};
use super::scalar;
use super::simd_classes::{BLOCK, Classes, Rare, Signs};

/// Classifies the bytes of a block. Each kind of processor has an implementation.
pub(super) trait Classifier {
    /// Finds the classes of the bytes.
    fn classes(&self, block: &[u8; BLOCK]) -> Classes;
    /// Finds the rare bytes.
    fn rare(&self, block: &[u8; BLOCK]) -> Rare;
    /// Finds signs and decimal points.
    fn signs(&self, block: &[u8; BLOCK]) -> Signs;
    /// Makes each bit the parity of itself and all lower ones.
    fn parities(&self, bits: u64) -> u64;
}

/// State that one block passes to the next.
#[derive(Default)]
pub(super) struct Carry {
    /// All ones if the last block ended inside a string.
    in_string: u64,
    /// In this and the following fields only bit 0 counts. The last block ended inside a number or
    /// word.
    in_scalar: u64,
    /// The last block ended with a backslash that escapes the next byte.
    escaped: u64,
    /// The last byte that is not white space was the end of a value.
    behind_value: u64,
    /// That byte belonged to a number or word.
    behind_scalar: u64,
    /// That byte was an opening bracket.
    behind_opening: u64,
    /// The next structural character must be a colon, or close the object that was just opened.
    name_due: u64,
    /// Numbers and words were checked byte by byte up to here, if this is past the last block.
    checked_to: usize,
}

/// A block after the first part of its check.
pub(super) struct Block {
    pub(super) brackets: Brackets,
    structural: u64,
    colons: u64,
    commas: u64,
    /// Curly brackets that close an empty object.
    empty: u64,
    /// Bytes that break a rule.
    broken: u64,
}

impl Carry {
    /// True if all of the next block is part of a string and has no byte that needs a check.
    #[inline(always)]
    pub(super) fn is_in_string(&self, next: &Classes) -> bool {
        next.quote | u64::from(next.any_rare) | self.escaped | !self.in_string == 0
    }

    /// Checks the block at `start` of a text. `None` if it certainly breaks a rule.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        block: &[u8; BLOCK],
        classes: &Classes,
        classifier: &impl Classifier,
    ) -> Option<Block> {
        let mut quotes = classes.quote;
        let mut control = 0;
        if u64::from(classes.any_rare) | self.escaped != 0 {
            let rare = classifier.rare(block);
            control = rare.control;
            if rare.backslash | self.escaped != 0 {
                let escaped = self.escaped_bytes(rare.backslash);
                quotes &= !escaped;
                // A backslash outside of a string is refused elsewhere.
                are_escapes(bytes, start, escaped).then_some(())?;
            }
        }
        // All bytes from an opening quote up to its closing quote, which is not included.
        let strings = classifier.parities(quotes) ^ self.in_string;
        self.in_string = ((strings as i64) >> 63) as u64;
        let structural = classes.structural & !strings;
        let white = classes.white & !strings;
        let no_scalars = strings | quotes | structural | white;
        let scalars = !no_scalars;
        let starts = scalars & !(scalars << 1 | self.in_scalar);
        let was_in_scalar = std::mem::replace(&mut self.in_scalar, scalars >> 63);

        let openings = structural & classes.opening;
        let opens = openings & classes.bracket;
        let colons = openings & !classes.bracket;
        let endings = structural & !classes.opening;
        let closes = endings & classes.bracket;
        let commas = endings & !classes.bracket;

        let value_ends = quotes & !strings | scalars | closes;
        let (behind_value, behind_scalar, behind_opening);
        if white == 0 {
            behind_value = value_ends << 1 | self.behind_value;
            behind_scalar = scalars << 1 | self.behind_scalar;
            behind_opening = opens << 1 | self.behind_opening;
            self.behind_value = value_ends >> 63;
            self.behind_scalar = scalars >> 63;
            self.behind_opening = opens >> 63;
        } else {
            behind_value = reach(value_ends, white, &mut self.behind_value);
            behind_scalar = reach(scalars, white, &mut self.behind_scalar);
            behind_opening = reach(opens, white, &mut self.behind_opening);
        }
        let at_once = closes & behind_opening;
        let broken = (quotes & strings | starts | opens) & behind_value
            | (structural & !opens) & !(behind_value | at_once)
            | colons & behind_scalar
            | control & !white;

        let leading_zeros = classes.zero & starts & !(no_scalars >> 1);
        let odd = scalars & !classes.digit | leading_zeros;
        if odd != 0 {
            let runs = Runs { scalars, starts, digits: classes.digit, zeros: classes.zero };
            let odd = runs.without_usual(odd, was_in_scalar, block, classifier);
            if odd != 0 {
                self.check_scalars(bytes, start, odd, scalars, starts)?;
            }
        }
        Some(Block {
            brackets: Brackets { opens, closes, curly: classes.curly },
            structural,
            colons,
            commas,
            empty: at_once & classes.curly,
            broken,
        })
    }

    /// Checks the rules that need the brackets. Returns all bytes that break a rule.
    #[inline(always)]
    pub(super) fn broken(&mut self, block: &Block, passed: &Passed) -> u64 {
        let Brackets { opens, curly, .. } = block.brackets;
        let names = opens & curly | block.commas & passed.in_object;
        // If the next byte is not structural, adding its bit to the run of such bytes carries
        // through to the first structural byte.
        let (reached, past_the_end) =
            (!block.structural).overflowing_add(names << 1 | self.name_due);
        // At most one of the two is set.
        self.name_due = (names >> 63) + u64::from(past_the_end);
        block.broken
            | (reached & block.structural) ^ (block.colons | block.empty)
            | passed.mismatched
    }

    /// The bytes after a backslash that is not itself escaped.
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
    /// Checks the numbers and words that contain an odd byte one by one, each to its end, even past
    /// the end of the block. `None` if one is invalid.
    #[inline(never)]
    fn check_scalars(
        &mut self,
        bytes: &[u8],
        block: usize,
        mut odd: u64,
        scalars: u64,
        starts: u64,
    ) -> Option<()> {
        if let Some(checked) = self.checked_to.checked_sub(block) {
            odd &= u64::MAX.checked_shl(checked as u32).unwrap_or(0);
        }
        while odd != 0 {
            let before = starts & (odd ^ (odd - 1));
            let start = if before == 0 {
                // It began in an earlier block, with digits only.
                let digits = bytes[..block].iter().rev().take_while(|byte| byte.is_ascii_digit());
                block - digits.count()
            } else {
                block + before.ilog2() as usize
            };
            self.checked_to = scalar::end_of_whole(bytes, start)?;
            // Clear all bits of this run.
            let (others, is_cut) = scalars.overflowing_add(odd & odd.wrapping_neg());
            odd &= if is_cut { 0 } else { others };
        }
        Some(())
    }
}

/// True if all of these bytes may follow a backslash.
#[inline(never)]
fn are_escapes(bytes: &[u8], start: usize, mut escaped: u64) -> bool {
    while escaped != 0 {
        let offset = escaped.trailing_zeros() as usize;
        if scalar::end_of_escape(bytes, start + offset).is_none() {
            return false;
        }
        escaped &= escaped - 1;
    }
    true
}

/// The numbers and words of a block, as runs of bytes.
struct Runs {
    scalars: u64,
    /// The first byte of each run, unless the run began in the block before.
    starts: u64,
    digits: u64,
    zeros: u64,
}

impl Runs {
    /// Removes the harmless bytes from `odd`. Odd bytes are all except the digits of a plain integer.
    /// A sign or decimal point in its place and the words `true`, `false` and `null` are harmless. A
    /// run that the end of the block cuts keeps all its odd bytes.
    #[inline(always)]
    fn without_usual(
        &self,
        odd: u64,
        in_scalar: u64,
        block: &[u8; BLOCK],
        classifier: &impl Classifier,
    ) -> u64 {
        let Runs { scalars, starts, digits, zeros } = *self;
        let signs = classifier.signs(block);
        let minus = signs.minus & starts & digits >> 1;
        let leading_zeros = zeros & minus << 1 & digits >> 1;
        // Adding a number's first digit to the run of digits carries through to the byte after it.
        let firsts = digits & (starts | minus << 1 | in_scalar);
        let whole_ends = digits.wrapping_add(firsts) & !digits;
        let points = signs.point & whole_ends & digits >> 1;
        let last_run = u64::MAX << (starts | 1).ilog2();
        let cut = last_run & ((scalars as i64) >> 63) as u64;
        let mut rest = odd & !(minus | points) | leading_zeros;
        let mut words = rest & starts;
        while words != 0 {
            let offset = words.trailing_zeros();
            let run = scalars >> offset;
            let word = block.get(offset as usize..).and_then(|rest| rest.first_chunk::<8>());
            let word = u64::from_le_bytes(word.copied().unwrap_or_default());
            const TRUE: u64 = u32::from_le_bytes(*b"true") as u64;
            const NULL: u64 = u32::from_le_bytes(*b"null") as u64;
            const FALSE: u64 = u64::from_le_bytes(*b"false\0\0\0");
            let length = match word & 0xffff_ffff {
                TRUE | NULL if run & 0x1f == 0xf => 4,
                _ if word & 0xff_ffff_ffff == FALSE && run & 0x3f == 0x1f => 5,
                _ => 0,
            };
            rest &= !(((1 << length) - 1) << offset);
            words &= words - 1;
        }
        rest | odd & cut
    }
}

/// The last bytes of a text, padded with spaces.
#[inline(always)]
pub(super) fn last_block(bytes: &[u8], start: usize) -> [u8; BLOCK] {
    let rest = bytes.len().saturating_sub(start).min(BLOCK);
    let mut padded = [b' '; 2 * BLOCK];
    // Copies of a fixed size are cheap, so this copies more than it needs.
    let wanted = match bytes.last_chunk::<BLOCK>() {
        Some(last) => {
            padded[..BLOCK].copy_from_slice(last);
            &padded[BLOCK - rest..]
        }
        None => {
            padded[..rest].copy_from_slice(&bytes[bytes.len() - rest..]);
            &padded[..]
        }
    };
    wanted.first_chunk().copied().unwrap_or([b' '; BLOCK])
}

/// The first byte that is not white space after each byte in `ends`. `carry` passes an unfinished
/// search from block to block.
#[inline(always)]
fn reach(ends: u64, white: u64, carry: &mut u64) -> u64 {
    // If the next byte is white, adding its bit to the run of white bytes carries through to the
    // first byte that is not.
    let (reached, past_the_end) = white.overflowing_add(ends << 1 | *carry);
    // At most one of the two is set.
    *carry = (ends >> 63) + u64::from(past_the_end);
    reached & !white
}
