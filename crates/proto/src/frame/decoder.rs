//! Decoder: takes chunks of bytes and returns frames and faults.

use std::fmt;

use super::buffer::Buffer;
use super::detect::detect;
use super::length::Length;
use super::lsp::Lsp;
use super::ndjson::Ndjson;
use super::{Event, Expected, Framer, Framing, FramingChoice, Step};
use crate::fault::Fault;
use crate::limits::Limits;
use crate::text::{Outline, Text, is_white};

/// Cuts frames out of a stream of bytes.
///
/// Put bytes in through [`space`](Decoder::space) or [`feed`](Decoder::feed), in pieces of any
/// size. Then take events from [`next_event`](Decoder::next_event) until it returns `None`. The
/// decoder owns the bytes, so a cancelled read loses nothing.
///
/// ```
/// use duet_rpc_proto::{Limits, frame::{Decoder, Event, Framing}};
///
/// let mut decoder = Decoder::new(Framing::Lsp, &Limits::default());
/// let chunk = b"oops\r\nContent-Length: 2\r\n\r\n[]";
/// assert_eq!(decoder.feed(chunk), chunk.len());
/// assert!(matches!(decoder.next_event(), Some(Event::Fault(_))));
/// let Some(Event::Frame(text)) = decoder.next_event() else { panic!("the frame is served") };
/// assert_eq!(text.as_str(), "[]");
/// assert!(decoder.next_event().is_none());
/// ```
pub struct Decoder {
    buffer: Buffer,
    state: CurrentFraming,
    limits: Limits,
    ended: bool,
    /// The outline of the latest body that was JSON.
    outline: Outline,
    /// Counts frames and everything else that was consumed.
    serial: u64,
    /// The number of bytes at hand when the framing asked for more; `usize::MAX` if it did not.
    waiting_with: usize,
}

/// The framing in use, or its detection.
#[derive(Debug)]
enum CurrentFraming {
    Detecting,
    Lsp(Lsp),
    Ndjson(Ndjson),
    Length(Length),
}

