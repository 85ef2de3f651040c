//! Framings: they cut messages out of a stream of bytes and write messages into one.
//!
//! A [`Decoder`] takes chunks of any size and returns [`Event`]s: a frame, which is a whole and
//! valid JSON text, or a fault. A fault never ends the stream: each framing knows how to find the
//! next frame. This module does no I/O, never waits and reads no clock.

mod buffer;
mod decoder;
mod detect;
mod encode;
mod length;
mod lsp;
mod ndjson;
mod timer;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::fault::{Fault, FaultKind};
use crate::text::{Outline, Text};

pub use decoder::{Decoder, Partial};
pub use encode::{FrameWriter, write_frame};
pub use timer::ReadTimer;

/// The rule that cuts messages out of a stream: [F1](crate::specification#f1) to
/// [F32](crate::specification#f32) of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Header lines with a `Content-Length`, an empty line, the JSON text.
    Lsp,
    /// One JSON text per line.
    Ndjson,
    /// Four bytes of length, big-endian, the JSON text, a newline.
    Length,
}

impl Framing {
    /// Every framing, for tests and tables.
    pub const ALL: [Framing; 3] = [Framing::Lsp, Framing::Ndjson, Framing::Length];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Framing::Lsp => "lsp",
            Framing::Ndjson => "ndjson",
            Framing::Length => "length",
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A framing, or its detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingChoice {
    /// This framing.
    Fixed(Framing),
    /// The framing that the first byte of the input selects (`auto`).
    Auto,
}

impl From<Framing> for FramingChoice {
    fn from(framing: Framing) -> Self {
        FramingChoice::Fixed(framing)
    }
}

impl fmt::Display for FramingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FramingChoice::Fixed(framing) => framing.fmt(f),
            FramingChoice::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for FramingChoice {
    type Err = UnknownFraming;

    fn from_str(name: &str) -> Result<Self, UnknownFraming> {
        let fixed = Framing::ALL.into_iter().find(|framing| framing.name() == name);
        match fixed {
            Some(framing) => Ok(framing.into()),
            None if name == "auto" => Ok(FramingChoice::Auto),
            None => Err(UnknownFraming),
        }
    }
}

/// The error for a name other than `lsp`, `ndjson`, `length` and `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFraming;

impl fmt::Display for UnknownFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown framing: use lsp, ndjson, length or auto")
    }
}

impl std::error::Error for UnknownFraming {}

/// An event of a decoder.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A frame: one JSON text.
    Frame(Text<'a>),
    /// A run of bytes without a message.
    Fault(Fault<'a>),
}

/// The decision of a framing about the bytes at hand. Positions count from the first of them.
enum Step {
    /// More bytes are needed.
    Wait,
    /// This many bytes are consumed, and the frame that they began has ended.
    Drop(usize),
    /// This many bytes are consumed, and the frame that they began goes on.
    Enter(usize),
    /// A frame with its outline taken. It ends after `consumed` bytes.
    Frame { body: Range<usize>, consumed: usize },
    /// A fault, and the body that came with it, with its outline taken.
    Fault { kind: FaultKind, body: Option<Range<usize>>, consumed: usize },
}

impl Step {
    fn fault(kind: FaultKind, consumed: usize) -> Step {
        Step::Fault { kind, body: None, consumed }
    }

    /// A fault, unless one was reported for the same run of bytes.
    fn fault_unless(quiet: bool, kind: FaultKind, consumed: usize) -> Step {
        if quiet { Step::Drop(consumed) } else { Step::fault(kind, consumed) }
    }
}

/// A framing as a state machine. It gets the unconsumed bytes, and remembers how far it has
/// searched, so that no byte is searched twice.
trait Framer {
    /// Decides about the bytes at hand. `ended` means that no more will come. If a body is JSON,
    /// `outline` becomes its outline.
    fn step(&mut self, bytes: &[u8], ended: bool, outline: &mut Outline) -> Step;

    /// Drops the frame that is being received. Returns the number of bytes at hand that belong to
    /// it.
    fn abandon(&mut self, bytes: &[u8]) -> usize;

    /// The total size of the frame that is being received; `None` between frames.
    fn expected(&self, bytes: &[u8]) -> Option<Expected>;
}

/// The size of a frame that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This many bytes, counted from the first byte at hand.
    Bytes(usize),
    /// Not known yet.
    Unknown,
}
