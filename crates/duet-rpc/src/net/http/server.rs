//! HTTP server: its end of one connection.

use std::fmt;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duet_rpc_proto::Profile;
use tokio::time::Sleep;

use super::clock::HttpClock;
use super::intake::{HttpAnswer, Intake, RequestProgress, RequestStep, Rules};
use super::terms::{Terms, Then};
use crate::net::web::{AccessPolicy, CONTINUE, Status};
use crate::net::{Socket, Target};
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// The server's end of a connection. It serves requests one after the other.
///
/// A connection without a request for 30 s, or whose client reads nothing of an answer for as long, is
/// closed; see [`idle_timeout`](Self::idle_timeout). A request that takes longer than the profile's
/// [`read_timeout`](Profile::read_timeout) is refused with 408.
pub struct HttpServer {
    socket: Socket,
    intake: Intake,
    state: ServerState,
    /// What was read behind the request that is served.
    ahead: Vec<u8>,
    clock: HttpClock,
    /// `true` if the request that is served is the last: either end has closed.
    is_last: bool,
    /// Runs while a client that has closed its end has still more than this request to be answered.
    patience: Option<Pin<Box<Sleep>>>,
}

enum ServerState {
    /// A request is read.
    Reading,
    /// A message was handed in, and is not answered yet.
    Open(Terms),
    /// Its answer is written, which still stands in the outbox: the head, and how much of both has
    /// left.
    Answering { head: Vec<u8>, written: usize, then: Then },
    /// A response is written that is no message, or leave to go on.
    Writing { bytes: Vec<u8>, written: usize, then: Then },
    /// Nothing more is read.
    Ended(Then),
}

/// How long the answer to one request may take for a client that has closed its end and wants more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Room for a usual head.
const HEAD: usize = 128;

/// An answer up to this length is copied behind its head.
const SMALL: usize = 4 * 1024;

impl HttpServer {
    /// Serves requests to this target that the access policy accepts. The query does not matter.
    pub fn new(
        socket: Socket,
        access: Arc<AccessPolicy>,
        target: &Target,
        profile: &Profile,
    ) -> Self {
        let limits = &profile.limits;
        let rules = Rules {
            access,
            path: target.path().into(),
            header_bytes: limits.header_bytes,
            message_bytes: limits.message_bytes,
        };
        HttpServer {
            socket,
            intake: Intake::new(rules),
            state: ServerState::Reading,
            ahead: Vec::new(),
            clock: HttpClock::new(profile.read_timeout),
            is_last: false,
            patience: None,
        }
    }

    /// Closes the connection if no request comes for this long after its beginning or the last answer, or
    /// if the client reads nothing of an answer for this long. Default: 30 seconds. `None` turns it off.
    /// Without a read timeout, a request head has this long to arrive too.
    #[must_use]
    pub fn idle_timeout(mut self, idle_timeout: Option<Duration>) -> Self {
        self.clock.set_idle_timeout(idle_timeout);
        self
    }

    /// Reads on in a request; ready when there is something to do.
    fn poll_step(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<RequestStep>> {
        loop {
            let HttpServer { socket, intake, ahead, .. } = self;
            if !ahead.is_empty() {
                let (used, step) = intake.take(ahead, inbox)?;
                ahead.drain(..used);
                if ahead.is_empty() {
                    *ahead = Vec::new();
                }
                if !matches!(step, RequestStep::More) {
                    return Poll::Ready(Ok(step));
                }
                continue;
            }
            let read = socket.poll_read(cx, |piece| {
                if piece.is_empty() {
                    return Ok(None);
                }
                let (used, step) = intake.take(piece, inbox)?;
                ahead.extend_from_slice(piece.get(used..).unwrap_or_default());
                Ok::<_, io::Error>(Some(step))
            });
            match read? {
                Poll::Ready(Ok(Some(RequestStep::More))) => {}
                Poll::Ready(Ok(Some(step))) => return Poll::Ready(Ok(step)),
                // What was begun will never be whole.
                Poll::Ready(Ok(None)) => {
                    inbox.drop_message()?;
                    return Poll::Ready(Ok(RequestStep::Answer(HttpAnswer::close())));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    let progress = self.intake.progress();
                    ready!(self.clock.poll(cx, progress));
                    return Poll::Ready(match progress {
                        RequestProgress::Idle => {
                            tracing::debug!("idle connection closed");
                            Ok(RequestStep::Answer(HttpAnswer::close()))
                        }
                        RequestProgress::Head | RequestProgress::Body => {
                            self.intake.give_up(inbox).map(RequestStep::Answer)
                        }
                    });
                }
            }
        }
    }

    /// Ready when the client has closed its end while a request is served. To find that out, it is
    /// read ahead once: it can send its next request, but not any number of them.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let HttpServer { socket, ahead, patience, .. } = self;
        if ahead.is_empty() {
            ready!(socket.poll_read(cx, |piece| ahead.extend_from_slice(piece)))?;
        }
        if ahead.is_empty() {
            return Poll::Ready(Ok(()));
        }
        // What was read ahead is served when the answer has left. One who has closed, and does not
        // even take the answers to what it has asked, is not waited for.
        ready!(socket.poll_remote_closed(cx));
        let patience = patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(PATIENCE)));
        patience.as_mut().poll(cx).map(Ok)
    }

    fn write(&mut self, bytes: Vec<u8>, then: Then) {
        self.state = ServerState::Writing { bytes, written: 0, then };
    }

    /// Writes what is no message.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let ServerState::Writing { bytes, written, then } = &mut self.state {
            while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
                *written += ready!(self.socket.poll_write(cx, rest))?;
            }
            ready!(self.socket.poll_flush(cx))?;
            self.state = ServerState::behind(*then);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes head and message in one go, as far as they are taken.
    fn poll_answer(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let ServerState::Answering { head, written, then } = &mut self.state else {
            return Poll::Ready(Ok(()));
        };
        loop {
            let message = outbox.message().unwrap_or_default();
            let before = head.get(*written..).unwrap_or_default();
            let behind = message.get(written.saturating_sub(head.len())..).unwrap_or_default();
            *written += ready!(match (before, behind) {
                ([], []) => break,
                ([], rest) | (rest, []) => self.socket.poll_write(cx, rest),
                _ => self.socket.poll_write_both(cx, before, behind),
            })?;
            // A large answer leaves in many pieces, and each is a sign of life.
            outbox.note_reading();
        }
        ready!(self.socket.poll_flush(cx))?;
        self.state = ServerState::behind(*then);
        outbox.pop();
        Poll::Ready(Ok(()))
    }

    /// Ready with an error when the client has taken nothing of its answer for too long.
    fn poll_reader(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (ServerState::Answering { written, .. } | ServerState::Writing { written, .. }) =
            self.state
        else {
            return Poll::Pending;
        };
        ready!(self.clock.poll_reader(cx, written));
        let why = "the client took nothing of its answer for too long";
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    /// Takes the terms of the request that is served, for its answer.
    fn take_terms(&mut self) -> Option<Terms> {
        match mem::replace(&mut self.state, ServerState::Reading) {
            ServerState::Open(mut terms) => {
                if self.is_last && terms.then == Then::GoOn {
                    terms.then = Then::Close;
                }
                Some(terms)
            }
            state => {
                self.state = state;
                None
            }
        }
    }
}

