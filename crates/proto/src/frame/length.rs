//! Framing `length`: four bytes of length, big-endian, the JSON text, a newline (F30 to F32).
//!
//! JSON never contains a zero byte, and every length below 16 MiB begins with one. So a zero byte
//! inside a payload proves that the payload is invalid. Once the position in the stream is lost,
//! each zero byte is tried as the beginning of a frame until one fits: a length under the limit, no
//! zero byte in the payload, a newline after it, and JSON other than a number. A number proves too
//! little. For example, stray zeros before a frame of 306 bytes (`00 00 01 32`) whose body begins
//! with a newline would look like a frame that holds a `2`.
//!
//! With a limit below 16 MiB, a prefix that begins with another byte is a length over the limit.
//! Four printable characters are the exception: they are the beginning of a line of text.

use memchr::memchr;

use super::{Expected, Framer, Step};
use crate::fault::{FaultKind, Malformed};
use crate::limits::Limits;
use crate::text::Outline;

/// The sizes of the prefix and of the newline.
const PREFIX: usize = 4;
const TERMINATOR: usize = 1;

/// The beginning of the next frame is unknown.
const LOST: LengthState = LengthState::Lost { certain_in: usize::MAX, refused: 0 };

/// Every length below this begins with a zero byte.
const LEADING_ZERO_BELOW: usize = 1 << 24;

#[derive(Debug)]
pub(super) struct Length {
    longest: usize,
    depth: usize,
    state: LengthState,
    /// The number of bytes at hand that were searched for a zero byte.
    searched: usize,
    /// The last frame was well-formed, but its body was not JSON. Its length may be wrong: then
    /// the rest of its body comes before the next frame.
    after_bad_body: bool,
    /// Bits of the positions inside the prefix at the front where certainly no frame begins.
    no_frame_at: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LengthState {
    /// At the beginning of a frame.
    InStep,
    /// At a possible beginning of a frame. A fault was reported; no other follows until a frame
    /// fits or `certain_in` bytes have passed. After those bytes comes the refused payload of
    /// `refused` bytes, or the next frame if `refused` is 0.
    Lost { certain_in: usize, refused: usize },
    /// In the payload of a refused frame, with this many bytes to come. A zero byte among them
    /// certainly begins the next frame.
    Refused(usize),
}

impl Length {
    pub(super) fn new(limits: &Limits) -> Self {
        let (longest, depth) = (limits.longest_message(), limits.depth);
        Length {
            longest,
            depth,
            state: LengthState::InStep,
            searched: 0,
            after_bad_body: false,
            no_frame_at: 0,
        }
    }

    /// Rejects the bytes at the front, and moves on to the next possible beginning of a frame.
    fn lose(&mut self, bytes: &[u8], kind: FaultKind) -> Step {
        let quiet = self.is_lost();
        if !quiet {
            self.state = LOST;
        }
        let count = self.move_on(bytes);
        Step::fault_unless(quiet, kind, count)
    }

    /// Refuses a frame that is too long. Its prefix may be stray bytes that overlap a real prefix,
    /// so the rest of it is tried before the payload is skipped. A prefix that does not begin with
    /// zero may be arbitrary bytes, so the payload is tried too.
    fn refuse(&mut self, bytes: &[u8], length: usize) -> Step {
        let behind = length.saturating_add(TERMINATOR);
        self.state = match bytes[0] {
            0 => LengthState::Lost { certain_in: PREFIX, refused: behind },
            _ => LengthState::Lost { certain_in: behind.saturating_add(PREFIX), refused: 0 },
        };
        let count = self.move_on(bytes);
        Step::fault(FaultKind::Oversize, count)
    }

    /// Moves on to the next possible beginning of a frame. Returns the distance.
    fn move_on(&mut self, bytes: &[u8]) -> usize {
        let next = memchr(0, &bytes[1..]).map_or(bytes.len(), |offset| 1 + offset);
        self.move_to(next)
    }

    /// Moves on to `next`, or to the certain position if that comes first. Returns the distance.
    fn move_to(&mut self, next: usize) -> usize {
        (self.searched, self.no_frame_at) = (0, 0);
        let LengthState::Lost { certain_in, refused } = &mut self.state else { return next };
        if next < *certain_in {
            *certain_in -= if *certain_in == usize::MAX { 0 } else { next };
            return next;
        }
        let count = *certain_in;
        self.state =
            if *refused == 0 { LengthState::InStep } else { LengthState::Refused(*refused) };
        count
    }

    /// Finds a whole frame that begins inside the prefix at the front. If there is one, the prefix
    /// is false: stray bytes overlap the prefix of that frame.
    fn frame_in_prefix(&mut self, bytes: &[u8]) -> Option<usize> {
        for start in 1..PREFIX {
            let rest = bytes.get(start..).unwrap_or_default();
            let (true, Some(&prefix)) = (self.no_frame_at >> start & 1 == 0, rest.first_chunk())
            else {
                continue;
            };
            let length = u32::from_be_bytes(prefix) as usize;
            let is_length = prefix[0] == 0 && (1..=self.longest).contains(&length);
            let unit = rest.get(PREFIX..length.saturating_add(PREFIX + TERMINATOR));
            if is_length && unit.is_none() {
                continue;
            }
            let text = unit.filter(|_| is_length).and_then(|unit| unit.strip_suffix(b"\n"));
            let text = text.filter(|text| !is_number(text));
            if text.is_some_and(|text| Outline::default().take(text, self.depth).is_ok()) {
                return Some(start);
            }
            // Never try this position again, however long the frame at the front takes.
            self.no_frame_at |= 1 << start;
        }
        None
    }

