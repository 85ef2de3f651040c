//! Reader of WebSocket frames.

use std::fmt;
use std::io;

use duet_rpc_proto::frame::Partial;
use duet_rpc_proto::ws::{Control, Problem, Role, WsDecoder, WsEvent};

use crate::transport::Inbox;

/// Takes messages out of frames, straight into the inbox.
pub(super) struct FrameReader {
    decoder: WsDecoder,
    limit: usize,
    /// Distinguishes one message from the next.
    serial: u64,
    /// The pings that are not answered yet. Few connections ever have one.
    pings: Option<Box<Pings>>,
}

/// Maximum size of the pings that wait for their answer. The pings of one read always fit.
const PING_BYTES: usize = 64 * 1024;

/// The reason why no more messages come.
pub(super) enum WebSocketEnd {
    /// The remote closed, with this code.
    Closed(Option<u16>),
    /// The socket ended without a close frame.
    Lost,
    /// The rest cannot be parsed.
    Failed(Problem),
}

impl FrameReader {
    pub(super) fn new(role: Role, limit: usize) -> Self {
        FrameReader { decoder: WsDecoder::new(role, limit), limit, serial: 0, pings: None }
    }

    /// The largest size of a message, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes received bytes; an empty slice is the end. Bytes after an end are dropped.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        inbox: &mut Inbox,
    ) -> io::Result<Option<WebSocketEnd>> {
        if bytes.is_empty() {
            return Ok(Some(WebSocketEnd::Lost));
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (count, event) = self.decoder.decode(rest, inbox.message()?);
            rest = rest.get(count..).unwrap_or_default();
            match event {
                None | Some(WsEvent::Pong) => {}
                Some(WsEvent::Message) => inbox.end_message()?,
                Some(WsEvent::Ping) => self.note_ping(),
                Some(WsEvent::Close(code)) => return Ok(Some(WebSocketEnd::Closed(code))),
                Some(WsEvent::Failed(problem)) => return Ok(Some(WebSocketEnd::Failed(problem))),
            }
            if event.is_some() && !self.decoder.is_inside() {
                self.serial += 1;
            }
        }
        Ok(None)
    }

    /// The message or frame of which a part has come.
    pub(super) fn partial(&self, inbox: &Inbox) -> Option<Partial> {
        let partial = Partial { received: inbox.unfinished(), expected: None, serial: self.serial };
        self.decoder.is_inside().then_some(partial)
    }

    /// Removes the pings that are not answered yet.
    pub(super) fn take_pings(&mut self) -> impl Iterator<Item = Control> + use<> {
        self.pings.take().into_iter().flatten()
    }

    fn note_ping(&mut self) {
        self.pings.get_or_insert_default().push(self.decoder.ping().as_bytes());
    }
}

/// The payloads of pings, in the order of their arrival.
#[derive(Default)]
struct Pings {
    /// Each payload after its length, which is one byte.
    payloads: Vec<u8>,
    /// The position of the next one.
    next: usize,
}

impl Pings {
    /// A remote that pings and does not read gets no answer to its older pings, which RFC 6455 allows in section 5.5.3.
    fn push(&mut self, payload: &[u8]) {
        if self.payloads.len() + 1 + payload.len() > PING_BYTES {
            self.payloads.clear();
        }
        self.payloads.push(payload.len() as u8);
        self.payloads.extend_from_slice(payload);
    }
}

impl Iterator for Pings {
    type Item = Control;

    fn next(&mut self) -> Option<Control> {
        let (&length, rest) = self.payloads.get(self.next..)?.split_first()?;
        let payload = rest.get(..usize::from(length))?;
        self.next += 1 + payload.len();
        Some(Control::new(payload))
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decoder.fmt(f)
    }
}
