//! Header lines with a `Content-Length`, an empty line, the JSON text (F10 to F16).
//!
//! The states and the ways between them:
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
//! A fault is told once; what is then skipped, and what is malformed behind it, is quiet until a
//! header section is whole again.

mod content_type;
mod header;
mod overflow;

use memchr::{memchr, memrchr};

use self::header::{Section, find_length_line, usual_section};
use self::overflow::Overflow;
use super::{Expected, Framer, Step};
use crate::Limits;
use crate::fault::{FaultKind, Malformed};
use crate::text::{Outline, is_white};

/// More bytes than will ever come.
const ALL: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Lsp {
    longest: usize,
    header_bytes: usize,
    depth: usize,
    state: State,
    /// A fault was told, and no header section was whole since.
    quiet: bool,
}

#[derive(Debug)]
enum State {
    /// White space, or the first byte of a header.
    Between,
    Header(Section),
    Body {
        length: usize,
        refusal: Option<FaultKind>,
        /// How many of the bytes at hand were searched for the header of the next frame.
        searched: usize,
    },
    /// Bytes that are refused, as many as `left`; the header of the next frame may begin among
    /// them (F14, F16).
    Skip {
        left: u64,
        searched: usize,
    },
    Overflow(Overflow),
}

impl Lsp {
    pub(super) fn new(limits: &Limits) -> Self {
        let (longest, header_bytes, depth) =
            (limits.longest_message(), limits.header_bytes, limits.depth);
        Lsp { longest, header_bytes, depth, state: State::Between, quiet: false }
    }

    fn between(&mut self, bytes: &[u8]) -> Step {
        let blanks = bytes.iter().take_while(|&&byte| is_white(byte)).count();
        if bytes.len() > blanks {
            self.state = State::Header(Section::default());
        } else if blanks == 0 {
            return Step::Wait;
        }
        Step::Drop(blanks)
    }

    fn header(&mut self, bytes: &[u8], ended: bool, mut section: Section) -> Step {
        while let Some(offset) = memchr(b'\n', &bytes[section.searched..]) {
            let line_end = section.searched + offset + 1;
            let line = &bytes[section.line_start..line_end];
            if line == b"\r\n" {
                return self.section_is_whole(bytes, section, line_end);
            }
            if line_end > self.header_bytes {
                return self.overflow(bytes);
            }
            let taken_in = match line.strip_suffix(b"\r\n") {
                Some(line) => section.add_line(line),
                None => Err(Malformed::BareLineFeed),
            };
            if let Err(malformed) = taken_in {
                // A frame may begin inside the bad line; only of one that is a good line by
                // itself is it known that none does.
                let from = match malformed {
                    Malformed::LengthConflict => line_end,
                    _ => section.line_start,
                };
                return self.malformed(malformed, from);
            }
            (section.line_start, section.searched) = (line_end, line_end);
        }
        // A CR may be half of the empty line, which does not count.
        if bytes.len() > self.header_bytes && bytes[section.line_start..] != *b"\r" {
            return self.overflow(bytes);
        }
        if ended {
            self.state = State::Between;
            return self.fault(FaultKind::CutShort, bytes.len());
        }
        section.searched = bytes.len();
        self.state = State::Header(section);
        Step::Wait
    }

    /// The header section ends, with its empty line, after `end` bytes.
    fn section_is_whole(&mut self, bytes: &[u8], section: Section, end: usize) -> Step {
        let Some(length) = section.length else {
            // From its first byte: stray text may have made the length part of another header.
            return self.malformed(Malformed::LengthMissing, 0);
        };
        self.quiet = false;
        match usize::try_from(length) {
            Ok(length) if length <= self.longest => self.body(bytes, end, length, section.refusal),
            _ => {
                self.state = State::Skip { left: length, searched: 0 };
                self.fault(FaultKind::Oversize, end)
            }
        }
    }

