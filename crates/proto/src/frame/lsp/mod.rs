//! Framing `lsp`: header lines with a `Content-Length`, an empty line, the JSON text (F10 to F16).
//!
//! The states and their transitions:
//!
//! ```text
//!            a byte            the empty line          the body is whole
//!  Between ─────────▶ Header ─────────────────▶ Body ──────────────────▶ Between
//!     ▲                │ │                       │
//!     │      malformed │ │ too large    not JSON │ or oversize
//!     │                ▼ ▼                       ▼
//!     │              Skip  Overflow ─────────▶ Skip ───▶ Header, at a `Content-Length` line
//!     └──────────────────────────────────────────┘ at the end of the bytes to skip
//! ```
//!
//! A fault is reported once. Skipped bytes, and malformed bytes after them, are not reported until
//! a header section is whole again.

mod content_type;
mod header;
mod overflow;

use memchr::{memchr, memrchr};

use self::header::{Section, find_length_line, usual_section};
use self::overflow::Overflow;
use super::{Expected, Framer, Step};
use crate::fault::{FaultKind, Malformed};
use crate::limits::Limits;
use crate::text::{Outline, is_white};

/// More bytes than will ever arrive.
const ALL: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Lsp {
    longest: usize,
    header_bytes: usize,
    depth: usize,
    state: LspState,
    /// A fault was reported, and no header section was whole since.
    quiet: bool,
    /// The number of sections in a row that a search found and that were too long.
    retries: u8,
}

#[derive(Debug)]
enum LspState {
    /// White space, or the first byte of a header.
    Between,
    Header(Section),
    Body {
        length: usize,
        refusal: Option<FaultKind>,
        /// The number of bytes at hand that were searched for the header of the next frame.
        searched: usize,
    },
    /// `left` bytes that are refused. The header of the next frame may begin among them (F14, F16).
    Skip {
        left: u64,
        searched: usize,
        then: Then,
    },
    Overflow(Overflow),
}

/// Meaning of the position after skipped bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The next frame begins there.
    InStep,
    /// The length may be wrong, so the bytes there may belong to the same fault.
    Doubtful,
}

/// Maximum number of retries in a row. If a section that a search found by its `Content-Length` is
/// too long, the search starts again inside it. A search costs the length of a section, and every
/// line could begin a section, so after this number of retries the whole section is skipped.
const MOST_RETRIES: u8 = 8;

impl Lsp {
    pub(super) fn new(limits: &Limits) -> Self {
        Lsp {
            longest: limits.longest_message(),
            header_bytes: limits.header_bytes.min(Limits::MAX_HEADER_BYTES),
            depth: limits.depth,
            state: LspState::Between,
            quiet: false,
            retries: 0,
        }
    }

    fn between(&mut self, bytes: &[u8]) -> Step {
        let blanks = bytes.iter().take_while(|&&byte| is_white(byte)).count();
        if bytes.len() > blanks {
            self.state = LspState::Header(Section::default());
        } else if blanks == 0 {
            return Step::Wait;
        }
        Step::Drop(blanks)
    }

    fn header(
        &mut self,
        bytes: &[u8],
        ended: bool,
        mut section: Section,
        outline: &mut Outline,
    ) -> Step {
        while let Some(offset) = memchr(b'\n', &bytes[section.searched..]) {
            let line_end = section.searched + offset + 1;
            let line = &bytes[section.line_start..line_end];
            if line == b"\r\n" {
                return self.section_is_whole(bytes, section, line_end, outline);
            }
            if line_end > self.header_bytes {
                return self.overflow(bytes, &section);
            }
            let taken_in = match line.strip_suffix(b"\r\n") {
                Some(line) => section.add_line(line),
                None => Err(Malformed::BareLineFeed),
            };
            if let Err(malformed) = taken_in {
                // A frame may begin inside the bad line. If two lengths disagree, both are
                // rejected, unless the first is among refused bytes: then the second begins the
                // next frame.
                let from = match malformed {
                    Malformed::LengthConflict if !self.quiet => line_end,
                    _ => section.line_start,
                };
                return self.malformed(malformed, from);
            }
            (section.line_start, section.searched) = (line_end, line_end);
        }
        // A CR may be half of the empty line, which does not count.
        if bytes.len() > self.header_bytes && bytes[section.line_start..] != *b"\r" {
            return self.overflow(bytes, &section);
        }
        if ended {
            self.state = LspState::Between;
            return self.fault(FaultKind::CutShort, bytes.len());
        }
        section.searched = bytes.len();
        self.state = LspState::Header(section);
        Step::Wait
    }

