//! Messages cut out of a stream of bytes, and put into one.
//!
//! A [`Decoder`] is fed with chunks of any size and gives back [`Event`]s: a frame, which is a
//! whole and valid JSON text, or a fault. A fault never ends the stream: each framing knows how
//! to find the next frame. Nothing here reads, writes, waits or looks at a clock.

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

/// How messages are cut out of a stream: [F1](crate::specification#f1) to
/// [F32](crate::specification#f32) of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Header lines with a `Content-Length`, an empty line, the JSON text.
    Lsp,
    /// One JSON text a line.
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

/// A framing, or the wish to have it found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FramingChoice {
    /// This one.
    Fixed(Framing),
    /// The one that the first byte of the input suggests (`auto`).
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

/// The name is none of `lsp`, `ndjson`, `length` and `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFraming;

impl fmt::Display for UnknownFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown framing: use lsp, ndjson, length or auto")
    }
}

impl std::error::Error for UnknownFraming {}

/// What came out of the stream.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A frame: one JSON text.
    Frame(Text<'a>),
    /// A run of bytes that holds no message.
    Fault(Fault<'a>),
}

/// What a framing makes of the bytes at hand. Places count from the first of them.
enum Step {
    /// No more can be said before more bytes come.
    Wait,
    /// These many bytes are done with, and with them what they began.
    Drop(usize),
    /// These many bytes are done with, and the frame that they began goes on.
    Enter(usize),
    /// A frame, whose unit ends after `consumed` bytes, and whose outline was taken.
    Frame { body: Range<usize>, consumed: usize },
    /// A fault, with the body that came with it, whose outline was taken.
    Fault { kind: FaultKind, body: Option<Range<usize>>, consumed: usize },
}

impl Step {
    fn fault(kind: FaultKind, consumed: usize) -> Step {
        Step::Fault { kind, body: None, consumed }
    }

    /// A fault if nothing was said yet about the bytes that it stands in.
    fn fault_unless(quiet: bool, kind: FaultKind, consumed: usize) -> Step {
        if quiet { Step::Drop(consumed) } else { Step::fault(kind, consumed) }
    }
}

/// A framing as a state machine. It sees the bytes that are not done with, and remembers how far
/// it has looked, so that no byte is searched twice.
trait Framer {
    /// Looks at the bytes at hand; `ended` says that no more will come. Of a body that is JSON the
    /// outline is left in `outline`.
    fn step(&mut self, bytes: &[u8], ended: bool, outline: &mut Outline) -> Step;

    /// Drops the frame that is being received: how many of the bytes at hand go with it.
    fn abandon(&mut self, bytes: &[u8]) -> usize;

    /// How many bytes the frame that is being received has in all, as far as that is known;
    /// `None` between frames.
    fn expected(&self, bytes: &[u8]) -> Option<Expected>;
}

/// The size of a frame that is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Its unit has this many bytes, counted from the first byte at hand.
    Bytes(usize),
    /// That is not known yet.
    Unknown,
}
