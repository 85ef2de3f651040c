//! What has been received and not yet handled.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::frame::{Decoder, Event, Framing, FramingChoice, Partial};
use duet_rpc_proto::text::Text;
use duet_rpc_proto::{Limits, Profile};

use super::Carries;

/// Where a transport puts what it receives: bytes, or whole messages.
pub struct Inbox(Kind);

enum Kind {
    Bytes(Box<Decoder>),
    Messages(Messages),
}

struct Messages {
    /// `None` stands for one that was longer than the limit.
    waiting: VecDeque<Option<Vec<u8>>>,
    current: Vec<u8>,
    limits: Limits,
}

impl Inbox {
    /// An empty one.
    pub fn new(carries: Carries, profile: &Profile) -> Self {
        let limits = profile.limits;
        Inbox(match carries {
            Carries::Bytes => Kind::Bytes(Box::new(Decoder::new(profile.framing, &limits))),
            Carries::Messages => {
                Kind::Messages(Messages { waiting: VecDeque::new(), current: Vec::new(), limits })
            }
        })
    }

    /// Room for bytes: append to it up to its capacity, and do nothing else to it. It is an error
    /// of the transport to ask for it if it carries messages.
    pub fn space(&mut self) -> io::Result<&mut Vec<u8>> {
        match &mut self.0 {
            Kind::Bytes(decoder) => Ok(decoder.space()),
            Kind::Messages(_) => Err(io::Error::other("a transport of messages received bytes")),
        }
    }

    /// Takes a whole message: one JSON text. One that is longer than the limit is kept only as
    /// the fault that it is; better still, refuse it before you have it.
    pub fn push(&mut self, message: Vec<u8>) -> io::Result<()> {
        match &mut self.0 {
            Kind::Messages(messages) => {
                let too_long = message.len() > messages.limits.message_bytes;
                messages.waiting.push_back(Some(message).filter(|_| !too_long));
                Ok(())
            }
            Kind::Bytes(_) => Err(io::Error::other("a transport of bytes received a message")),
        }
    }

    /// The next frame or fault; `None` if there is none before more is received.
    pub(crate) fn next_event(&mut self) -> Option<Event<'_>> {
        match &mut self.0 {
            Kind::Bytes(decoder) => decoder.next_event(),
            Kind::Messages(messages) => messages.next_event(),
        }
    }

    /// How many bytes there are that were not handled yet.
    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            Kind::Bytes(decoder) => decoder.at_hand(),
            Kind::Messages(messages) => messages.waiting.iter().flatten().map(Vec::len).sum(),
        }
    }

    /// No more will be received.
    pub(crate) fn finish(&mut self) {
        if let Kind::Bytes(decoder) = &mut self.0 {
            decoder.finish();
        }
    }

    /// The frame of which a part has arrived.
    pub(crate) fn partial(&self) -> Option<Partial> {
        match &self.0 {
            Kind::Bytes(decoder) => decoder.partial(),
            Kind::Messages(_) => None,
        }
    }

    /// The frame that is being received took too long: it is dropped, and what was there of it comes
    /// back.
    pub(crate) fn handle_timeout(&mut self) -> Option<Partial> {
        match &mut self.0 {
            Kind::Bytes(decoder) => decoder.handle_timeout(),
            Kind::Messages(_) => None,
        }
    }

    /// How answers are framed; `None` if they are messages of their own.
    pub(crate) fn framing(&self, choice: FramingChoice) -> Option<Framing> {
        match (&self.0, choice) {
            (Kind::Messages(_), _) => None,
            (_, FramingChoice::Fixed(framing)) => Some(framing),
            // Who speaks before he was spoken to is understood by most with headers.
            (Kind::Bytes(decoder), FramingChoice::Auto) => {
                Some(decoder.framing().unwrap_or(Framing::Lsp))
            }
        }
    }

    /// Gives back memory that a large message needed.
    pub(crate) fn shrink(&mut self) {
        match &mut self.0 {
            Kind::Bytes(decoder) => decoder.shrink(),
            Kind::Messages(messages) => {
                messages.current = Vec::new();
                messages.waiting.shrink_to(16);
            }
        }
    }
}

impl fmt::Debug for Inbox {
    /// Shows where it stands, and nothing of what it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Inbox");
        match &self.0 {
            Kind::Bytes(decoder) => shown.field("decoder", decoder),
            Kind::Messages(messages) => shown.field("waiting", &messages.waiting.len()),
        };
        shown.finish_non_exhaustive()
    }
}

impl Messages {
    fn next_event(&mut self) -> Option<Event<'_>> {
        let Some(message) = self.waiting.pop_front()? else {
            return Some(Event::Fault(Fault { kind: FaultKind::Oversize, body: None }));
        };
        self.current = message;
        Some(match Text::check(&self.current, self.limits.depth) {
            Ok(text) => Event::Frame(text),
            Err(not_json) => Event::Fault(Fault { kind: FaultKind::NotJson(not_json), body: None }),
        })
    }
}
