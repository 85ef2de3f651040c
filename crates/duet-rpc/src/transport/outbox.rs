//! Outbox: messages that are to be sent and have not left yet.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::time::Instant;

use duet_rpc_proto::frame::{FrameWriter, Framing};
use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::Sink;
use duet_rpc_proto::ws;

use super::buffer_pool::Spare;
use super::deadlines::CallDeadlines;
use super::fifo::Fifo;
use super::largest::Largest;
use crate::random;

/// Up to this number, sent bytes stay in the buffer.
const LEFT: usize = 64 * 1024;

/// A larger message keeps its own buffer, and is not copied to the end of the others.
const LARGE: usize = 64 * 1024;

/// The first capacity of a buffer. Most messages fit, so the buffer does not grow while they are written.
const FIRST: usize = 512;

/// The messages that a transport has to send: as bytes, or as whole messages.
#[derive(Default)]
pub struct Outbox {
    /// The buffer that is sent first.
    bytes: Vec<u8>,
    /// The number of bytes in `bytes` that were sent.
    start: usize,
    /// The buffers that are sent after `bytes`: large messages, each followed by a buffer for later messages.
    behind: VecDeque<Vec<u8>>,
    /// The number of waiting bytes.
    len: usize,
    framing: Writer,
    /// The lengths of the waiting messages, if they are not framed.
    pub(super) lengths: Fifo<usize>,
    /// The deadlines of the calls among them.
    deadlines: CallDeadlines,
    signs: u64,
    /// The number of bytes that were sent since the start.
    sent: u64,
    largest: Largest,
    is_closing: bool,
    is_settled: bool,
    /// `true` if the transport of an exchange knows that nothing more will be sent.
    pub(crate) has_ended: bool,
    abandoned: Vec<Id>,
}

/// The framing of the messages.
#[derive(Debug, Default)]
enum Writer {
    /// The transport separates them.
    #[default]
    None,
    Frames(FrameWriter),
    WebSocket(ws::WsFrameWriter),
}

impl From<Option<Framing>> for Writer {
    fn from(framing: Option<Framing>) -> Self {
        framing.map_or(Writer::None, |framing| Writer::Frames(FrameWriter::new(framing)))
    }
}

impl Outbox {
    /// An empty outbox, for messages in this framing, or in none.
    pub fn new(framing: Option<Framing>) -> Self {
        Outbox { framing: framing.into(), ..Outbox::default() }
    }

    /// An empty outbox, for messages that leave this end as WebSocket frames.
    pub fn for_web_socket(role: ws::Role) -> Self {
        let framing = Writer::WebSocket(ws::WsFrameWriter::new(role, random::seed()));
        Outbox { framing, ..Outbox::default() }
    }

