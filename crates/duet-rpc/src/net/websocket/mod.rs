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
use self::closing::{CloseFrame, WebSocketClosing};
use self::reader::{FrameReader, WebSocketEnd};
use super::Socket;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// A WebSocket on a connected socket, after the handshake. Each WebSocket message carries one JSON-RPC message.
///
/// It receives text and binary messages alike, and sends text. It answers every ping. It pings a remote that
/// is silent for a while, and ends the connection if no sign of life follows. A message over the
/// profile's limit, or one that takes longer than its [`read_timeout`](Profile::read_timeout), ends the
/// connection too, because there is no way to skip the rest of it. So does a text message that is not
/// UTF-8. In all these cases, messages that were received earlier are still answered.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// use duet_rpc::proto::ws::Role;
/// use duet_rpc::{Peer, Profile, Router, transport::{Socket, WebSocket}};
///
/// let socket = Socket::tcp(tokio::net::TcpStream::connect("127.0.0.1:4000").await?);
/// // The handshake happens here. `behind` holds the bytes that were read after it.
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
    /// Bytes that were read with the handshake and follow it.
    leftover: Vec<u8>,
    reader: FrameReader,
    clock: WebSocketClock,
    wants_ping: bool,
    /// The end of the last control frame, as a count of sent bytes.
    control_end: u64,
    /// `true` if only a part of the outbox was sent: the remote may have received half a frame.
    is_midway: bool,
    has_ended: bool,
    close_frame: Option<CloseFrame>,
    /// Set by a server that stops, before it closes its connections.
    going_away: Option<Arc<AtomicBool>>,
    closing: Option<Box<WebSocketClosing>>,
}

/// Time without data before a ping is sent; also the time for a sign of life after that.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

impl WebSocket {
    /// One end of a connection. `leftover` holds the bytes that were read with the handshake and follow
    /// it.
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

    /// Pings a remote that was silent for this long, and ends the connection if it is silent for as long
    /// again. Default: 30 seconds. `None` turns it off.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Option<Duration>) -> Self {
        self.clock.set_keep_alive(keep_alive);
        self
    }

    /// While this flag is set, the close frame has the code 1001 (going away).
    #[must_use]
    pub fn going_away(mut self, going_away: Arc<AtomicBool>) -> Self {
        self.going_away = Some(going_away);
        self
    }

    /// Ends receiving, with the reason. An unfinished message is dropped.
    fn end(&mut self, end: WebSocketEnd, inbox: &mut Inbox) -> io::Result<Received> {
        self.close_frame = match end {
            WebSocketEnd::Lost => {
                tracing::debug!("connection ended without a close frame");
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

    /// Logs the problem with the received bytes, and nothing of their contents (rule G6).
    fn log_problem(&self, problem: Problem) {
        match problem {
            Problem::TooLarge(bytes) => {
                let limit = self.reader.limit();
                tracing::warn!(bytes, limit, "connection closed: message too large");
            }
            Problem::Protocol(_) | Problem::NotUtf8 => {
                let (problem, code) = (problem.reason(), problem.code());
                tracing::warn!(problem, code, "connection closed: invalid WebSocket frame");
            }
        }
    }

    /// Checks the read timeout and the keep-alive. Called when no bytes are available.
    fn poll_time(&mut self, cx: &mut Context<'_>, inbox: &mut Inbox) -> Poll<io::Result<Received>> {
        let partial = self.reader.partial(inbox);
        let reason = match ready!(self.clock.poll(cx, partial)) {
            // Nothing was received, but `poll_send` follows, and sends the ping.
            Due::Ping => {
                self.wants_ping = true;
                return Poll::Ready(Ok(Received::Drained));
            }
            Due::Late => {
                let received = inbox.unfinished();
                let after_ms = self.clock.read_timeout_ms();
                tracing::warn!(received, after_ms, "connection closed: message took too long");
                "message took too long"
            }
            Due::Gone => {
                let after_ms = self.clock.keep_alive_ms();
                tracing::warn!(after_ms, "connection closed: no sign of life from the remote");
                "no sign of life"
            }
        };
        inbox.note_end(io::Error::new(io::ErrorKind::TimedOut, reason))?;
        self.close_frame = Some(CloseFrame { code: Some(close_code::POLICY), reason });
        Poll::Ready(self.finish(inbox))
    }

    /// Appends the due pongs and a due ping to the end of the outbox. The next ones wait until these are sent, so a
    /// remote that pings and does not read costs bounded memory.
    fn append_controls(&mut self, outbox: &mut Outbox) {
        if outbox.sent() < self.control_end {
            return;
        }
        let before = outbox.len();
        for ping in self.reader.take_pings() {
            outbox.append_control(ControlKind::Pong, &ping);
        }
        if std::mem::take(&mut self.wants_ping) {
            outbox.append_control(ControlKind::Ping, &Control::new(b""));
        }
        if outbox.len() > before {
            self.control_end = outbox.sent() + outbox.len() as u64;
        }
    }

    /// Starts closing: sends a close frame, unless a part of another frame was sent.
    fn begin_closing(&mut self) -> WebSocketClosing {
        let is_going_away =
            self.going_away.as_ref().is_some_and(|going_away| going_away.load(Ordering::Relaxed));
        let code = match is_going_away {
            true => close_code::GOING_AWAY,
            false => close_code::NORMAL,
        };
        let frame = self.close_frame.take().unwrap_or(CloseFrame { code: Some(code), reason: "" });
        // In the middle of a frame, the remote would read the close frame as a part of it.
        WebSocketClosing::new(self.role, Some(frame).filter(|_| !self.is_midway))
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
                return self.socket.poll_flush(cx);
            }
            let count = ready!(self.socket.poll_write(cx, outbox.bytes()))?;
            outbox.consume(count);
            self.is_midway = !outbox.is_empty();
        }
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Nothing is read, so no message can be late.
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