/// A frame that has arrived in part; see [`Decoder::partial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The bytes at hand: of the header, and once that is whole, of the body.
    pub received: usize,
    /// The total number of these bytes, if it is known.
    pub expected: Option<usize>,
    /// Distinguishes the frames of a stream.
    pub serial: u64,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new(framing: impl Into<FramingChoice>, limits: &Limits) -> Self {
        let state = match framing.into() {
            FramingChoice::Fixed(framing) => CurrentFraming::new(framing, limits),
            FramingChoice::Auto => CurrentFraming::Detecting,
        };
        Decoder {
            buffer: Buffer::default(),
            state,
            limits: *limits,
            ended: false,
            outline: Outline::default(),
            serial: 0,
            waiting_with: 0,
        }
    }

    /// The framing. `None` while `auto` waits for the deciding byte.
    pub fn framing(&self) -> Option<Framing> {
        match self.state {
            // The deciding byte may be at hand already. Answers must use the framing that it
            // selects.
            CurrentFraming::Detecting => self
                .buffer
                .bytes()
                .iter()
                .find(|&&byte| !is_white(byte))
                .map(|&first| detect(first)),
            CurrentFraming::Lsp(_) => Some(Framing::Lsp),
            CurrentFraming::Ndjson(_) => Some(Framing::Ndjson),
            CurrentFraming::Length(_) => Some(Framing::Length),
        }
    }

    /// Continues with this framing, from the first byte that is not consumed: something else than the bytes has told
    /// the framing, such as the other direction of the stream.
    pub fn set_framing(&mut self, framing: Framing) {
        if self.framing() != Some(framing) || matches!(self.state, CurrentFraming::Detecting) {
            self.state = CurrentFraming::new(framing, &self.limits);
            self.waiting_with = usize::MAX;
        }
    }

    /// The bytes that arrived and are not consumed.
    pub fn at_hand(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Room to read into. Append to it up to its capacity, and do nothing else to it.
    ///
    /// Take all events first: that frees their bytes and keeps the buffer small.
    pub fn space(&mut self) -> &mut Vec<u8> {
        let expected = self.framer_expects().map(|expected| match expected {
            Expected::Bytes(bytes) => bytes,
            // The longest line, with its line end.
            Expected::Unknown => self.limits.longest_message() + 2,
        });
        self.buffer.space(expected)
    }

    /// Copies as much of a chunk as there is room for, and returns the number of bytes. Take the
    /// events before you feed the rest.
    #[must_use = "bytes that were not taken must be fed again"]
    pub fn feed(&mut self, chunk: &[u8]) -> usize {
        let space = self.space();
        let count = chunk.len().min(space.capacity() - space.len());
        space.extend_from_slice(&chunk[..count]);
        count
    }

    /// Ends the input. Events may follow: a last line, or a frame that was cut short.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The next event; `None` if more bytes are needed.
    pub fn next_event(&mut self) -> Option<Event<'_>> {
        // Drivers ask until there is no event, so every second call ends here.
        if self.buffer.bytes().is_empty() && !self.ended {
            self.waiting_with = 0;
            return None;
        }
        loop {
            let (bytes, outline) = (self.buffer.bytes(), &mut self.outline);
            let step = match &mut self.state {
                CurrentFraming::Lsp(framer) => framer.step(bytes, self.ended, outline),
                CurrentFraming::Ndjson(framer) => framer.step(bytes, self.ended, outline),
                CurrentFraming::Length(framer) => framer.step(bytes, self.ended, outline),
                CurrentFraming::Detecting => self.detect(),
            };
            self.waiting_with = usize::MAX;
            match step {
                Step::Wait => {
                    self.waiting_with = self.buffer.bytes().len();
                    return None;
                }
                Step::Drop(count) => {
                    self.serial += 1;
                    self.buffer.drop_front(count);
                }
                Step::Enter(count) => {
                    self.buffer.drop_front(count);
                }
                Step::Frame { body, consumed } => {
                    self.serial += 1;
                    let place = self.buffer.drop_front(consumed) + body.start;
                    let bytes = self.buffer.dropped(place, body.len());
                    return Some(Event::Frame(Text::outlined(bytes, self.outline)));
                }
                Step::Fault { kind, body, consumed } => {
                    self.serial += 1;
                    let place = self.buffer.drop_front(consumed);
                    let body = body.map(|range| {
                        let bytes = self.buffer.dropped(place + range.start, range.len());
                        Text::outlined(bytes, self.outline)
                    });
                    return Some(Event::Fault(Fault { kind, body }));
                }
            }
        }
    }

    fn detect(&mut self) -> Step {
        let bytes = self.buffer.bytes();
        let blanks = bytes.iter().take_while(|&&byte| is_white(byte)).count();
        match bytes.get(blanks) {
            Some(&first) => self.state = CurrentFraming::new(detect(first), &self.limits),
            None if blanks == 0 => return Step::Wait,
            None => {}
        }
        Step::Drop(blanks)
    }

    /// The frame that is being received, for the read timeout. `None` between frames, and while
    /// refused bytes are skipped.
    pub fn partial(&self) -> Option<Partial> {
        self.framer_expects().map(|expected| Partial {
            received: self.buffer.bytes().len(),
            expected: match expected {
                Expected::Bytes(bytes) => Some(bytes),
                Expected::Unknown => None,
            },
            serial: self.serial,
        })
    }

    /// Drops the frame that is being received, because the read timeout has passed. Returns the
    /// dropped frame for the log; send nothing. The rest of that frame is skipped silently.
    ///
    /// Bytes that were fed since the last [`next_event`](Decoder::next_event) may complete the
    /// frame: then nothing is dropped, and this returns `None`. After a drop, ask for events again:
    /// the dropped bytes may have contained a whole frame.
    pub fn handle_timeout(&mut self) -> Option<Partial> {
        let partial = self.partial()?;
        let bytes = self.buffer.bytes();
        if bytes.len() != self.waiting_with {
            return None;
        }
        let dropped = match &mut self.state {
            CurrentFraming::Detecting => 0,
            CurrentFraming::Lsp(framer) => framer.abandon(bytes),
            CurrentFraming::Ndjson(framer) => framer.abandon(bytes),
            CurrentFraming::Length(framer) => framer.abandon(bytes),
        };
        self.buffer.drop_front(dropped);
        self.serial += 1;
        Some(partial)
    }

    /// Lends memory to read into. If the decoder has its own, the memory comes back. This lets many
    /// decoders on one thread share memory: take it back with [`give_back`](Decoder::give_back) once
    /// the events are taken.
    pub fn lend(&mut self, memory: Vec<u8>) -> Option<Vec<u8>> {
        self.buffer.lend(memory)
    }

    /// Returns memory that other decoders can use: the lent memory, even if it has grown. A partial
    /// frame is kept.
    pub fn give_back(&mut self) -> Option<Vec<u8>> {
        self.buffer.give_back()
    }

    /// Frees unused memory, for an idle connection.
    pub fn shrink(&mut self) {
        self.buffer.shrink();
    }

    fn framer_expects(&self) -> Option<Expected> {
        let bytes = self.buffer.bytes();
        match &self.state {
            CurrentFraming::Detecting => None,
            CurrentFraming::Lsp(framer) => framer.expected(bytes),
            CurrentFraming::Ndjson(framer) => framer.expected(bytes),
            CurrentFraming::Length(framer) => framer.expected(bytes),
        }
    }
}

impl fmt::Debug for Decoder {
    /// Shows the state, and none of the bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Decoder");
        shown.field("framing", &self.framing()).field("partial", &self.partial());
        shown.field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl CurrentFraming {
    fn new(framing: Framing, limits: &Limits) -> CurrentFraming {
        match framing {
            Framing::Lsp => CurrentFraming::Lsp(Lsp::new(limits)),
            Framing::Ndjson => CurrentFraming::Ndjson(Ndjson::new(limits)),
            Framing::Length => CurrentFraming::Length(Length::new(limits)),
        }
    }
}
