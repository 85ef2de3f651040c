//! What is to be sent and has not left yet.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;

use duet_rpc_proto::frame::{Framing, write_frame};
use duet_rpc_proto::session::Outlet;

/// Memory that is kept for the next answers when everything has left.
const KEPT: usize = 64 * 1024;

/// Where a transport takes what it sends: bytes, or whole messages.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes` have left.
    start: usize,
    /// How messages are framed; `None` if the transport keeps them apart.
    framing: Option<Framing>,
    /// The lengths of the messages that wait, if they are not framed.
    lengths: VecDeque<usize>,
    signs: u64,
    /// How many bytes have left since the beginning.
    sent: u64,
}

impl Outbox {
    /// An empty one, for messages that are framed so, or not at all.
    pub fn new(framing: Option<Framing>) -> Self {
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
            self.bytes.shrink_to(KEPT);
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

    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The remote took bytes that had left before: nothing more may leave yet, but it reads.
    pub(crate) fn note_reading(&mut self) {
        self.signs += 1;
    }

    /// Grows whenever there is a sign that the remote reads: bytes leave, or bytes that have left
    /// are taken.
    pub(crate) fn signs(&self) -> u64 {
        self.signs
    }

    /// How many bytes have left since the beginning.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Frames what comes from here on so.
    pub(crate) fn set_framing(&mut self, framing: Option<Framing>) {
        self.framing = framing;
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
        if self.start > KEPT && self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

impl Outlet for Outbox {
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.make_room();
        let Some(framing) = self.framing else {
            let before = self.bytes.len();
            // A line of its own framing, less the line end: this takes back what a writer that
            // fails or panics has written.
            write_frame(Framing::Ndjson, &mut self.bytes, message)?;
            self.bytes.pop();
            self.lengths.push_back(self.bytes.len() - before);
            return Ok(());
        };
        write_frame(framing, &mut self.bytes, message)
    }
}

impl fmt::Debug for Outbox {
    /// Shows how much waits, and nothing of what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbox");
        shown.field("framing", &self.framing).field("bytes", &self.len()).finish_non_exhaustive()
    }
}
