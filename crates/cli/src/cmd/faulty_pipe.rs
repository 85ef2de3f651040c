//! The connection to a client of `bridge` or `mock`, with the rules of `--fault` on its messages.
//!
//! ```text
//!   client ──▶ pipe ──▶ rules ──▶ poll_receive        messages of the client
//!   client ◀── pipe ◀── rules ◀── send                messages of the bridge, or of the mock
//! ```
//!
//! Rules see whole messages, whatever the transport, so the same rule works over stdio, sockets, WebSocket and HTTP.
//! The alternative, rules on bytes, would have to take WebSocket frames and HTTP bodies apart again. Faults of the
//! bytes around messages (`corrupt=length`, `half-close`) are therefore refused here; a tap makes them.
//!
//! Without rules, every call goes straight to the pipe.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use duet_rpc::Profile;
use duet_rpc::proto::fault::{Fault, FaultKind};
use duet_rpc::proto::frame::Framing;
use duet_rpc::proto::text::{MAX_DEPTH, Text};
use duet_rpc::transport::{ExitReport, MessagePipe, PipeEvent, Transport, TransportKind};
use duet_rpc_trace::{Dir, FaultNote, FaultStep, Faults};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use super::tap::{add_counts, name_unused_rules};
use super::trace::timeline::clean;
use crate::args::FaultArgs;
use crate::exit::Problem;

/// Counts as unsent while the rules hold as many messages as they may.
const NO_ROOM: usize = 4 * 1024 * 1024;

/// The rules of all connections.
pub(super) struct FaultSettings {
    args: FaultArgs,
    /// Each connection has a seed of its own.
    connections: AtomicU64,
    /// For each rule, the messages that matched it and those that got its fault.
    totals: Mutex<Vec<(u64, u64)>>,
    /// Takes each fault.
    report: Box<dyn Fn(&str) + Send + Sync>,
}

impl FaultSettings {
    /// Rules for connections; `report` takes each fault that they make. `has_process`: there is a server to kill.
    pub(super) fn new(
        args: &FaultArgs,
        has_process: bool,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, Problem> {
        for rule in &args.fault {
            let why = match has_process {
                false if rule.needs_process() => "there is no process to send a signal to; use cut",
                _ if rule.needs_stream() => {
                    "it changes the bytes around messages; start the client or the server with `duet-rpc tap --fault`"
                }
                _ => continue,
            };
            return Err(Problem::usage(format!("cannot use the fault rule `{rule}`: {why}")));
        }
        Ok(Arc::new(FaultSettings {
            args: args.clone(),
            connections: AtomicU64::new(0),
            totals: Mutex::default(),
            report: Box::new(report),
        }))
    }

    /// A pipe over this transport, with these rules.
    pub(super) fn pipe(
        self: &Arc<Self>,
        transport: Box<dyn Transport>,
        profile: &Profile,
    ) -> FaultyPipe {
        let pipe = MessagePipe::new(transport, profile);
        if self.args.fault.is_empty() {
            return FaultyPipe { pipe, rules: None };
        }
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let seed = self.args.seed.wrapping_add(number);
        let rules = Rules {
            settings: Arc::clone(self),
            faults: Faults::new(self.args.fault.clone(), seed),
            start: Instant::now(),
            timers: [None, None],
            kill: None,
            has_ended: false,
            is_settled: false,
        };
        FaultyPipe { pipe, rules: Some(Box::new(rules)) }
    }

    /// Names the rules that made no fault, when all connections have ended.
    pub(super) fn name_unused(&self) {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        name_unused_rules(&self.args.fault, &totals);
    }
}

/// The rules of one connection.
struct Rules {
    settings: Arc<FaultSettings>,
    faults: Faults,
    start: Instant,
    /// The time of the next step of each direction.
    timers: [Option<Pin<Box<Sleep>>>; 2],
    kill: Option<i32>,
    /// The client has closed its output.
    has_ended: bool,
    /// Nothing more will be sent.
    is_settled: bool,
}

/// The next step of a direction.
enum Next {
    Message(Vec<u8>),
    End,
    Cut,
    /// Waits; `true` if it is for a time.
    Wait(bool),
}

impl Rules {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn handle(&mut self, dir: Dir, message: &[u8]) {
        let at = self.now();
        self.faults.handle_message(dir, at, message);
        for note in self.faults.take_notes() {
            (self.settings.report)(&describe(&note));
        }
    }

    fn handle_eof(&mut self, dir: Dir) {
        let at = self.now();
        self.faults.handle_eof(dir, at);
    }