impl ServerState {
    fn behind(then: Then) -> ServerState {
        match then {
            Then::GoOn => ServerState::Reading,
            Then::Close | Then::Linger => ServerState::Ended(then),
        }
    }
}

impl Transport for HttpServer {
    fn kind(&self) -> TransportKind {
        TransportKind::Exchange
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        loop {
            let step = match &self.state {
                ServerState::Reading => ready!(self.poll_step(cx, inbox))?,
                ServerState::Writing { .. } => {
                    if self.poll_write(cx)?.is_pending() {
                        return self.poll_reader(cx).map(Err);
                    }
                    RequestStep::More
                }
                ServerState::Open(_) | ServerState::Answering { .. } => {
                    ready!(self.poll_end(cx))?;
                    // It may have closed only its own direction, and still wants the answer.
                    self.is_last = true;
                    return Poll::Ready(Ok(Received::Eof));
                }
                ServerState::Ended(_) => return Poll::Ready(Ok(Received::Eof)),
            };
            match step {
                RequestStep::More => {}
                // The time goes on: the body has still to come.
                RequestStep::Continue => self.write(CONTINUE.to_vec(), Then::GoOn),
                RequestStep::Answer(HttpAnswer { bytes, then }) => {
                    self.clock.stop();
                    self.write(bytes, then);
                }
                RequestStep::Message(terms) => {
                    self.clock.stop();
                    self.patience = None;
                    self.state = ServerState::Open(terms);
                    return Poll::Ready(Ok(Received::Data));
                }
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        self.is_last |= outbox.is_closing();
        if outbox.take_settled()
            && let Some(terms) = self.take_terms()
        {
            let mut bytes = Vec::with_capacity(HEAD);
            terms.reply(Status::ACCEPTED).write_head(0, &mut bytes);
            self.write(bytes, terms.then);
        }
        if let Some(message) = outbox.message()
            && let Some(terms) = self.take_terms()
        {
            let mut head = Vec::with_capacity(HEAD + message.len().min(SMALL));
            terms.write_head(message.len(), &mut head);
            let (written, then) = (0, terms.then);
            self.state = match message.len() <= SMALL {
                // To write one piece costs the system less than to write two.
                true => {
                    head.extend_from_slice(message);
                    outbox.pop();
                    ServerState::Writing { bytes: head, written, then }
                }
                false => ServerState::Answering { head, written, then },
            };
        }
        if outbox.message().is_some() && !matches!(self.state, ServerState::Answering { .. }) {
            tracing::error!("an answer has nobody who waits for it, and was dropped");
            outbox.pop();
        }
        if self.poll_answer(cx, outbox)?.is_pending() || self.poll_write(cx)?.is_pending() {
            return self.poll_reader(cx).map(Err);
        }
        // Whoever receives waits for the socket, which has nothing to say of what was read already, nor
        // that this was the last response.
        let is_due = match self.state {
            ServerState::Reading => !self.ahead.is_empty(),
            ServerState::Ended(_) => true,
            _ => false,
        };
        if is_due {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.state {
            // A client that has closed its end may have sent more requests before.
            ServerState::Open(_) | ServerState::Answering { .. } => self.poll_end(cx).map(drop),
            _ => self.socket.poll_remote_closed(cx),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        match self.state {
            ServerState::Ended(Then::Linger) => ready!(self.socket.poll_linger(cx)),
            _ => ready!(self.socket.poll_shutdown(cx)),
        }
        Poll::Ready(ExitReport::default())
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("intake", &self.intake).finish_non_exhaustive()
    }
}
