//! Framing `ndjson`: one JSON text per line (F20, F21).
//!
//! A newline always ends a frame, so the position is never lost: each bad line is one fault.

use memchr::memchr;

use super::{Expected, Framer, Step};
use crate::fault::FaultKind;
use crate::limits::Limits;
use crate::text::{Outline, is_white};

#[derive(Debug)]
pub(super) struct Ndjson {
    longest: usize,
    depth: usize,
    state: NdjsonState,
    /// The number of bytes at hand that were searched.
    searched: usize,
    /// One of these bytes is not white space.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NdjsonState {
    /// In a line.
    Line,
    /// In the rest of a line that a timeout dropped. The rest may be a JSON text by itself; otherwise
    /// it is dropped without a fault.
    LateLine,
    /// In the rest of a line that was refused.
    Refused,
}

impl Ndjson {
    pub(super) fn new(limits: &Limits) -> Self {
        let (longest, depth) = (limits.longest_message(), limits.depth);
        Ndjson { longest, depth, state: NdjsonState::Line, searched: 0, begun: false }
    }

    /// Handles a whole line, which ends after `consumed` bytes.
    fn line(&mut self, line: &[u8], consumed: usize, outline: &mut Outline) -> Step {
        let state = self.restart(NdjsonState::Line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let quiet = state == NdjsonState::LateLine;
        // Only a late line can be blank: before other lines, white space was dropped.
        if state == NdjsonState::Refused || (quiet && line.iter().all(|&byte| is_white(byte))) {
            return Step::Drop(consumed);
        }
        if line.len() > self.longest {
            return Step::fault_unless(quiet, FaultKind::Oversize, consumed);
        }
        match outline.take(line, self.depth) {
            Ok(()) => Step::Frame { body: 0..line.len(), consumed },
            Err(not) => Step::fault_unless(quiet, FaultKind::NotJson(not), consumed),
        }
    }

    fn restart(&mut self, state: NdjsonState) -> NdjsonState {
        (self.searched, self.begun) = (0, false);
        std::mem::replace(&mut self.state, state)
    }
}

impl Framer for Ndjson {
    fn step(&mut self, bytes: &[u8], ended: bool, outline: &mut Outline) -> Step {
        // White space and blank lines before a text are dropped and have no meaning.
        if self.state == NdjsonState::Line
            && !self.begun
            && bytes.first().is_some_and(|&byte| is_white(byte))
        {
            return Step::Drop(bytes.iter().take_while(|&&byte| is_white(byte)).count());
        }
        let new = &bytes[self.searched..];
        if let Some(offset) = memchr(b'\n', new) {
            let end = self.searched + offset;
            return self.line(&bytes[..end], end + 1, outline);
        }
        if bytes.is_empty() {
            return Step::Wait;
        }
        if ended {
            return self.line(bytes, bytes.len(), outline);
        }
        if self.state == NdjsonState::Refused {
            return Step::Drop(bytes.len());
        }
        // A CR at the end may be half of a line end, so it does not count yet.
        if bytes.strip_suffix(b"\r").unwrap_or(bytes).len() > self.longest {
            let quiet = self.restart(NdjsonState::Refused) == NdjsonState::LateLine;
            return Step::fault_unless(quiet, FaultKind::Oversize, bytes.len());
        }
        self.begun |= !new.iter().all(|&byte| is_white(byte));
        self.searched = bytes.len();
        Step::Wait
    }

    fn abandon(&mut self, bytes: &[u8]) -> usize {
        self.restart(NdjsonState::LateLine);
        bytes.len()
    }

    fn expected(&self, _bytes: &[u8]) -> Option<Expected> {
        self.begun.then_some(Expected::Unknown)
    }
}
