//! Large objects and arrays: whole blocks are checked at once, and only the structural
//! characters are visited.

use super::blocks::{Block, Blocks, Tokens};
use super::nest::Nest;
use super::{MAX_DEPTH, NotJson, Why, syntax};

pub(super) use super::trusted::container;

/// Checks the object or array that begins at `start`, with blocks read by `read`: where it ends,
/// and whether it holds bytes that are not ASCII.
#[inline(always)]
pub(super) fn container_with<'a>(
    bytes: &'a [u8],
    start: usize,
    (outer_depth, max_depth): (usize, usize),
    read: impl Fn(&mut Blocks<'a>) -> Option<Block>,
) -> Result<(usize, bool), NotJson> {
    let mut blocks = Blocks::new(bytes, start);
    let walked = walk(Tokens::new(&mut blocks, read), outer_depth, max_depth);
    match blocks.broken_at {
        Some(at) => Err(syntax(at)),
        None => walked.map(|end| (end, blocks.high != 0)),
    }
}

#[inline(always)]
fn walk<'a>(
    mut tokens: Tokens<'_, 'a, impl Fn(&mut Blocks<'a>) -> Option<Block>>,
    outer_depth: usize,
    max_depth: usize,
) -> Result<usize, NotJson> {
    let mut nest = Nest::<{ MAX_DEPTH / 64 }>::new();
    let mut depth = outer_depth;
    let mut in_object = false;
    let mut token = tokens.next();
    // At the top of this loop a value is due, and the token is the first behind the place where
    // it starts: it ends an atom, or opens a container.
    loop {
        if !tokens.has_atom(token) {
            let opening = tokens.byte(token);
            if !matches!(opening, b'{' | b'[') {
                return Err(syntax(tokens.place(token)));
            }
            if depth >= max_depth {
                return Err(NotJson { at: tokens.place(token), why: Why::TooDeep });
            }
            nest.remember(depth, in_object);
            depth += 1;
            in_object = opening == b'{';
            token = tokens.next();
            if in_object && tokens.is_name(token) {
                token = tokens.next();
                continue;
            }
            // In ASCII a closing bracket stands two behind its opening one.
            let is_empty = !tokens.has_atom(token) && tokens.byte(token) == opening + 2;
            match (is_empty, in_object) {
                (true, _) => {}
                (false, true) => return Err(syntax(tokens.place(token))),
                (false, false) => continue,
            }
        }
        // Behind a value: brackets may close, up to the comma before the next value.
        while !tokens.is_comma(token) {
            if tokens.byte(token) != if in_object { b'}' } else { b']' } {
                return Err(syntax(tokens.place(token)));
            }
            depth -= 1;
            if depth == outer_depth {
                return Ok(tokens.place(token) + 1);
            }
            in_object = nest.recall(depth);
            token = tokens.next();
            if tokens.has_atom(token) {
                return Err(syntax(tokens.place(token)));
            }
        }
        token = tokens.next();
        if in_object {
            if !tokens.is_name(token) {
                return Err(syntax(tokens.place(token)));
            }
            token = tokens.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trusted::container_the_slow_way;
    use super::container;

    #[test]
    fn old_processors_and_new_ones_agree() {
        let long = format!("[{}\"\\n\",{{\"a\":-0.5e1,\"b\":[true,null]}}]", "12,\"x\",".repeat(9));
        for place in 0..long.len() {
            for byte in 0..=255u8 {
                let mut changed = long.as_bytes().to_vec();
                changed[place] = byte;
                let slow = container_the_slow_way(&changed, (0, 8));
                let fast = container(&changed, 0, (0, 8)).ok().map(|(end, _)| end);
                assert_eq!(fast, slow, "{}", changed.escape_ascii());
            }
        }
    }
}
