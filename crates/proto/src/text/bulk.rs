//! Large objects and arrays: whole blocks are checked at once, and only the structural
//! characters are visited.

use super::blocks::{Blocks, Token, Tokens};
use super::nest::Nest;
use super::{NotJson, Why, syntax};

/// Checks the object or array that begins at `start`: where it ends, and whether it holds bytes
/// that are not ASCII.
pub(super) fn container(
    bytes: &[u8],
    start: usize,
    outer_depth: usize,
    max_depth: usize,
) -> Result<(usize, bool), NotJson> {
    let mut blocks = Blocks::new(bytes, start);
    let walked = walk(Tokens::new(&mut blocks), outer_depth, max_depth);
    match blocks.broken_at {
        Some(at) => Err(syntax(at)),
        None => walked.map(|end| (end, blocks.high != 0)),
    }
}

#[inline(always)]
fn walk(
    mut tokens: Tokens<'_, '_>,
    outer_depth: usize,
    max_depth: usize,
) -> Result<usize, NotJson> {
    let mut nest = Nest::default();
    let mut depth = outer_depth;
    let mut in_object = false;
    let mut token = tokens.next();
    // At the top of this loop a value is due, and the token is the first behind the place where
    // it starts: it ends an atom, or opens a container.
    loop {
        if !token.has_atom() {
            if !matches!(token.byte, b'{' | b'[') {
                return Err(syntax(token.place));
            }
            if depth >= max_depth {
                return Err(NotJson { at: token.place, why: Why::TooDeep });
            }
            nest.remember(depth, in_object);
            depth += 1;
            in_object = token.byte == b'{';
            // In ASCII a closing bracket stands two behind its opening one.
            let closing = token.byte + 2;
            token = tokens.next();
            if token.byte != closing || token.has_atom() {
                if in_object {
                    expect_name(token)?;
                    token = tokens.next();
                }
                continue;
            }
        }
        // Behind a value: brackets may close, up to the comma before the next value.
        while token.byte != b',' {
            if token.byte != if in_object { b'}' } else { b']' } {
                return Err(syntax(token.place));
            }
            depth -= 1;
            if depth == outer_depth {
                return Ok(token.place + 1);
            }
            in_object = nest.recall(depth);
            token = tokens.next();
            if token.has_atom() {
                return Err(syntax(token.place));
            }
        }
        token = tokens.next();
        if in_object {
            expect_name(token)?;
            token = tokens.next();
        }
    }
}

/// Checks that this token is a colon with a string before it.
#[inline(always)]
fn expect_name(colon: Token) -> Result<(), NotJson> {
    if colon.byte == b':' && colon.string { Ok(()) } else { Err(syntax(colon.place)) }
}
