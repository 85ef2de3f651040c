//! One client with a server of its own: messages pass as they are.
//!
//! ```text
//!            EOF of the client          answered, or LAST_ANSWERS       EOF of the server, or LAST_OUTPUT
//!   open ───────────────────▶ answering ────────────────────▶ leaving ──────────────────▶ closed
//!     │                            │ stdin of the server closes ┘                            ▲
//!     └── either side is gone, nothing passes for `--idle`, or the bridge stops ─────────────┘
//! ```
//!
//! A side is read only while the other side takes what was read before, so nothing piles up here.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc::transport::{ExitReport, PipeEvent, TransportKind};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use super::awaited::Awaited;
use super::closing::{LAST_FLUSH, close, receive_last};
use super::faults::FaultCount;
use super::routes::{error_answer, late, lost, lost_because};
use super::server_pipe::ServerPipe;
use super::{FULL, LAST_ANSWERS, MOST_AHEAD, STUCK, StopSignal};
use crate::cmd::faulty_pipe::FaultyPipe;

/// Time for the output of a server after its input was closed.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

pub(super) type ClientPipe = FaultyPipe;

/// The reason for the end of a connection.
#[derive(Debug)]
pub(super) enum End {
    /// The client left, or its connection failed.
    Client(Option<ClientFailure>),
    Server,
    /// The server did not answer in time, and its input cannot be closed alone.
    Unanswered,
    /// The server refused the first exchange.
    Refused,
    Idle,
    Stopped,
}

/// The reason why a client cannot be served, if it did not simply leave.
#[derive(Debug)]
pub(super) enum ClientFailure {
    Read(io::Error),
    Write(io::Error),
}

/// Returns `true` if the client has closed the connection, or a fault rule has cut it.
pub(super) fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// The way from the client to the server.
enum Phase {
    Open,
    /// The client has closed its output, and answers may follow.
    Answering(Instant),
    /// The input of the server is closed.
    Leaving(Instant),
}

struct Direct<'a> {
    client: ClientPipe,
    server: ServerPipe,
    phase: Phase,
    /// A message of the client has come.
    has_spoken: bool,
    /// Requests of the client without an answer.
    awaited: Awaited,
    client_faults: FaultCount,
    server_faults: FaultCount,
    /// Set while the client seems to be gone and the server takes nothing.
    abandoned: Option<Instant>,
    /// Set while the server has too much to take: its signs of reading, and the time of the last one.
    full: Option<(u64, Instant)>,
    idle: Option<Duration>,
    last_message: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    stop: &'a mut StopSignal,
}

/// Serves one client with this server. Returns the reason for the end, and how the server ended.
pub(super) async fn serve(
    client: ClientPipe,
    server: ServerPipe,
    idle: Option<Duration>,
    stop: &mut StopSignal,
) -> (End, ExitReport) {
    let mut direct = Direct {
        client,
        server,
        phase: Phase::Open,
        has_spoken: false,
        awaited: Awaited::default(),
        client_faults: FaultCount::default(),
        server_faults: FaultCount::default(),
        abandoned: None,
        full: None,
        idle,
        last_message: Instant::now(),
        timer: None,
        stop,
    };
    let end = poll_fn(|cx| direct.poll(cx)).await;
    if let End::Client(_) = end {
        direct.deliver_last().await;
    }
    let is_refused = direct.server.is_refused();
    let Direct { mut client, server, mut awaited, has_spoken, .. } = direct;
    let mut left = Vec::new();
    if let End::Server = end {
        // A client whose server ends while it starts has often not got round to its first request.
        let time = if has_spoken { Duration::ZERO } else { LAST_FLUSH };
        receive_last(&mut client, &mut awaited, time).await;
        left = awaited.errors(&lost());
    }
    if let End::Unanswered = end {
        tracing::warn!(requests = awaited.len(), "the server did not answer in time");
        left = awaited.errors(&late());
    }
    let (flushed, report) = close(client, server, &left).await;
    match (end, flushed) {
        (End::Server | End::Client(None), Err(error)) if !has_left(&error) => {
            (End::Client(Some(ClientFailure::Write(error))), report)
        }
        (End::Server | End::Client(None), _) if is_refused => (End::Refused, report),
        (end, _) => (end, report),
    }
}

