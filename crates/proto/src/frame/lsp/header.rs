//! Header lines, and the search for the line that begins a frame.

use memchr::memchr;

use super::content_type;
use crate::fault::{FaultKind, Malformed};

const CONTENT_LENGTH: &[u8] = b"Content-Length";
const CONTENT_TYPE: &[u8] = b"Content-Type";

/// A header section, as far as it has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    /// The start of the first incomplete line, and so the size of all complete lines.
    pub(super) line_start: usize,
    /// The number of bytes that were searched for a line end.
    pub(super) searched: usize,
    /// The body's length.
    pub(super) length: Option<u64>,
    /// The reason to refuse the body because of its type.
    pub(super) refusal: Option<FaultKind>,
    /// A search found it by its `Content-Length`, so it certainly is a header section.
    pub(super) is_found: bool,
}

impl Section {
    /// The beginning of a section that was found by its `Content-Length`.
    pub(super) fn found() -> Self {
        Section { is_found: true, ..Section::default() }
    }

    /// Adds a whole line, without its line end.
    pub(super) fn add_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let (name, value) = split(line).ok_or(Malformed::HeaderLine)?;
        if name.eq_ignore_ascii_case(CONTENT_LENGTH) {
            let length = decimal(value).ok_or(Malformed::LengthValue)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(Malformed::LengthConflict);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            self.refusal = match (self.refusal, content_type::refusal(value)) {
                (Some(FaultKind::UnsupportedContentType), _) | (_, None) => self.refusal,
                (_, found) => found,
            };
        }
        Ok(())
    }
}

/// The name and the value of a header line; `None` if the line is not a header.
///
/// A name has only the characters that HTTP allows. So stray output is not a header merely because
/// it contains a colon.
pub(super) fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_name = !name.is_empty() && name.iter().all(|&byte| is_name_byte(byte));
    is_name.then_some((name, trim(value)))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

pub(super) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// A decimal number. A number that is too large saturates.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// The header section that nearly every client sends: one `Content-Length` and nothing else.
/// Returns the length, and the size of the section with its empty line.
#[inline(always)]
pub(super) fn usual_section(bytes: &[u8]) -> Option<(usize, usize)> {
    const NAME: &[u8; 16] = b"Content-Length: ";
    // More digits could overflow on a 32-bit machine; the general parser handles those.
    const MOST_DIGITS: usize = 9;
    let (name, rest) = bytes.split_first_chunk::<16>()?;
    if name != NAME {
        return None;
    }
    let mut length = 0;
    let mut digits = 0;
    while let Some(byte @ b'0'..=b'9') = rest.get(digits) {
        length = length * 10 + usize::from(byte - b'0');
        digits += 1;
        if digits > MOST_DIGITS {
            return None;
        }
    }
    let ends = digits > 0 && rest.get(digits..)?.first_chunk() == Some(b"\r\n\r\n");
    ends.then_some((length, NAME.len() + digits + 4))
}

/// Finds a `Content-Length` header whose line end is at the end of these bytes. No JSON text can
/// contain this sequence, so it certainly begins a frame (F16). A line longer than any header
/// section does not count.
pub(super) fn length_line_at_end(bytes: &[u8], longest: usize) -> Option<LengthLine> {
    let before = |bytes: &[u8], is: fn(&u8) -> bool| {
        bytes.iter().rposition(|byte| !is(byte)).map_or(0, |last| last + 1)
    };
    let is_blank: fn(&u8) -> bool = |&byte| byte == b' ' || byte == b'\t';
    let line = bytes.strip_suffix(b"\r\n")?;
    let line = &line[..before(line, is_blank)];
    let digits_start = before(line, u8::is_ascii_digit);
    let digits = &line[digits_start..];
    let line = &line[..before(&line[..digits_start], is_blank)];
    let name = line.strip_suffix(b":")?.last_chunk::<14>()?;
    let start = line.len() - ":".len() - name.len();
    let is_other_name = start > 0 && bytes[start - 1] == b'-';
    if is_other_name || bytes.len() - start > longest || !name.eq_ignore_ascii_case(CONTENT_LENGTH)
    {
        return None;
    }
    Some(LengthLine { start, length: decimal(digits)? })
}

/// A `Content-Length` header that a search found.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthLine {
    pub(super) start: usize,
    pub(super) length: u64,
}

/// Searches for such a header, line end by line end, from `searched` on.
pub(super) fn find_length_line(
    bytes: &[u8],
    searched: &mut usize,
    longest: usize,
) -> Option<LengthLine> {
    while let Some(offset) = memchr(b'\n', &bytes[*searched..]) {
        *searched += offset + 1;
        if let Some(found) = length_line_at_end(&bytes[..*searched], longest) {
            return Some(found);
        }
    }
    *searched = bytes.len();
    None
}