    /// Handles a whole header section. Its empty line ends after `end` bytes.
    fn section_is_whole(
        &mut self,
        bytes: &[u8],
        section: Section,
        end: usize,
        outline: &mut Outline,
    ) -> Step {
        let Some(length) = section.length else {
            // Search from the first byte: stray text may have made the length part of another
            // header.
            return self.malformed(Malformed::LengthMissing, 0);
        };
        (self.quiet, self.retries) = (false, 0);
        match usize::try_from(length) {
            Ok(length) if length <= self.longest => {
                self.body(bytes, end, length, section.refusal, outline)
            }
            _ => {
                self.state = LspState::Skip { left: length, searched: 0, then: Then::InStep };
                self.fault(FaultKind::Oversize, end)
            }
        }
    }

    /// Handles a body that begins at `start` and may be whole already.
    #[inline(always)]
    fn body(
        &mut self,
        bytes: &[u8],
        start: usize,
        length: usize,
        refusal: Option<FaultKind>,
        outline: &mut Outline,
    ) -> Step {
        let range = start..start + length;
        let Some(body) = bytes.get(range.clone()) else {
            self.state = LspState::Body { length, refusal, searched: 0 };
            return Step::Enter(start);
        };
        let consumed = range.end;
        self.state = LspState::Between;
        match outline.take(body, self.depth) {
            Ok(()) => match refusal {
                None => Step::Frame { body: range, consumed },
                Some(kind) => Step::Fault { kind, body: Some(range), consumed },
            },
            Err(not) => {
                // The length may be wrong, so search the body for the next frame.
                let (left, then) = (length as u64, Then::Doubtful);
                self.state = LspState::Skip { left, searched: 0, then };
                // If the body contains a frame, the wrong length is the cause, not the type.
                let longest = self.header_bytes;
                let refusal = refusal.filter(|_| find_length_line(body, &mut 0, longest).is_none());
                self.fault(refusal.unwrap_or(FaultKind::NotJson(not)), start)
            }
        }
    }

    fn partial_body(
        &mut self,
        bytes: &[u8],
        ended: bool,
        length: usize,
        refusal: Option<FaultKind>,
        mut searched: usize,
        outline: &mut Outline,
    ) -> Step {
        if bytes.len() >= length {
            return self.body(bytes, 0, length, refusal, outline);
        }
        // A length that is too large swallows frames. No body can contain a header, so do not wait
        // for the rest, which may never come.
        if let Some(found) = find_length_line(bytes, &mut searched, self.header_bytes) {
            self.state = LspState::Header(Section::found());
            return self.fault(FaultKind::CutShort, found.start);
        }
        if ended {
            self.state = LspState::Between;
            return self.fault(FaultKind::CutShort, bytes.len());
        }
        self.state = LspState::Body { length, refusal, searched };
        Step::Wait
    }

    fn skip(&mut self, bytes: &[u8], ended: bool, left: u64, from: usize, then: Then) -> Step {
        let mut searched = from;
        if let Some(found) = find_length_line(bytes, &mut searched, self.header_bytes) {
            let start = left.min(found.start as u64) as usize;
            // If it comes after the skipped bytes, other headers may precede it.
            if (found.start as u64) < left {
                self.state = LspState::Header(Section::found());
            } else {
                self.step_out(then);
            }
            return Step::Drop(start);
        }
        // A header may have begun after the last line end; the bytes before it are done.
        let line_start = memrchr(b'\n', &bytes[from..]).map_or(0, |offset| from + offset + 1);
        let mut done = line_start.max(bytes.len().saturating_sub(self.header_bytes));
        if let Ok(left) = usize::try_from(left)
            && left <= bytes.len()
        {
            // A header may also begin before the end of the skipped bytes and end after it. Its
            // line end decides.
            let undecided = line_start < left && bytes.len() - left <= self.header_bytes;
            if ended || !undecided {
                self.step_out(then);
                return Step::Drop(left);
            }
            done = done.min(left);
        } else if ended {
            done = bytes.len();
        }
        self.state =
            LspState::Skip { left: left - done as u64, searched: bytes.len() - done, then };
        if done == 0 { Step::Wait } else { Step::Drop(done) }
    }

