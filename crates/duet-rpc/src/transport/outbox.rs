//! What is to be sent and has not left yet.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

use duet_rpc_proto::frame::{FrameWriter, Framing};
use duet_rpc_proto::session::Outlet;
use duet_rpc_proto::ws;

use super::shared_buffer::Spare;
use crate::random;

/// So much that has left is not moved out of the way.
const LEFT: usize = 64 * 1024;

/// Where a transport takes what it sends: bytes, or whole messages.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes` have left.
    start: usize,
    framing: Writer,
    /// The lengths of the messages that wait, if they are not framed.
    lengths: VecDeque<usize>,
    signs: u64,
    /// How many bytes have left since the beginning.
    sent: u64,
    /// The size of the largest message so far, with its frame.
    largest: usize,
}

/// How messages are parted from each other.
#[derive(Debug, Default)]
enum Writer {
    /// The transport keeps them apart.
    #[default]
    None,
    Frames(FrameWriter),
    WebSocket(ws::FrameWriter),
}

impl From<Option<Framing>> for Writer {
    fn from(framing: Option<Framing>) -> Self {
        framing.map_or(Writer::None, |framing| Writer::Frames(FrameWriter::new(framing)))
    }
}

impl Outbox {
    /// An empty one, for messages that are framed so, or not at all.
    pub fn new(framing: Option<Framing>) -> Self {
        Outbox { framing: framing.into(), ..Outbox::default() }
    }

    /// An empty one, for messages that leave this end as WebSocket frames.
    pub fn for_web_socket(role: ws::Role) -> Self {
        let framing = Writer::WebSocket(ws::FrameWriter::new(role, random::seed()));
        Outbox { framing, ..Outbox::default() }
    }

    /// The bytes that wait, for a transport of bytes. Say with [`consume`](Outbox::consume) how
    /// many of them have left.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// These many bytes have left.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.len());
        self.start += count;
        self.sent += count as u64;
        self.signs += u64::from(count > 0);
        if self.start == self.bytes.len() {
            self.start = 0;
            self.bytes.clear();
        }
    }

    /// Adds a frame of the transport's own behind all that waits, if frames of WebSockets do.
    #[cfg(feature = "websocket")]
    pub(super) fn append_control(&mut self, kind: ws::ControlKind, control: &ws::Control) {
        self.make_room();
        if let Writer::WebSocket(writer) = &mut self.framing {
            writer.write_control(&mut self.bytes, kind, control);
        }
    }

    /// The message that waits longest, for a transport of messages. Say with
    /// [`pop`](Outbox::pop) that it has left.
    pub fn message(&self) -> Option<&[u8]> {
        self.lengths.front().and_then(|&length| self.bytes().get(..length))
    }

    /// The message that waited longest has left.
    pub fn pop(&mut self) {
        if let Some(length) = self.lengths.pop_front() {
            self.consume(length);
        }
    }

    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// How much memory is held for what waits: what has left of a large message is freed with the rest.
    pub(crate) fn held(&self) -> usize {
        if self.is_empty() { 0 } else { self.bytes.capacity() }
    }

    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The remote took bytes that had left before: nothing more may leave yet, but it reads.
    #[cfg(any(unix, feature = "http"))]
    pub(crate) fn note_reading(&mut self) {
        self.signs += 1;
    }

    /// Grows whenever there is a sign that the remote reads: bytes leave, or bytes that have left
    /// are taken.
    pub(crate) fn signs(&self) -> u64 {
        self.signs
    }

    /// The size of the largest message that was ever added, with its frame.
    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    /// How many bytes have left since the beginning.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Gives a large buffer that is not in use to whoever else needs one.
    #[inline]
    pub(crate) fn lay_buffer_aside(&mut self) {
        Spare::Outgoing.lay_aside(&mut self.bytes);
    }

    /// Gives back memory that is not in use.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }

    /// Frames what comes from here on so.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = Some(framing).into();
    }

    /// Appends a message that is written already.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let Ok(()) = self.send(|out| {
            out.extend_from_slice(message);
            Ok::<_, Infallible>(())
        });
    }

    /// Drops what has left from a buffer that would have to grow otherwise, so that a remote which
    /// always leaves a little does not make it grow for ever.
    fn make_room(&mut self) {
        if self.start > LEFT && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

impl Outlet for Outbox {
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.make_room();
        Spare::Outgoing.fill(&mut self.bytes);
        let before = self.bytes.len();
        match &mut self.framing {
            Writer::Frames(writer) => writer.write(&mut self.bytes, message)?,
            Writer::WebSocket(writer) => writer.write(&mut self.bytes, message)?,
            Writer::None => {
                // A line of its own framing, less the line end: this takes back what a writer that
                // fails or panics has written.
                FrameWriter::new(Framing::Ndjson).write(&mut self.bytes, message)?;
                self.bytes.pop();
                self.lengths.push_back(self.bytes.len() - before);
            }
        }
        self.largest = self.largest.max(self.bytes.len() - before);
        Ok(())
    }
}

impl fmt::Debug for Outbox {
    /// Shows how much waits, and nothing of what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbox");
        shown.field("framing", &self.framing).field("bytes", &self.len()).finish_non_exhaustive()
    }
}