impl Direct<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        if self.stop.poll(cx).is_ready() {
            return Poll::Ready(End::Stopped);
        }
        loop {
            let moved = match self.turn(cx) {
                Ok(moved) => moved,
                Err(end) => return Poll::Ready(end),
            };
            if !moved && let Poll::Pending = self.poll_timer(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Waits until an HTTP server has accepted the last messages of a client that has left. Other transports accept
    /// messages by reading them.
    async fn deliver_last(&mut self) {
        if self.server.kind() != TransportKind::Messages {
            return;
        }
        self.server.settle();
        let until = match self.phase {
            Phase::Answering(until) => until,
            _ => Instant::now() + LAST_ANSWERS,
        };
        let delivered = poll_fn(|cx| {
            loop {
                match self.receive_from_server(cx, Instant::now()) {
                    _ if self.stop.poll(cx).is_ready() => return Poll::Ready(()),
                    Err(_) => return Poll::Ready(()),
                    Ok(true) => {}
                    Ok(false) => break,
                }
            }
            let _ = self.client.poll_flush(cx);
            self.server.poll_flush(cx).map(drop)
        });
        let _ = timeout_at(until, delivered).await;
    }

    /// Moves messages in both directions. Returns `true` if something changed.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<bool, End> {
        let now = Instant::now();
        // A client that has closed both directions waits for no answer.
        if matches!(self.phase, Phase::Answering(_)) && self.client.poll_reader_gone(cx).is_ready()
        {
            return Err(End::Client(None));
        }
        let mut moved = self.receive_from_client(cx, now)?;
        moved |= self.receive_from_server(cx, now)?;
        let was_full = (self.client.unsent() >= FULL, self.server.unsent() >= FULL);
        if let Poll::Ready(Err(error)) = self.client.poll_flush(cx) {
            return Err(End::Client(Some(ClientFailure::Write(error))));
        }
        if let Some(signal) = self.client.take_kill() {
            self.server.transport_mut().kill(signal);
        }
        if !matches!(self.phase, Phase::Leaving(_))
            && let Poll::Ready(Err(_)) = self.server.poll_flush(cx)
        {
            // Its last answers may still be readable.
            self.phase = Phase::Leaving(now + LAST_OUTPUT);
            moved = true;
        }
        moved |= was_full != (self.client.unsent() >= FULL, self.server.unsent() >= FULL);
        self.advance(now)?;
        Ok(moved)
    }

    /// Moves on to the next phase, or ends.
    fn advance(&mut self, now: Instant) -> Result<(), End> {
        match self.phase {
            Phase::Answering(until) if self.awaited.is_empty() || now >= until => {
                if self.server.unsent() > 0 && now < until {
                    return Ok(());
                }
                if !self.server.transport_mut().close_input() {
                    let is_answered = self.awaited.is_empty();
                    return Err(if is_answered { End::Client(None) } else { End::Unanswered });
                }
                self.phase = Phase::Leaving(now + LAST_OUTPUT);
            }
            Phase::Leaving(until) if now >= until => {
                // The client may still read, and learns that there are no answers.
                return Err(if self.awaited.is_empty() { End::Client(None) } else { End::Server });
            }
            _ => {}
        }
        let is_idle = self.idle_until().is_some_and(|until| now >= until);
        match self.abandoned {
            _ if is_idle => Err(End::Idle),
            Some(since) if now >= since + LAST_ANSWERS => Err(End::Client(None)),
            _ => Ok(()),
        }
    }

    /// The time at which the connection ends because nothing happens. A request without an answer is still at work.
    fn idle_until(&self) -> Option<Instant> {
        let idle = self.idle.filter(|_| self.awaited.is_empty());
        idle.map(|idle| self.last_message + idle)
    }

    fn receive_from_client(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<bool, End> {
        if !matches!(self.phase, Phase::Open) {
            return Ok(false);
        }
        if self.server.unsent() < FULL {
            (self.abandoned, self.full) = (None, None);
        } else {
            // Unread messages may precede the end, so it ends the connection only if the server takes nothing either.
            if self.abandoned.is_none() && self.client.poll_remote_closed(cx).is_ready() {
                self.abandoned = Some(now);
            }
            let signs = self.server.signs_of_reading();
            let full = self.full.get_or_insert((signs, now));
            if full.0 != signs {
                *full = (signs, now);
            }
            if self.server.unsent() >= MOST_AHEAD || now < full.1 + STUCK {
                return Ok(false);
            }
        }
        let Direct { client, server, awaited, client_faults, last_message, has_spoken, .. } = self;
        let (mut first, mut replies) = (Vec::new(), Vec::new());
        let received = client.poll_receive(cx, |event| match event {
            PipeEvent::Message(text) => {
                client_faults.clear();
                *last_message = now;
                *has_spoken = true;
                awaited.note_request(&text);
                let message = text.as_str().as_bytes();
                match server.is_undecided() {
                    true => first.push(message.to_vec()),
                    false => server.send(message, None),
                }
            }
            PipeEvent::Fault(fault) => replies.extend(client_faults.reply(&fault)),
            PipeEvent::Failed(..) => {}
        });
        // The framing of the client is known now.
        first.iter().for_each(|message| server.send(message, client.framing()));
        replies.iter().for_each(|reply| client.send(reply));
        match received {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(true)) => Ok(true),
            // A stream may end in one direction alone.
            Poll::Ready(Ok(false)) if client.kind() == TransportKind::Bytes => {
                self.phase = Phase::Answering(now + LAST_ANSWERS);
                Ok(true)
            }
            Poll::Ready(Ok(false)) => Err(End::Client(None)),
            Poll::Ready(Err(error)) => Err(End::Client(Some(ClientFailure::Read(error)))),
        }
    }

    fn receive_from_server(&mut self, cx: &mut Context<'_>, now: Instant) -> Result<bool, End> {
        if self.client.unsent() >= FULL {
            return Ok(false);
        }
        let Direct { client, server, awaited, server_faults, last_message, .. } = self;
        let (needs_framing, mut first) = (client.needs_framing(), Vec::new());
        let received = server.poll_receive(cx, |event| match event {
            PipeEvent::Message(text) => {
                *last_message = now;
                awaited.note_answer(&text);
                let message = text.as_str().as_bytes();
                match needs_framing {
                    true => first.push(message.to_vec()),
                    false => client.send(message),
                }
            }
            PipeEvent::Fault(fault) => server_faults.log(&fault),
            PipeEvent::Failed(id, error) => {
                tracing::warn!(%error, "the server did not answer a request");
                awaited.remove(&id);
                client.send(&error_answer(&id, &lost_because(&error)));
            }
        });
        if !first.is_empty() {
            // The framing of the server is known now.
            client.set_first_framing(server.framing_for_client());
            first.iter().for_each(|message| client.send(message));
        }
        match received {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(true)) => Ok(true),
            Poll::Ready(Ok(false) | Err(_)) => Err(End::Server),
        }
    }

    /// Ready when a deadline has passed.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let phase = match self.phase {
            Phase::Open => None,
            Phase::Answering(until) | Phase::Leaving(until) => Some(until),
        };
        let abandoned = self.abandoned.map(|since| since + LAST_ANSWERS);
        let has_room = self.server.unsent() < MOST_AHEAD;
        let stuck = self.full.filter(|_| has_room).map(|(_, since)| since + STUCK);
        let stuck = stuck.filter(|until| *until > Instant::now());
        let Some(next) = [phase, abandoned, stuck, self.idle_until()].into_iter().flatten().min()
        else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if timer.deadline() != next {
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(cx)
    }
}