    fn poll(&mut self, dir: Dir, cx: &mut Context<'_>) -> Next {
        loop {
            let next = match self.faults.poll(dir, self.now()) {
                FaultStep::Write(message) => return Next::Message(message),
                // The ends of single directions are refused.
                FaultStep::End | FaultStep::HalfClose => return Next::End,
                FaultStep::Cut => return Next::Cut,
                FaultStep::Wait(None) => return Next::Wait(false),
                FaultStep::Wait(Some(next)) => next,
                FaultStep::Kill(signal) => {
                    self.kill = Some(signal);
                    continue;
                }
            };
            let next = self.start + Duration::from_micros(next);
            let timer = &mut self.timers[usize::from(dir == Dir::S2c)];
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
            if timer.deadline() != next {
                timer.as_mut().reset(next);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Next::Wait(true);
            }
        }
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        let mut totals = self.settings.totals.lock().unwrap_or_else(PoisonError::into_inner);
        add_counts(&mut totals, &self.faults.counts());
    }
}

/// A fault, without the contents of its message.
fn describe(note: &FaultNote) -> String {
    let of = [note.method.as_deref(), note.id.as_deref()];
    let of: String = of.into_iter().flatten().map(|part| format!(" {part}")).collect();
    clean(&format!("fault: {} {}{of}: {}", note.dir.name(), note.kind.name(), note.rule))
}

/// A [`MessagePipe`] with fault rules. Its methods are those of the pipe.
pub(super) struct FaultyPipe {
    pipe: MessagePipe<Box<dyn Transport>>,
    rules: Option<Box<Rules>>,
}

impl FaultyPipe {
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut handle: impl FnMut(PipeEvent<'_>),
    ) -> Poll<io::Result<bool>> {
        let FaultyPipe { pipe, rules } = self;
        let Some(rules) = rules else { return pipe.poll_receive(cx, handle) };
        let mut moved = false;
        if rules.has_ended {
        } else if rules.faults.may_read(Dir::C2s) {
            let received = pipe.poll_receive(cx, |event| match event {
                PipeEvent::Message(text) => rules.handle(Dir::C2s, text.as_str().as_bytes()),
                other => handle(other),
            });
            match received {
                Poll::Pending => {}
                Poll::Ready(Ok(true)) => moved = true,
                Poll::Ready(Ok(false)) => (rules.has_ended, moved) = (true, true),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        } else if pipe.poll_remote_closed(cx).is_ready() {
            (rules.has_ended, moved) = (true, true);
        }
        if rules.has_ended && moved {
            rules.handle_eof(Dir::C2s);
        }
        loop {
            match rules.poll(Dir::C2s, cx) {
                Next::Message(message) => {
                    moved = true;
                    match Text::check(&message, MAX_DEPTH) {
                        Ok(text) => handle(PipeEvent::Message(text)),
                        Err(why) => {
                            let kind = FaultKind::NotJson(why);
                            handle(PipeEvent::Fault(Fault { kind, body: None }));
                        }
                    }
                }
                Next::End => return Poll::Ready(Ok(false)),
                Next::Cut => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Next::Wait(_) if moved || rules.kill.is_some() => return Poll::Ready(Ok(true)),
                Next::Wait(_) => return Poll::Pending,
            }
        }
    }

    pub(super) fn send(&mut self, message: &[u8]) {
        match &mut self.rules {
            None => self.pipe.send(message),
            Some(rules) => rules.handle(Dir::S2c, message),
        }
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let FaultyPipe { pipe, rules } = self;
        let Some(rules) = rules else { return pipe.poll_flush(cx) };
        let is_waiting = loop {
            match rules.poll(Dir::S2c, cx) {
                Next::Message(message) => pipe.send(&message),
                Next::Wait(is_waiting) => break is_waiting,
                Next::End => {
                    pipe.settle();
                    break false;
                }
                Next::Cut => {
                    // The messages before the cut leave, if the client takes them now.
                    let _ = pipe.poll_flush(cx);
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
            }
        };
        match pipe.poll_flush(cx) {
            Poll::Ready(Ok(())) if is_waiting => Poll::Pending,
            flushed => flushed,
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn settle(&mut self) {
        match &mut self.rules {
            None => self.pipe.settle(),
            Some(rules) if !rules.is_settled => {
                rules.is_settled = true;
                rules.handle_eof(Dir::S2c);
            }
            Some(_) => {}
        }
    }

    /// Returns `true` while messages wait for their time.
    pub(super) fn is_delaying(&self) -> bool {
        let timer = self.rules.as_ref().and_then(|rules| rules.timers[1].as_ref());
        timer.is_some_and(|timer| !timer.is_elapsed())
    }

    /// The signal that a rule sends to the server.
    pub(super) fn take_kill(&mut self) -> Option<i32> {
        self.rules.as_mut()?.kill.take()
    }

    pub(super) fn unsent(&self) -> usize {
        let has_room = self.rules.as_ref().is_none_or(|rules| rules.faults.may_read(Dir::S2c));
        self.pipe.unsent() + if has_room { 0 } else { NO_ROOM }
    }

    pub(super) fn signs_of_reading(&self) -> u64 {
        self.pipe.signs_of_reading()
    }

    pub(super) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.pipe.poll_remote_closed(cx)
    }

    pub(super) fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.pipe.poll_reader_gone(cx)
    }

    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.pipe.poll_close(cx)
    }

    pub(super) fn kind(&self) -> TransportKind {
        self.pipe.kind()
    }

    pub(super) fn framing(&self) -> Option<Framing> {
        self.pipe.framing()
    }

    /// Returns `true` until the remote has shown its framing.
    pub(super) fn needs_framing(&self) -> bool {
        self.kind() == TransportKind::Bytes && self.framing().is_none()
    }

    pub(super) fn set_first_framing(&mut self, framing: Framing) {
        self.pipe.set_first_framing(framing);
    }
}
