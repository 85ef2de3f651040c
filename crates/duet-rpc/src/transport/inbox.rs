//! Inbox: bytes or messages that were received and not yet handled.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::frame::{Decoder, Event, Framing, Partial};
use duet_rpc_proto::message::Id;
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};

use super::TransportKind;
use super::buffer_pool::{self, Spare};

/// The input of a connection, where a transport puts received bytes or whole messages.
pub struct Inbox(InboxKind);

enum InboxKind {
    Bytes(Box<Decoder>),
    Messages(Messages),
}

/// Whole messages, one after the other, and then the unfinished one.
struct Messages {
    bytes: Vec<u8>,
    /// The number of bytes that are handled.
    handled: usize,
    /// The start of the unfinished message.
    unfinished: usize,
    /// The lengths of the whole messages; `None` stands for one over the limit.
    lengths: VecDeque<Option<usize>>,
    /// Calls of ours that cannot be answered, each with the reason.
    failed_calls: Vec<(Id, io::Error)>,
    /// The reason for the end of the input, if the remote did not simply close.
    end: Option<io::Error>,
    limits: Limits,
}

impl Inbox {
    /// An empty inbox.
    pub fn new(carries: TransportKind, profile: &Profile) -> Self {
        let limits = profile.limits;
        Inbox(match carries {
            TransportKind::Bytes => {
                InboxKind::Bytes(Box::new(Decoder::new(profile.framing, &limits)))
            }
            _ => InboxKind::Messages(Messages {
                bytes: Vec::new(),
                handled: 0,
                unfinished: 0,
                lengths: VecDeque::new(),
                failed_calls: Vec::new(),
                end: None,
                limits,
            }),
        })
    }

    /// Room for bytes: append to it up to its capacity, and do nothing else to it. It fails for a
    /// transport that carries messages.
    pub fn space(&mut self) -> io::Result<&mut Vec<u8>> {
        match &mut self.0 {
            InboxKind::Bytes(decoder) => Ok(decoder.space()),
            InboxKind::Messages(_) => {
                Err(io::Error::other("a transport of messages received bytes"))
            }
        }
    }

    /// Takes the buffer that connections share, for the next bytes.
    pub(crate) fn borrow_buffer(&mut self) {
        if let InboxKind::Bytes(decoder) = &mut self.0
            && let Some(unused) = decoder.lend(buffer_pool::take())
        {
            buffer_pool::put_back(unused);
        }
    }

    /// The bytes that have come and are not handled.
    pub(crate) fn at_hand(&self) -> &[u8] {
        match &self.0 {
            InboxKind::Bytes(decoder) => decoder.at_hand(),
            InboxKind::Messages(_) => &[],
        }
    }

    /// Gives a borrowed buffer back, because other connections read next.
    #[inline]
    pub(crate) fn give_buffer_back(&mut self) {
        if let InboxKind::Bytes(decoder) = &mut self.0
            && let Some(buffer) = decoder.give_back()
        {
            buffer_pool::put_back(buffer);
        }
    }

    /// Gives an unused large buffer to other connections.
    #[inline]
    pub(crate) fn recycle_buffer(&mut self) {
        if let InboxKind::Messages(messages) = &mut self.0 {
            messages.recycle_buffer();
        }
    }

    /// Takes a whole message: one JSON text. A message over the limit is kept only as a fault; it is
    /// better to refuse it before it is whole.
    pub fn push(&mut self, message: &[u8]) -> io::Result<()> {
        let messages = self.messages()?;
        match message.len() > messages.limits.message_bytes {
            true => messages.lengths.push_back(None),
            false => {
                messages.buffer().extend_from_slice(message);
                messages.end();
            }
        }
        Ok(())
    }

    /// Takes a whole message as [`push`](Inbox::push) does, with its buffer if that is possible.
    pub(crate) fn push_owned(&mut self, message: Vec<u8>) -> io::Result<()> {
        let messages = self.messages()?;
        if !messages.bytes.is_empty() || message.len() > messages.limits.message_bytes {
            return self.push(&message);
        }
        (messages.bytes, messages.handled, messages.unfinished) = (message, 0, 0);
        messages.end();
        Ok(())
    }

    /// The buffer for a message that comes in pieces: append to it, do nothing else to it, and call
    /// [`end_message`](Inbox::end_message) when the message is whole. It may hold earlier messages too.
    /// The transport has to keep the message below the limit.
    pub fn message(&mut self) -> io::Result<&mut Vec<u8>> {
        self.messages().map(Messages::buffer)
    }

    /// The bytes of the unfinished message.
    pub fn unfinished(&self) -> usize {
        match &self.0 {
            InboxKind::Bytes(_) => 0,
            InboxKind::Messages(messages) => messages.bytes.len() - messages.unfinished,
        }
    }

    /// Notes that the unfinished message is whole.
    pub fn end_message(&mut self) -> io::Result<()> {
        self.messages().map(Messages::end)
    }

    /// Drops the unfinished message.
    pub fn drop_message(&mut self) -> io::Result<()> {
        self.messages().map(|messages| messages.bytes.truncate(messages.unfinished))
    }

