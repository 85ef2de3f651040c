//! Inbox: bytes or messages that were received and not yet handled.

use std::fmt;
use std::io;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::frame::{Decoder, Event, Framing, Partial};
use duet_rpc_proto::message::Id;
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};

use super::TransportKind;
use super::buffer_pool::{self, Spare};
use super::fifo::Fifo;

/// The input of a connection, where a transport puts received bytes or whole messages.
pub struct Inbox {
    /// Holds the bytes, and finds frames in them; `None` if the transport carries whole messages.
    pub(super) decoder: Option<Box<Decoder>>,
    /// Whole messages in order, followed by the unfinished one.
    messages: Vec<u8>,
    /// The number of bytes of `messages` that are handled.
    handled: usize,
    /// The start of the unfinished message.
    unfinished: usize,
    /// The lengths of the complete messages; `None` for a message over the limit.
    lengths: Fifo<Option<usize>>,
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
        let decoder = || Box::new(Decoder::new(profile.framing, &limits));
        Inbox {
            decoder: (carries == TransportKind::Bytes).then(decoder),
            messages: Vec::new(),
            handled: 0,
            unfinished: 0,
            lengths: Fifo::default(),
            failed_calls: Vec::new(),
            end: None,
            limits,
        }
    }

    /// The limits for messages.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The buffer for received bytes. Append up to its capacity, and change nothing else in it. It fails for
    /// a transport that carries messages.
    pub fn space(&mut self) -> io::Result<&mut Vec<u8>> {
        match &mut self.decoder {
            Some(decoder) => Ok(decoder.space()),
            None => Err(io::Error::other("a transport of messages received bytes")),
        }
    }

    /// Takes the shared read buffer, for the next bytes.
    pub(crate) fn borrow_buffer(&mut self) {
        if let Some(decoder) = &mut self.decoder
            && let Some(unused) = decoder.lend(buffer_pool::take())
        {
            buffer_pool::put_back(unused);
        }
    }

    /// The received bytes that are not handled yet.
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.decoder.as_ref().map_or(&[], |decoder| decoder.at_hand())
    }

    /// Gives a borrowed buffer back, because other connections read next.
    #[inline]
    pub(crate) fn give_buffer_back(&mut self) {
        if let Some(decoder) = &mut self.decoder
            && let Some(buffer) = decoder.give_back()
        {
            buffer_pool::put_back(buffer);
        }
    }

    /// Gives an unused large buffer to other connections.
    #[inline]
    pub(crate) fn recycle_buffer(&mut self) {
        if self.decoder.is_none() && self.handled == self.messages.len() {
            self.compact();
            Spare::Incoming.recycle(&mut self.messages);
        }
    }

    /// Takes a whole message: one JSON text. A message over the limit is kept only as a fault; a transport
    /// should refuse it before it is whole.
    pub fn push(&mut self, message: &[u8]) -> io::Result<()> {
        self.check_messages()?;
        if message.len() > self.limits.message_bytes {
            self.lengths.push(None);
            return Ok(());
        }
        self.message()?.extend_from_slice(message);
        self.end_message()
    }

    /// Takes a whole message as [`push`](Inbox::push) does, with its buffer if that is possible.
    pub(crate) fn push_owned(&mut self, message: Vec<u8>) -> io::Result<()> {
        self.check_messages()?;
        if !self.messages.is_empty() || message.len() > self.limits.message_bytes {
            return self.push(&message);
        }
        (self.messages, self.handled, self.unfinished) = (message, 0, 0);
        self.end_message()
    }

    /// The buffer for a message that arrives in pieces. Append to it, change nothing else in it, and call
    /// [`end_message`](Inbox::end_message) when the message is whole. It may also hold earlier messages. The
    /// transport must keep the message within the limit.
    pub fn message(&mut self) -> io::Result<&mut Vec<u8>> {
        self.check_messages()?;
        if self.handled == self.unfinished {
            self.compact();
        }
        Spare::Incoming.fill(&mut self.messages);
        Ok(&mut self.messages)
    }

    /// The bytes of the unfinished message.
    pub fn unfinished(&self) -> usize {
        self.messages.len() - self.unfinished
    }

    /// Notes that the unfinished message is whole.
    pub fn end_message(&mut self) -> io::Result<()> {
        self.check_messages()?;
        self.lengths.push(Some(self.unfinished()));
        self.unfinished = self.messages.len();
        Ok(())
    }

    /// Drops the unfinished message.
    pub fn drop_message(&mut self) -> io::Result<()> {
        self.check_messages()?;
        self.messages.truncate(self.unfinished);
        Ok(())
    }

    /// Fails the call with this id, because it cannot be answered, and keeps the connection open. For transports that
    /// carry each call separately, as HTTP does. The caller gets an error of the kind
    /// [`Exchange`](crate::ErrorKind::Exchange) with this cause. Nothing happens if the call has ended.
    pub fn fail_call(&mut self, id: Id, error: io::Error) -> io::Result<()> {
        self.check_messages()?;
        self.failed_calls.push((id, error));
        Ok(())
    }

    /// Sets the reason for the end of the input, before the transport returns
    /// [`Received::Eof`](super::Received::Eof), if the other end did not simply close. Pending calls fail
    /// with this cause. The kind `ConnectionAborted` means that the remote wanted the end.
    pub fn note_end(&mut self, error: io::Error) -> io::Result<()> {
        self.check_messages()?;
        self.end = Some(error);
        Ok(())
    }

    fn check_messages(&self) -> io::Result<()> {
        match self.decoder {
            None => Ok(()),
            Some(_) => Err(io::Error::other("a transport of bytes received a message")),
        }
    }

    /// The next frame or fault; `None` until more is received.
    pub(crate) fn next_event(&mut self) -> Option<Event<'_>> {
        if let Some(decoder) = &mut self.decoder {
            return decoder.next_event();
        }
        let Some(length) = self.lengths.pop()? else {
            return Some(Event::Fault(Fault { kind: FaultKind::Oversize, body: None }));
        };
        let message = self.handled..self.handled + length;
        self.handled = message.end;
        Some(match Text::check(&self.messages[message], self.limits.depth) {
            Ok(text) => Event::Frame(text),
            Err(not_json) => Event::Fault(Fault { kind: FaultKind::NotJson(not_json), body: None }),
        })
    }

    /// The next call that cannot be answered, and the reason.
    #[inline]
    pub(crate) fn next_failed_call(&mut self) -> Option<(Id, io::Error)> {
        self.failed_calls.pop()
    }

    /// The reason for the end of the input, if the transport has set one.
    pub(crate) fn take_end(&mut self) -> Option<io::Error> {
        self.end.take()
    }

    /// The number of bytes that are not handled yet.
    pub(crate) fn size(&self) -> usize {
        self.at_hand().len() + self.messages.len() - self.handled
    }

    /// Notes the end of the input.
    pub(crate) fn finish(&mut self) {
        if let Some(decoder) = &mut self.decoder {
            decoder.finish();
        }
    }

    /// The frame of which a part has arrived.
    pub(crate) fn partial(&self) -> Option<Partial> {
        self.decoder.as_ref()?.partial()
    }

    /// Drops the unfinished frame, which took too long, and returns its state.
    pub(crate) fn handle_timeout(&mut self) -> Option<Partial> {
        self.decoder.as_mut()?.handle_timeout()
    }

    /// The framing of the input; `None` while it is not detected, and if the transport carries whole
    /// messages.
    pub(crate) fn framing(&self) -> Option<Framing> {
        self.decoder.as_ref()?.framing()
    }

    /// Frees memory that a large message needed.
    pub(crate) fn shrink(&mut self) {
        if let Some(decoder) = &mut self.decoder {
            return decoder.shrink();
        }
        self.compact();
        self.messages.shrink_to_fit();
        self.lengths.shrink_to_fit();
    }

    fn compact(&mut self) {
        self.messages.drain(..self.handled);
        self.unfinished -= self.handled;
        self.handled = 0;
    }
}

impl fmt::Debug for Inbox {
    /// Shows the state, but no contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Inbox");
        match &self.decoder {
            Some(decoder) => shown.field("decoder", decoder),
            None => shown.field("waiting", &self.lengths.len()),
        };
        shown.finish_non_exhaustive()
    }
}