    fn is_lost(&self) -> bool {
        matches!(self.state, LengthState::Lost { .. })
    }

    fn skip_refused(&mut self, bytes: &[u8], left: usize) -> Step {
        let here = &bytes[..left.min(bytes.len())];
        match memchr(0, here) {
            // The payload never came: the next frame begins here.
            Some(zero) => {
                self.state = LengthState::InStep;
                Step::Drop(zero)
            }
            None if here.is_empty() => Step::Wait,
            None => {
                let left = left - here.len();
                self.state =
                    if left == 0 { LengthState::InStep } else { LengthState::Refused(left) };
                Step::Drop(here.len())
            }
        }
    }

    /// Handles a whole frame at the front.
    fn frame(&mut self, bytes: &[u8], length: usize, outline: &mut Outline) -> Step {
        let payload = PREFIX..PREFIX + length;
        let consumed = payload.end + TERMINATOR;
        if bytes[payload.end] != b'\n' {
            return self.lose(bytes, FaultKind::Malformed(Malformed::NoTerminator));
        }
        match outline.take(&bytes[payload.clone()], self.depth) {
            Ok(()) if self.is_lost() && is_number(&bytes[payload.clone()]) => {
                self.lose(bytes, FaultKind::Malformed(Malformed::NoPrefix))
            }
            Ok(()) => {
                (self.state, self.searched, self.no_frame_at) = (LengthState::InStep, 0, 0);
                Step::Frame { body: payload, consumed }
            }
            Err(_) if memchr(0, &bytes[payload.clone()]).is_some() => {
                self.lose(bytes, FaultKind::Malformed(Malformed::ZeroByte))
            }
            Err(not) if self.is_lost() => self.lose(bytes, FaultKind::NotJson(not)),
            Err(not) => {
                (self.searched, self.no_frame_at, self.after_bad_body) = (0, 0, true);
                Step::fault(FaultKind::NotJson(not), consumed)
            }
        }
    }
}

/// True if JSON is a number. A number is not a message, so rejecting it loses none.
fn is_number(json: &[u8]) -> bool {
    matches!(json.trim_ascii_start().first(), Some(b'-' | b'0'..=b'9'))
}

impl Framer for Length {
    fn step(&mut self, bytes: &[u8], ended: bool, outline: &mut Outline) -> Step {
        if let LengthState::Refused(left) = self.state {
            return self.skip_refused(bytes, left);
        }
        let Some(&first) = bytes.first() else { return Step::Wait };
        let may_be_prefix = first == 0 || self.longest >= LEADING_ZERO_BELOW;
        if std::mem::take(&mut self.after_bad_body) && !may_be_prefix {
            // The bad body and these bytes are one fault.
            self.state = LOST;
        }
        if first != 0 && self.is_lost() {
            return self.lose(bytes, FaultKind::Malformed(Malformed::NoPrefix));
        }
        let Some(&prefix) = bytes.first_chunk::<PREFIX>() else {
            return if ended { self.lose(bytes, FaultKind::CutShort) } else { Step::Wait };
        };
        if !may_be_prefix && prefix.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.lose(bytes, FaultKind::Malformed(Malformed::NoPrefix));
        }
        let length = u32::from_be_bytes(prefix) as usize;
        if length == 0 {
            return self.lose(bytes, FaultKind::Malformed(Malformed::ZeroLength));
        }
        if length > self.longest {
            return match self.is_lost() {
                true => self.lose(bytes, FaultKind::Oversize),
                false => self.refuse(bytes, length),
            };
        }
        if bytes.len() >= PREFIX + length + TERMINATOR {
            return self.frame(bytes, length, outline);
        }
        let from = self.searched.max(PREFIX);
        let arrived = &bytes[from..];
        if memchr(0, arrived).is_some() {
            return self.lose(bytes, FaultKind::Malformed(Malformed::ZeroByte));
        }
        if ended {
            return self.lose(bytes, FaultKind::CutShort);
        }
        self.searched = from + arrived.len();
        // A frame must not wait for the bytes of a position that was only a guess.
        if self.is_lost()
            && let Some(start) = self.frame_in_prefix(bytes)
        {
            return Step::Drop(self.move_to(start));
        }
        Step::Wait
    }

    fn abandon(&mut self, bytes: &[u8]) -> usize {
        self.state = LOST;
        let next = self.frame_in_prefix(bytes).unwrap_or(bytes.len());
        self.move_to(next)
    }

    fn expected(&self, bytes: &[u8]) -> Option<Expected> {
        let is_refused = match self.state {
            LengthState::InStep => false,
            LengthState::Lost { refused, .. } => refused > 0,
            LengthState::Refused(_) => true,
        };
        if bytes.is_empty() || is_refused {
            return None;
        }
        Some(match bytes.first_chunk::<PREFIX>() {
            Some(&prefix) => {
                let length = u32::from_be_bytes(prefix) as usize;
                Expected::Bytes(length.saturating_add(PREFIX + TERMINATOR))
            }
            None => Expected::Unknown,
        })
    }
}