    /// Fails the call with this id, because it cannot be answered: for a transport that carries each call
    /// by itself, as HTTP does, and whose connection stands. The caller gets an error of the kind
    /// [`Exchange`](crate::ErrorKind::Exchange) with this cause. Nothing happens if the call has ended.
    pub fn fail_call(&mut self, id: Id, error: io::Error) -> io::Result<()> {
        self.messages().map(|messages| messages.failed_calls.push((id, error)))
    }

    /// Sets the reason for the end of the input, before the transport returns
    /// [`Received::Eof`](super::Received::Eof), if the other end did not simply close. Pending calls fail
    /// with this cause. The kind `ConnectionAborted` means that the remote wanted the end.
    pub fn note_end(&mut self, error: io::Error) -> io::Result<()> {
        self.messages().map(|messages| messages.end = Some(error))
    }

    fn messages(&mut self) -> io::Result<&mut Messages> {
        match &mut self.0 {
            InboxKind::Messages(messages) => Ok(messages),
            InboxKind::Bytes(_) => Err(io::Error::other("a transport of bytes received a message")),
        }
    }

    /// The next frame or fault; `None` until more is received.
    pub(crate) fn next_event(&mut self) -> Option<Event<'_>> {
        match &mut self.0 {
            InboxKind::Bytes(decoder) => decoder.next_event(),
            InboxKind::Messages(messages) => messages.next_event(),
        }
    }

    /// The next call that cannot be answered, and the reason.
    #[inline]
    pub(crate) fn next_failed_call(&mut self) -> Option<(Id, io::Error)> {
        match &mut self.0 {
            InboxKind::Bytes(_) => None,
            InboxKind::Messages(messages) => messages.failed_calls.pop(),
        }
    }

    /// The reason for the end of the input, if the transport has set one.
    pub(crate) fn take_end(&mut self) -> Option<io::Error> {
        match &mut self.0 {
            InboxKind::Bytes(_) => None,
            InboxKind::Messages(messages) => messages.end.take(),
        }
    }

    /// The number of bytes that are not handled yet.
    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            InboxKind::Bytes(decoder) => decoder.at_hand().len(),
            InboxKind::Messages(messages) => messages.bytes.len() - messages.handled,
        }
    }

    /// Notes that no more will be received.
    pub(crate) fn finish(&mut self) {
        if let InboxKind::Bytes(decoder) = &mut self.0 {
            decoder.finish();
        }
    }

    /// The frame of which a part has arrived.
    pub(crate) fn partial(&self) -> Option<Partial> {
        match &self.0 {
            InboxKind::Bytes(decoder) => decoder.partial(),
            InboxKind::Messages(_) => None,
        }
    }

    /// Drops the unfinished frame, which took too long, and returns its state.
    pub(crate) fn handle_timeout(&mut self) -> Option<Partial> {
        match &mut self.0 {
            InboxKind::Bytes(decoder) => decoder.handle_timeout(),
            InboxKind::Messages(_) => None,
        }
    }

    /// The framing of the input; `None` while it is not detected, and if the transport carries whole
    /// messages.
    pub(crate) fn framing(&self) -> Option<Framing> {
        match &self.0 {
            InboxKind::Bytes(decoder) => decoder.framing(),
            InboxKind::Messages(_) => None,
        }
    }

    /// Frees memory that a large message needed.
    pub(crate) fn shrink(&mut self) {
        match &mut self.0 {
            InboxKind::Bytes(decoder) => decoder.shrink(),
            InboxKind::Messages(messages) => {
                messages.compact();
                messages.bytes.shrink_to_fit();
                messages.lengths.shrink_to_fit();
            }
        }
    }
}

impl fmt::Debug for Inbox {
    /// Shows the state, and nothing of the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Inbox");
        match &self.0 {
            InboxKind::Bytes(decoder) => shown.field("decoder", decoder),
            InboxKind::Messages(messages) => shown.field("waiting", &messages.lengths.len()),
        };
        shown.finish_non_exhaustive()
    }
}

impl Messages {
    fn buffer(&mut self) -> &mut Vec<u8> {
        if self.handled == self.unfinished {
            self.compact();
        }
        Spare::Incoming.fill(&mut self.bytes);
        &mut self.bytes
    }

    #[inline]
    fn recycle_buffer(&mut self) {
        if self.handled == self.bytes.len() {
            self.compact();
            Spare::Incoming.recycle(&mut self.bytes);
        }
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.handled);
        self.unfinished -= self.handled;
        self.handled = 0;
    }

    fn end(&mut self) {
        self.lengths.push_back(Some(self.bytes.len() - self.unfinished));
        self.unfinished = self.bytes.len();
    }

    fn next_event(&mut self) -> Option<Event<'_>> {
        let Some(length) = self.lengths.pop_front()? else {
            return Some(Event::Fault(Fault { kind: FaultKind::Oversize, body: None }));
        };
        let message = self.handled..self.handled + length;
        self.handled = message.end;
        Some(match Text::check(&self.bytes[message], self.limits.depth) {
            Ok(text) => Event::Frame(text),
            Err(not_json) => Event::Fault(Fault { kind: FaultKind::NotJson(not_json), body: None }),
        })
    }
}