    /// The waiting bytes, for a transport that carries bytes. Report sent bytes with
    /// [`consume`](Outbox::consume).
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Notes that this many bytes were sent.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.len);
        self.start += count;
        self.len -= count;
        self.sent += count as u64;
        self.signs += u64::from(count > 0);
        if self.start >= self.bytes.len() {
            self.advance();
        }
    }

    /// Advances to the next buffer with bytes to send, if all of the first was sent.
    fn advance(&mut self) {
        while self.start >= self.bytes.len() {
            self.start -= self.bytes.len();
            match self.behind.pop_front() {
                Some(next) => self.bytes = next,
                None => return self.bytes.clear(),
            }
        }
    }

    /// Adds a control frame after all waiting messages, if this outbox has WebSocket frames.
    #[cfg(feature = "websocket")]
    pub(crate) fn append_control(&mut self, kind: ws::ControlKind, control: &ws::Control) {
        self.make_room();
        let last = self.behind.back_mut().unwrap_or(&mut self.bytes);
        let before = last.len();
        if let Writer::WebSocket(writer) = &mut self.framing {
            writer.write_control(last, kind, control);
        }
        self.len += last.len() - before;
    }

    /// The message that has waited longest, for a transport that carries messages. When it is sent, call
    /// [`pop`](Outbox::pop).
    pub fn message(&self) -> Option<&[u8]> {
        self.lengths.first().and_then(|&length| self.bytes().get(..length))
    }

    /// The time at which the caller of that [message](Outbox::message) gives up; `None` if it waits without limit, or the
    /// message is not a call. A transport that carries deadlines tells it to the remote.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// Removes the message that has waited longest, because it was sent.
    pub fn pop(&mut self) {
        if let Some(length) = self.lengths.pop() {
            self.deadlines.pop();
            self.consume(length);
        }
    }

    /// Removes the message that has waited longest, and returns it. It is copied only if its buffer holds other
    /// messages, or is much larger.
    pub(crate) fn take_message(&mut self) -> Option<Vec<u8>> {
        let length = *self.lengths.first()?;
        let is_alone = self.start == 0 && self.bytes.len() == length;
        if !is_alone || self.bytes.capacity() > 2 * length + FIRST {
            let message = self.message().map(<[u8]>::to_vec);
            self.pop();
            return message;
        }
        let message = std::mem::take(&mut self.bytes);
        self.lengths.pop();
        self.deadlines.pop();
        self.len -= length;
        self.sent += length as u64;
        self.signs += 1;
        self.advance();
        Some(message)
    }

    /// The number of bytes that wait to be sent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The memory that is held for waiting bytes: the sent part of a large message is freed with the
    /// rest.
    pub(crate) fn held(&self) -> usize {
        match self.is_empty() {
            true => 0,
            false => self.bytes.capacity() + self.behind.iter().map(Vec::capacity).sum::<usize>(),
        }
    }

    /// Returns `true` if everything was sent.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes that the remote took bytes that were sent before. There may be no room yet, but the remote
    /// reads.
    #[cfg_attr(windows, expect(dead_code))]
    pub(crate) fn note_reading(&mut self) {
        self.signs += 1;
    }

    /// A count of signs that the remote reads: bytes are sent, or the remote takes bytes that were sent
    /// before.
    pub(crate) fn signs(&self) -> u64 {
        self.signs
    }

    /// Returns `true` if the connection will close after the pending work is done.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns `true` if nothing more will be sent: everything that was received is handled, and nothing waits in the
    /// outbox. (HTTP answers 202 if nothing was sent.) A transport of the kind
    /// [`Exchange`](super::TransportKind::Exchange) asks, and then the connection ends.
    pub fn take_settled(&mut self) -> bool {
        self.has_ended |= self.is_empty() && std::mem::take(&mut self.is_settled);
        self.has_ended
    }

    /// The next call that timed out or was cancelled since [`poll_send`](super::Transport::poll_send) was
    /// called last: nobody waits for its answer, so the transport can free its resources.
    pub fn next_abandoned(&mut self) -> Option<Id> {
        self.abandoned.pop()
    }

    pub(crate) fn set_closing(&mut self) {
        self.is_closing = true;
    }

    pub(crate) fn set_settled(&mut self) {
        self.is_settled = true;
    }

    pub(crate) fn abandon(&mut self, id: Id) {
        self.abandoned.push(id);
    }

    /// Drops signals that the transport did not ask for.
    pub(crate) fn clear_signals(&mut self) {
        self.is_settled = false;
        self.abandoned.clear();
    }

    /// Appends the message of a call. `deadline` returns the time at which its caller gives up.
    pub(crate) fn send_call(
        &mut self,
        id: &Id,
        message: Vec<u8>,
        deadline: impl FnOnce() -> Option<Instant>,
    ) {
        let before = self.largest.before_call();
        if let Writer::None = self.framing
            && let Some(deadline) = deadline()
        {
            self.deadlines.push(self.lengths.len(), deadline);
        }
        self.send_text(message);
        self.largest.name(before, id);
    }

    /// Returns the call that the remote refused as too large, if the largest message is a call.
    pub(crate) fn take_largest(&mut self) -> Option<Id> {
        self.largest.take()
    }

    /// The number of bytes that were sent since the start.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Gives an unused large buffer to other connections.
    #[inline]
    pub(crate) fn recycle_buffer(&mut self) {
        Spare::Outgoing.recycle(&mut self.bytes);
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.behind.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }

    /// Sets the framing of further messages.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = Some(framing).into();
    }

    /// Appends a finished message.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let Ok(()) = self.send(|out| {
            out.extend_from_slice(message);
            Ok::<_, Infallible>(())
        });
    }

    /// Drops sent bytes from a buffer that would have to grow otherwise. So the buffer does not grow for ever
    /// if the remote always leaves a few bytes unread.
    fn make_room(&mut self) {
        if self.start > LEFT && self.start > self.bytes.len() / 2 && self.behind.is_empty() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}

impl Sink for Outbox {
    #[inline(always)]
    fn send<E>(&mut self, message: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        self.make_room();
        let last = self.behind.back_mut().unwrap_or(&mut self.bytes);
        if last.capacity() == 0 {
            Spare::Outgoing.fill(last);
            last.reserve(FIRST);
        }
        let before = last.len();
        match &mut self.framing {
            Writer::Frames(writer) => writer.write(last, message)?,
            Writer::WebSocket(writer) => writer.write(last, message)?,
            Writer::None => {
                // The message is written as a line, without its line end, because the line writer removes the
                // bytes of a message that fails or panics.
                FrameWriter::new(Framing::Ndjson).write(last, message)?;
                last.pop();
                self.lengths.push(last.len() - before);
            }
        }
        let size = last.len() - before;
        self.len += size;
        self.largest.note(size);
        Ok(())
    }