    /// The body begins at `start`, and may be whole already.
    #[inline(always)]
    fn body(
        &mut self,
        bytes: &[u8],
        start: usize,
        length: usize,
        refusal: Option<FaultKind>,
    ) -> Step {
        let range = start..start + length;
        let Some(body) = bytes.get(range.clone()) else {
            self.state = State::Body { length, refusal, searched: 0 };
            return Step::Drop(start);
        };
        let consumed = range.end;
        self.state = State::Between;
        match Outline::of(body, self.depth) {
            Ok(outline) => match refusal {
                None => Step::Frame { body: range, outline, consumed },
                Some(kind) => Step::Fault { kind, body: Some((range, outline)), consumed },
            },
            Err(not) => {
                // The length may be wrong, so the body is searched for the next frame.
                self.state = State::Skip { left: length as u64, searched: 0 };
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
    ) -> Step {
        if bytes.len() >= length {
            return self.body(bytes, 0, length, refusal);
        }
        // A length that is too large swallows frames. No body can hold a header, so there is no
        // need to wait for the rest, which may never come.
        if let Some(found) = find_length_line(bytes, &mut searched, self.header_bytes) {
            self.state = State::Header(Section::default());
            return self.fault(refusal.unwrap_or(FaultKind::CutShort), found.start);
        }
        if ended {
            self.state = State::Between;
            return self.fault(FaultKind::CutShort, bytes.len());
        }
        self.state = State::Body { length, refusal, searched };
        Step::Wait
    }

    fn skip(&mut self, bytes: &[u8], ended: bool, left: u64, searched: usize) -> Step {
        let (from, mut searched) = (searched, searched);
        if let Some(found) = find_length_line(bytes, &mut searched, self.header_bytes) {
            let start = left.min(found.start as u64) as usize;
            // Behind what is skipped, other headers may stand before it.
            let is_behind = start < found.start;
            self.state = if is_behind { State::Between } else { State::Header(Section::default()) };
            return Step::Drop(start);
        }
        // A header may have begun behind the last line end; what is before it is done with.
        let line_start = memrchr(b'\n', &bytes[from..]).map_or(0, |offset| from + offset + 1);
        let mut done = line_start.max(bytes.len().saturating_sub(self.header_bytes + 1));
        if let Ok(left) = usize::try_from(left)
            && left <= bytes.len()
        {
            // It may also have begun before the end of what is skipped and end behind it; its
            // line end will tell.
            let undecided = line_start < left && bytes.len() - left <= self.header_bytes;
            if ended || !undecided {
                self.state = State::Between;
                return Step::Drop(left);
            }
            done = done.min(left);
        } else if ended {
            done = bytes.len();
        }
        self.state = State::Skip { left: left - done as u64, searched: bytes.len() - done };
        if done == 0 { Step::Wait } else { Step::Drop(done) }
    }

    /// The header section is too long.
    fn overflow(&mut self, bytes: &[u8]) -> Step {
        // No more than the limit is looked at, so that it makes no odds how much has arrived.
        let overflow = Overflow::new(&bytes[..bytes.len().min(self.header_bytes + 1)]);
        // Text that never was a header is one fault with the fault before it.
        self.quiet &= !overflow.began_well();
        self.state = State::Overflow(overflow);
        self.fault(FaultKind::HeaderTooLarge, 0)
    }

    fn malformed(&mut self, what: Malformed, from: usize) -> Step {
        self.state = State::Skip { left: ALL, searched: 0 };
        self.fault(FaultKind::Malformed(what), from)
    }

    fn fault(&mut self, kind: FaultKind, consumed: usize) -> Step {
        let quiet = std::mem::replace(&mut self.quiet, true);
        Step::fault_unless(quiet, kind, consumed)
    }
}

impl Framer for Lsp {
    fn step(&mut self, bytes: &[u8], ended: bool) -> Step {
        match &mut self.state {
            State::Between => match usual_section(bytes) {
                Some((length, end)) if length <= self.longest && end <= self.header_bytes => {
                    self.quiet = false;
                    self.body(bytes, end, length, None)
                }
                _ => self.between(bytes),
            },
            State::Header(section) => {
                let section = *section;
                self.header(bytes, ended, section)
            }
            &mut State::Body { length, refusal, searched } => {
                self.partial_body(bytes, ended, length, refusal, searched)
            }
            &mut State::Skip { left, searched } => self.skip(bytes, ended, left, searched),
            State::Overflow(overflow) => match overflow.advance(bytes, ended, self.header_bytes) {
                overflow::Next::Wait => Step::Wait,
                overflow::Next::Drop(count) => Step::Drop(count),
                overflow::Next::Frame(start) => {
                    self.state = State::Header(Section::default());
                    Step::Drop(start)
                }
                overflow::Next::Body { start, length } => {
                    self.state = State::Skip { left: length.unwrap_or(ALL), searched: 0 };
                    Step::Drop(start)
                }
            },
        }
    }

    fn abandon(&mut self, bytes: &[u8]) -> usize {
        self.quiet = true;
        match self.state {
            // What was searched holds no header, so all of it can go at once.
            State::Body { length, .. } => {
                let left = (length - bytes.len()) as u64;
                self.state = State::Skip { left, searched: 0 };
            }
            _ => self.state = State::Skip { left: ALL, searched: 0 },
        }
        bytes.len()
    }

    fn expected(&self, _bytes: &[u8]) -> Option<Expected> {
        match self.state {
            State::Between | State::Skip { .. } | State::Overflow(_) => None,
            State::Header(_) => Some(Expected::Unknown),
            State::Body { length, .. } => Some(Expected::Bytes(length)),
        }
    }
}
