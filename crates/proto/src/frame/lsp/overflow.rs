//! Rest of a header section that is too long (F13).
//!
//! It is read to its empty line, line by line, without keeping the lines, to find the next frame.
//! That frame begins after the body that the section announces, or at a `Content-Length` that cannot
//! belong to the section.

use memchr::memchr;

use super::header::{length_line_at_end, split};

#[derive(Debug)]
pub(super) struct Overflow {
    /// The section began with a header line, as far as is known.
    began_well: bool,
    /// The body's length, if the section has one.
    length: Option<u64>,
    /// Two lengths disagree, so none is reliable.
    conflict: bool,
    /// The bytes at hand begin a line, and CR LF or nothing stands before it.
    at_line_start: bool,
    in_first_line: bool,
    searched: usize,
}

/// Result of a step of the search.
pub(super) enum Next {
    Wait,
    /// This many bytes are consumed.
    Drop(usize),
    /// The next frame begins here.
    Frame(usize),
    /// The section ends here, and a body of this length follows.
    Body {
        start: usize,
        length: Option<u64>,
    },
}

impl Overflow {
    /// Starts at the first byte of the section.
    pub(super) fn new(bytes: &[u8], may_be_header: bool) -> Self {
        let first_line = memchr(b'\n', bytes).map_or(bytes, |end| &bytes[..end]);
        Overflow {
            began_well: may_be_header && split(first_line).is_some(),
            length: None,
            conflict: false,
            at_line_start: true,
            in_first_line: true,
            searched: 0,
        }
    }

    pub(super) fn advance(&mut self, bytes: &[u8], ended: bool, longest_line: usize) -> Next {
        let Some(offset) = memchr(b'\n', &bytes[self.searched..]) else {
            self.searched = bytes.len();
            let too_long = bytes.len().saturating_sub(longest_line);
            let done = if ended { bytes.len() } else { too_long };
            self.searched -= done;
            return if done == 0 { Next::Wait } else { Next::Drop(done) };
        };
        let line = &bytes[..self.searched + offset + 1];
        let ends_with_cr_lf = line.ends_with(b"\r\n");
        if line == b"\r\n" && self.at_line_start {
            let length = self.length.filter(|_| !self.conflict);
            return Next::Body { start: line.len(), length };
        }
        self.began_well &= ends_with_cr_lf || !self.in_first_line;
        if let Some(found) = length_line_at_end(line, longest_line) {
            if found.start > 0 || !self.at_line_start || !self.began_well {
                return Next::Frame(found.start);
            }
            self.conflict |= self.length.is_some_and(|before| before != found.length);
            self.length = Some(found.length);
        }
        (self.searched, self.in_first_line, self.at_line_start) = (0, false, ends_with_cr_lf);
        Next::Drop(line.len())
    }
}