    fn send_text(&mut self, mut text: Vec<u8>) {
        if text.len() < LARGE {
            return self.push(&text);
        }
        let last = self.behind.back_mut().unwrap_or(&mut self.bytes);
        let before = last.len();
        match &mut self.framing {
            Writer::Frames(writer) => writer.wrap(last, &mut text),
            Writer::WebSocket(writer) => writer.wrap(last, &mut text),
            Writer::None => {
                FrameWriter::new(Framing::Ndjson).wrap(last, &mut text);
                text.pop();
                self.lengths.push(text.len());
            }
        }
        let size = last.len() - before + text.len();
        self.len += size;
        self.largest.note(size);
        self.behind.extend([text, Vec::new()]);
        self.advance();
    }
}

impl fmt::Debug for Outbox {
    /// Shows the number of waiting bytes, but not their contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbox");
        shown.field("framing", &self.framing).field("bytes", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use duet_rpc_proto::frame::Framing;
    use duet_rpc_proto::session::Sink;
    use duet_rpc_proto::ws;

    use super::{LARGE, Outbox};

    fn outboxes() -> Vec<Outbox> {
        let framings = [Framing::Lsp, Framing::Ndjson, Framing::Length];
        let mut outboxes: Vec<_> = framings.map(|framing| Outbox::new(Some(framing))).into();
        outboxes.push(Outbox::for_web_socket(ws::Role::Server));
        outboxes
    }

    /// A JSON text of this size, with a line end in it.
    fn text(size: usize) -> Vec<u8> {
        let mut text = vec![b'1'; size];
        text[0] = b'[';
        text[1] = b'\n';
        text[size - 1] = b']';
        text
    }

    #[test]
    fn p9_large_messages_leave_in_their_order_and_framed_as_small_ones() {
        let sizes = [9, LARGE, LARGE + 1, 9, 10, 2 * LARGE, LARGE - 1, LARGE];
        for piece in [1000, LARGE, usize::MAX] {
            for (mut whole, mut parts) in outboxes().into_iter().zip(outboxes()) {
                for size in sizes {
                    // This one copies each.
                    whole.push(&text(size));
                    parts.send_text(text(size));
                    assert_eq!(parts.len(), whole.len());
                }
                let mut left = Vec::new();
                while !parts.is_empty() {
                    let bytes = parts.bytes();
                    assert!(!bytes.is_empty(), "{} bytes wait, and none can leave", parts.len());
                    assert!(parts.held() >= parts.len());
                    left.extend_from_slice(&bytes[..bytes.len().min(piece)]);
                    parts.consume(bytes.len().min(piece));
                    assert_eq!(left.len() + parts.len(), whole.len());
                }
                assert!(left == whole.bytes(), "{parts:?}");
                assert_eq!((parts.held(), parts.sent()), (0, whole.len() as u64));
            }
        }
    }

    #[test]
    fn p9_large_messages_stay_whole_for_a_transport_of_messages() {
        let mut outbox = Outbox::new(None);
        let sizes = [LARGE, 9, 10, 2 * LARGE, 2 * LARGE, 9];
        for size in sizes {
            outbox.send_text(text(size));
        }
        for size in sizes {
            let message = outbox.message().expect("a message waits");
            assert_eq!((message.len(), message[1]), (size, b' '));
            outbox.pop();
        }
        assert!(outbox.is_empty() && outbox.message().is_none());
    }

    #[test]
    fn p2_a_call_keeps_its_deadline_until_it_leaves() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        let call = |outbox: &mut Outbox, number: u64, deadline: Option<Instant>| {
            outbox.send_call(&number.into(), text(9), || deadline);
        };
        let mut outbox = Outbox::new(None);
        for round in 0..3 {
            outbox.push(b"[1]");
            call(&mut outbox, 1, Some(at(1)));
            call(&mut outbox, 2, None);
            call(&mut outbox, 3, Some(at(3)));
            outbox.push(b"[2]");
            for expected in [None, Some(at(1)), None, Some(at(3)), None] {
                assert_eq!(outbox.deadline(), expected);
                match round {
                    1 => drop(outbox.take_message()),
                    _ => outbox.pop(),
                }
            }
            assert!(outbox.deadline().is_none() && outbox.deadlines.is_empty());
        }
        // Bytes carry none.
        let mut outbox = Outbox::new(Some(Framing::Ndjson));
        call(&mut outbox, 1, Some(at(1)));
        assert!(outbox.deadlines.is_empty());
    }

    #[test]
    fn p9_outbox_can_be_consumed_in_one_step() {
        for mut outbox in outboxes() {
            for size in [9, LARGE, LARGE, 9] {
                outbox.send_text(text(size));
            }
            outbox.consume(usize::MAX);
            assert!(outbox.is_empty() && outbox.bytes().is_empty());
            outbox.push(b"[1]");
            assert!(outbox.bytes().windows(3).any(|it| it == b"[1]"));
        }
    }
}
