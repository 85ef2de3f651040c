//! Sixty-four bytes of a text, checked at once: all but which brackets belong together.
//!
//! An *atom* is a string, a number or a word. No character is visited, nearly: what may stand
//! behind what is decided for all bytes of a block together, with a bit for each. The rules of
//! RFC 8259 are put so that this can be done:
//!
//! - No value begins right behind another.
//! - `,` and closing brackets stand right behind a value, but for brackets that close at once.
//! - `:` stands right behind a string.
//! - Next to a `{` that does not close at once, and next to a `,` of an object, comes a `:`, and
//!   nowhere else. (*Next* among the structural characters, that is among `{ } [ ] : ,` outside of
//!   strings.)
//!
//! Which commas are an object's only the brackets tell: see [`nesting`](super::nesting).

use super::nesting::{Brackets, Passed};
use super::scalar;
use super::simd_classes::{BLOCK, Classes, Rare, Signs};

/// How to look at a block, which differs from processor to processor.
pub(super) trait Classifier {
    /// Classes the bytes.
    fn classes(&self, block: &[u8; BLOCK]) -> Classes;
    /// Finds those that are rare.
    fn rare(&self, block: &[u8; BLOCK]) -> Rare;
    /// Finds what makes a number more than digits.
    fn signs(&self, block: &[u8; BLOCK]) -> Signs;
    /// Makes each bit the parity of itself and all lower ones.
    fn parities(&self, bits: u64) -> u64;
}

/// What one block must tell the next.
#[derive(Default)]
pub(super) struct Carry {
    /// All ones if the last block ended inside a string.
    in_string: u64,
    /// In the others only bit 0 counts. This: the last block ended inside a number or word.
    in_scalar: u64,
    /// It ended with a backslash that escapes what comes next.
    escaped: u64,
    /// The last thing in it, but for white space, was the end of a value.
    behind_value: u64,
    /// It was a number or word.
    behind_scalar: u64,
    /// It was an opening bracket.
    behind_opening: u64,
    /// The next structural character must be a colon, or close what was just opened.
    name_due: u64,
    /// Up to here numbers and words were read byte by byte, if that is past the last block.
    checked_to: usize,
}

/// A block, as far as it was checked.
pub(super) struct Block {
    pub(super) brackets: Brackets,
    structural: u64,
    colons: u64,
    commas: u64,
    /// Curly brackets that close at once.
    empty: u64,
    /// Where a rule is broken.
    broken: u64,
}

impl Carry {
    /// Whether all of the next block is a piece of a string, with nothing that needs a classifier.
    #[inline(always)]
    pub(super) fn is_in_string(&self, next: &Classes) -> bool {
        next.quote | u64::from(next.any_rare) | self.escaped | !self.in_string == 0
    }

    /// Looks at the block that begins at `start` of a text. `None` if it breaks a rule for certain.
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
                // Outside of strings a backslash is refused anyway.
                are_escapes(bytes, start, escaped).then_some(())?;
            }
        }
        // From each opening quote up to, but without, its closing one.
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

    /// The rest of the rules, once the brackets were passed: all places where one is broken.
    #[inline(always)]
    pub(super) fn broken(&mut self, block: &Block, passed: &Passed) -> u64 {
        let Brackets { opens, curly, .. } = block.brackets;
        let names = opens & curly | block.commas & passed.in_object;
        // Where the character behind is not structural, adding its bit to the run of such bytes
        // carries through to the first that is.
        let (reached, past_the_end) =
            (!block.structural).overflowing_add(names << 1 | self.name_due);
        // Never both.
        self.name_due = (names >> 63) + u64::from(past_the_end);
        block.broken
            | (reached & block.structural) ^ (block.colons | block.empty)
            | passed.mismatched
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
    /// Looks at the numbers and words that have one of these odd bytes, one by one, each to its end,
    /// even if that is past the end of the block. `None` if one is broken.
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
                // It began in the block before, where all of it were digits.
                let digits = bytes[..block].iter().rev().take_while(|byte| byte.is_ascii_digit());
                block - digits.count()
            } else {
                block + before.ilog2() as usize
            };
            self.checked_to = scalar::end_of_whole(bytes, start)?;
            // On to the next run: all bits of this one go.
            let (others, is_cut) = scalars.overflowing_add(odd & odd.wrapping_neg());
            odd &= if is_cut { 0 } else { others };
        }
        Some(())
    }
}

/// Whether all of these bytes may stand behind a backslash.
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

/// The numbers and words of a block: runs of bytes.
struct Runs {
    scalars: u64,
    /// Where one begins, unless it goes on from the block before.
    starts: u64,
    digits: u64,
    zeros: u64,
}

impl Runs {
    /// Of the odd bytes, those that make a number or word something else than a plain integer,
    /// leaves out what is a sign or point in its place, or a word. Of a run that is cut by the end
    /// of the block all are left in.
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
        // Adding a number's first digit to the run of digits carries through to what ends it.
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

/// The last bytes of a text, filled up with spaces.
#[inline(always)]
pub(super) fn last_block(bytes: &[u8], start: usize) -> [u8; BLOCK] {
    let rest = bytes.len().saturating_sub(start).min(BLOCK);
    let mut padded = [b' '; 2 * BLOCK];
    // Copies of one size are cheap, so more is copied than is wanted.
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

/// The first bytes that are not white space behind those in `ends`. `carry` says, from block to
/// block, whether the last one was still looking for it.
#[inline(always)]
fn reach(ends: u64, white: u64, carry: &mut u64) -> u64 {
    // Where the byte behind is white, adding its bit to the run of white bytes carries through
    // to the first byte that is not.
    let (reached, past_the_end) = white.overflowing_add(ends << 1 | *carry);
    // Never both.
    *carry = (ends >> 63) + u64::from(past_the_end);
    reached & !white
}
