//! WebSocket transport, after the handshake.

mod clock;
mod closing;
mod reader;
#[cfg(all(test, unix))]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duet_rpc_proto::Profile;
use duet_rpc_proto::ws::{Control, ControlKind, Problem, Role, close_code};

use self::clock::{Due, WebSocketClock};
use self::closing::{CloseFrame, Closing};
use self::reader::{FrameReader, WebSocketEnd};
use super::Socket;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// A WebSocket on a connected socket whose two ends have agreed on it: one JSON-RPC message in each
/// of its messages.
///
/// Text and binary messages are received alike, and text is sent. Pings are answered. A remote that
/// was not heard of for a while is asked for a sign of life; if it gives none, the connection is over.
/// A message that is larger than the profile's limit, or takes longer than its
/// [`read_timeout`](Profile::read_timeout), ends the connection too, because there is no way to skip the
/// rest of it. So does a text message that is not UTF-8. Messages before it are answered.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// use duet_rpc::proto::ws::Role;
/// use duet_rpc::{Peer, Profile, Router, transport::{Socket, WebSocket}};
///
/// let socket = Socket::tcp(tokio::net::TcpStream::connect("127.0.0.1:4000").await?);
/// // Here both ends agree on it, and what has been read beyond that is handed over.
/// let (profile, behind) = (Profile::agent(), Vec::new());
/// let transport = WebSocket::new(socket, Role::Client, &profile, behind);
/// let server = Peer::builder(transport).profile(profile).router(Router::new()).spawn();
/// # drop(server);
/// # Ok(())
/// # }
/// ```
pub struct WebSocket {
    socket: Socket,
    role: Role,
    /// What was read together with the handshake and stands behind it.
    leftover: Vec<u8>,
    reader: FrameReader,
    clock: WebSocketClock,
    wants_ping: bool,
    /// Where the last control frame ends, counted in bytes that have left since the beginning.
    control_end: u64,
    /// Whether a part of what waits has left, and the remote may be in the middle of a frame.
    is_midway: bool,
    has_ended: bool,
    close_frame: Option<CloseFrame>,
    /// Set by a server before it closes its connections because it stops.
    going_away: Option<Arc<AtomicBool>>,
    closing: Option<Box<Closing>>,
}

/// How long nothing may be heard of the remote before it is asked, and then before it is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

impl WebSocket {
    /// One end of a connection. `leftover` is what was read together with the handshake and stands
    /// behind it.
    pub fn new(socket: Socket, role: Role, profile: &Profile, leftover: Vec<u8>) -> Self {
        WebSocket {
            socket,
            role,
            leftover,
            reader: FrameReader::new(role, profile.limits.message_bytes),
            clock: WebSocketClock::new(profile.read_timeout, Some(KEEP_ALIVE)),
            wants_ping: false,
            control_end: 0,
            is_midway: false,
            has_ended: false,
            close_frame: None,
            going_away: None,
            closing: None,
        }
    }