    /// Moves on to the bytes after the skipped ones.
    fn step_out(&mut self, then: Then) {
        self.state = LspState::Between;
        self.quiet &= then == Then::Doubtful;
    }

    /// Handles a header section that is too long.
    fn overflow(&mut self, bytes: &[u8], section: &Section) -> Step {
        if section.is_found {
            self.retries = self.retries.saturating_add(1);
        }
        if self.retries > MOST_RETRIES {
            // Keep the last whole line: it may be the complete header of the next frame.
            let whole_lines = &bytes[..section.line_start.saturating_sub(1)];
            let last_line = memrchr(b'\n', whole_lines).map_or(section.line_start, |end| end + 1);
            self.state = LspState::Skip { left: ALL, searched: 0, then: Then::Doubtful };
            return self.fault(FaultKind::HeaderTooLarge, last_line.max(1));
        }
        // Use no bytes beyond the limit, so that the result does not depend on how much has
        // arrived.
        let start = &bytes[..bytes.len().min(self.header_bytes + 1)];
        // After a fault, a section that no search found may be the rest of the bytes before it,
        // even if it looks like a header.
        let may_be_header = section.is_found || !self.quiet;
        self.state = LspState::Overflow(Overflow::new(start, may_be_header));
        self.fault(FaultKind::HeaderTooLarge, 0)
    }

    fn malformed(&mut self, what: Malformed, from: usize) -> Step {
        self.state = LspState::Skip { left: ALL, searched: 0, then: Then::Doubtful };
        self.fault(FaultKind::Malformed(what), from)
    }

    fn fault(&mut self, kind: FaultKind, consumed: usize) -> Step {
        let quiet = std::mem::replace(&mut self.quiet, true);
        Step::fault_unless(quiet, kind, consumed)
    }
}

impl Framer for Lsp {
    fn step(&mut self, bytes: &[u8], ended: bool, outline: &mut Outline) -> Step {
        match &mut self.state {
            LspState::Between => match usual_section(bytes) {
                Some((length, end)) if length <= self.longest && end <= self.header_bytes => {
                    (self.quiet, self.retries) = (false, 0);
                    self.body(bytes, end, length, None, outline)
                }
                _ => self.between(bytes),
            },
            LspState::Header(section) => {
                let section = *section;
                self.header(bytes, ended, section, outline)
            }
            &mut LspState::Body { length, refusal, searched } => {
                self.partial_body(bytes, ended, length, refusal, searched, outline)
            }
            &mut LspState::Skip { left, searched, then } => {
                self.skip(bytes, ended, left, searched, then)
            }
            LspState::Overflow(overflow) => match overflow.advance(bytes, ended, self.header_bytes)
            {
                overflow::Next::Wait => Step::Wait,
                overflow::Next::Drop(count) => Step::Drop(count),
                overflow::Next::Frame(start) => {
                    self.state = LspState::Header(Section::found());
                    Step::Drop(start)
                }
                overflow::Next::Body { start, length } => {
                    let (left, then) = (length.unwrap_or(ALL), Then::InStep);
                    self.state = LspState::Skip { left, searched: 0, then };
                    Step::Drop(start)
                }
            },
        }
    }

    fn abandon(&mut self, bytes: &[u8]) -> usize {
        self.quiet = true;
        let (left, searched, dropped) = match self.state {
            // The header of the next frame may have begun at the end of the body.
            LspState::Body { length, searched, .. } => (length as u64, searched, 0),
            _ => (ALL, 0, bytes.len()),
        };
        self.state = LspState::Skip { left, searched, then: Then::Doubtful };
        dropped
    }

    fn expected(&self, _bytes: &[u8]) -> Option<Expected> {
        match self.state {
            LspState::Between | LspState::Skip { .. } | LspState::Overflow(_) => None,
            LspState::Header(_) => Some(Expected::Unknown),
            LspState::Body { length, .. } => Some(Expected::Bytes(length)),
        }
    }
}
