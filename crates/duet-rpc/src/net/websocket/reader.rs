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
    /// The payload of the last ping, until it is answered. Few connections ever have one.
    pong: Option<Box<Control>>,
}

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
        FrameReader { decoder: WsDecoder::new(role, limit), limit, serial: 0, pong: None }
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

    /// The payload of the pong that is due, if one is.
    pub(super) fn take_pong(&mut self) -> Option<Box<Control>> {
        self.pong.take()
    }

    fn note_ping(&mut self) {
        let ping = *self.decoder.ping();
        match &mut self.pong {
            Some(pong) => **pong = ping,
            None => self.pong = Some(Box::new(ping)),
        }
    }
}

impl fmt::Debug for FrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.decoder.fmt(f)
    }
}
