//! Scalars: numbers, `true`, `false`, `null`, and the escapes of strings.

use super::is_white;

/// The end of the number or word that begins at `start`.
pub(super) fn end_of(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start..)?;
    let length = match rest.first()? {
        b't' if rest.starts_with(b"true") => 4,
        b'f' if rest.starts_with(b"false") => 5,
        b'n' if rest.starts_with(b"null") => 4,
        b'-' | b'0'..=b'9' => number(rest)?,
        _ => return None,
    };
    Some(start + length)
}

/// The end of the number or word that begins at `start`, if a legal byte follows it.
pub(super) fn end_of_whole(bytes: &[u8], start: usize) -> Option<usize> {
    end_of(bytes, start).filter(|&end| match bytes.get(end) {
        None | Some(b',' | b'}' | b']') => true,
        Some(&byte) => is_white(byte),
    })
}

/// The length of the number at the start of these bytes.
fn number(bytes: &[u8]) -> Option<usize> {
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let digits = |start: usize| {
        let count = bytes.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (count > 0).then_some(start + count)
    };
    let mut i = usize::from(at(0) == b'-');
    i = if at(i) == b'0' { i + 1 } else { digits(i)? };
    if at(i) == b'.' {
        i = digits(i + 1)?;
    }
    if matches!(at(i), b'e' | b'E') {
        i = digits(i + 1 + usize::from(matches!(at(i + 1), b'+' | b'-')))?;
    }
    Some(i)
}

/// The end of the escape whose backslash stands before `start`.
pub(super) fn end_of_escape(bytes: &[u8], start: usize) -> Option<usize> {
    match bytes.get(start)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(start + 1),
        b'u' => {
            let digits = bytes.get(start + 1..start + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(start + 5)
        }
        _ => None,
    }
}
