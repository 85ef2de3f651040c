//! Reader for large objects and arrays: it checks whole blocks and visits only the brackets.

use super::byte_reader::chunk;
use super::nesting::Levels;
use super::simd_check::{Carry, Classifier, last_block};
use super::simd_classes::BLOCK;

pub(super) use super::unchecked::container;

/// Checks the object or array that begins at `start`. Returns its end, and whether bytes up to
/// there, or a little further, are not ASCII.
///
/// `None` if it is not JSON, or nested deeper than `max_depth` or than [`Levels`] can hold. A
/// slower reader must then find the reason and its position.
#[inline(always)]
pub(super) fn container_with(
    bytes: &[u8],
    start: usize,
    max_depth: usize,
    classifier: &impl Classifier,
) -> Option<(usize, bool)> {
    let most = max_depth.min(Levels::MOST as usize) as u32;
    let mut levels = Levels::NONE;
    let mut carry = Carry::default();
    let mut high = 0;
    let mut place = start;
    let mut padded;
    while place < bytes.len() {
        let block = match chunk(bytes, place) {
            Some(block) => block,
            None => {
                padded = last_block(bytes, place);
                &padded
            }
        };
        let classes = classifier.classes(block);
        high |= classes.any_high;
        if carry.is_in_string(&classes) {
            place += BLOCK;
            continue;
        }
        let block = carry.read(bytes, place, block, &classes, classifier)?;
        let passed = levels.over(block.brackets, most)?;
        let broken = carry.broken(&block, &passed);
        if let Some(end) = passed.end {
            let is_whole = broken & (u64::MAX >> (63 - end)) == 0;
            return is_whole.then_some((place + end as usize + 1, high != 0));
        }
        if broken != 0 {
            return None;
        }
        place += BLOCK;
    }
    None
}