    /// After so long without a sign of the remote it is asked for one, and after as long again without
    /// an answer it is gone; 30 seconds if nothing is said. `None` turns it off.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Option<Duration>) -> Self {
        self.clock.set_keep_alive(keep_alive);
        self
    }

    /// While this is set, the remote is told at the end that the program goes away.
    #[must_use]
    pub fn going_away(mut self, going_away: Arc<AtomicBool>) -> Self {
        self.going_away = Some(going_away);
        self
    }

    /// Nothing more is received, and this is why. What came of an unfinished message is dropped.
    fn end(&mut self, end: WebSocketEnd, inbox: &mut Inbox) -> io::Result<Received> {
        self.close_frame = match end {
            WebSocketEnd::Lost => {
                tracing::debug!("the connection ended without a word");
                None
            }
            WebSocketEnd::Closed(code) => {
                if let Some(code) = code
                    && !matches!(code, close_code::NORMAL | close_code::GOING_AWAY)
                {
                    inbox.note_end(closing::closed_with(code))?;
                }
                Some(CloseFrame { code, reason: "" })
            }
            WebSocketEnd::Failed(problem) => {
                self.log_problem(problem);
                inbox.note_end(closing::failed(problem, self.reader.limit()))?;
                Some(CloseFrame { code: Some(problem.code()), reason: problem.reason() })
            }
        };
        self.finish(inbox)
    }

    fn finish(&mut self, inbox: &mut Inbox) -> io::Result<Received> {
        self.has_ended = true;
        inbox.drop_message()?;
        Ok(Received::Eof)
    }

    /// Says what is wrong with what came, and nothing of what it was (G6).
    fn log_problem(&self, problem: Problem) {
        match problem {
            Problem::TooLarge(bytes) => {
                let limit = self.reader.limit();
                tracing::warn!(bytes, limit, "a message is too large, and ends the connection");
            }
            Problem::Protocol(_) | Problem::NotUtf8 => {
                let (problem, code) = (problem.reason(), problem.code());
                tracing::warn!(problem, code, "a fault in frames, which ends the connection");
            }
        }
    }

    /// Looks at the time, as nothing has come.
    fn poll_time(&mut self, cx: &mut Context<'_>, inbox: &mut Inbox) -> Poll<io::Result<Received>> {
        let partial = self.reader.partial(inbox);
        let reason = match ready!(self.clock.poll(cx, partial)) {
            // What is received is nothing, and what follows is a look at what there is to send.
            Due::Ping => {
                self.wants_ping = true;
                return Poll::Ready(Ok(Received::Drained));
            }
            Due::Late => {
                let received = inbox.unfinished();
                let after_ms = self.clock.read_timeout_ms();
                tracing::warn!(
                    received,
                    after_ms,
                    "a message took too long, and ends the connection"
                );
                "message took too long"
            }
            Due::Gone => {
                let after_ms = self.clock.keep_alive_ms();
                tracing::warn!(after_ms, "the remote is gone");
                "no sign of life"
            }
        };
        inbox.note_end(io::Error::new(io::ErrorKind::TimedOut, reason))?;
        self.close_frame = Some(CloseFrame { code: Some(close_code::POLICY), reason });
        Poll::Ready(self.finish(inbox))
    }

    /// Adds a pong and a ping that are due behind all that waits. The next ones wait until these have
    /// left, so that a remote which asks and does not read costs two frames: only the last ping has
    /// to be answered.
    fn append_controls(&mut self, outbox: &mut Outbox) {
        if outbox.sent() < self.control_end {
            return;
        }
        let pong = self.reader.take_pong();
        if let Some(pong) = &pong {
            outbox.append_control(ControlKind::Pong, pong);
        }
        let has_ping = std::mem::take(&mut self.wants_ping);
        if has_ping {
            outbox.append_control(ControlKind::Ping, &Control::new(b""));
        }
        if pong.is_some() || has_ping {
            self.control_end = outbox.sent() + outbox.len() as u64;
        }
    }

    /// What the remote is told at the end, unless it cannot be told any more.
    fn begin_closing(&mut self) -> Closing {
        let is_going_away =
            self.going_away.as_ref().is_some_and(|going_away| going_away.load(Ordering::Relaxed));
        let code = match is_going_away {
            true => close_code::GOING_AWAY,
            false => close_code::NORMAL,
        };
        let frame = self.close_frame.take().unwrap_or(CloseFrame { code: Some(code), reason: "" });
        // In the middle of a frame it would be taken for a part of that.
        Closing::new(self.role, Some(frame).filter(|_| !self.is_midway))
    }
}

impl Transport for WebSocket {
    fn kind(&self) -> TransportKind {
        TransportKind::WebSocket(self.role)
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        if self.has_ended {
            return Poll::Ready(Ok(Received::Eof));
        }
        let Self { socket, reader, leftover, .. } = self;
        let taken = match leftover.is_empty() {
            false => Poll::Ready(Ok(reader.take(&std::mem::take(leftover), inbox))),
            true => socket.poll_read(cx, |bytes| reader.take(bytes, inbox)),
        };
        let Poll::Ready(taken) = taken else { return self.poll_time(cx, inbox) };
        self.clock.hear();
        Poll::Ready(match taken?? {
            None => Ok(Received::Data),
            Some(end) => self.end(end, inbox),
        })
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        loop {
            self.append_controls(outbox);
            if outbox.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let count = ready!(self.socket.poll_write(cx, outbox.bytes()))?;
            outbox.consume(count);
            self.is_midway = !outbox.is_empty();
        }
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Nothing is read, so nothing can be late.
        self.clock.pause();
        self.socket.poll_remote_closed(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        let closing = match &mut self.closing {
            Some(closing) => closing,
            None => {
                let closing = Box::new(self.begin_closing());
                self.closing.insert(closing)
            }
        };
        ready!(closing.poll(cx, &mut self.socket));
        Poll::Ready(ExitReport::default())
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("WebSocket");
        shown.field("role", &self.role).field("reader", &self.reader).finish_non_exhaustive()
    }
}
