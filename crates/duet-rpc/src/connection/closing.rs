//! Closing: the end of a connection. Every change of its stage is made in this file.
//!
//! ```text
//!            the input ends,
//!            a close is asked for,        nothing is left,
//!            or a write fails             or the time is over         the transport is closed
//!  Running ─────────────────────▶ Draining ───────────────▶ Closing ──────────────────────▶ Closed
//!     │                                                        ▲
//!     └── a read fails, or the remote stalls ──────────────────┘
//! ```
//!
//! | reason to drain | messages that still start | draining ends when nothing is left, or after |
//! |---|---|---|
//! | the remote ended its output | all that have arrived | `drain_timeout` since the remote read last; up to [`SLOW_READER`] on a listener, if it reads |
//! | a close was asked for | those that arrived before the close | `drain_timeout` since the close |
//! | a write failed | none | no call of ours is pending, or after [`READ_GRACE`] |
//!
//! The module `exchange` ends most requests over HTTP without these stages.
//!
//! Once per turn, [`Connection::check_over`] checks whether anything is left, and so whether the connection is over.
//!
//! | time of the end | limits |
//! |---|---|
//! | [`Profile::drain_timeout`](crate::Profile), 1.75 s | draining |
//! | [`READ_GRACE`] | reading after a failed write |
//! | [`EXIT_REPORT`] | our pending calls, after a process at the other end has gone: their error should say how it ended |
//! | [`SLOW_READER`] | a remote that has closed its end and does not read its answers |
//! | [`STALLED`] | a remote that reads nothing while the memory for answers is short |
//! | [`LINGER`] | a server on stdio that was shut down waits for its client to close stdin |
//! | [`STDIN_FOLLOWS`] | stdin may be closed this long after stdout by a client that exits |
//! | [`LOG_IF_STUCK`] | the reason for the end is logged by another thread if the connection is stuck |
//! | [`PROGRAMS_END`] | programs that handlers have started run on after a signal |
//! | [`FORCED_EXIT`] | the whole process, from the trigger to its exit |
//! | [`EXIT_HOOK`], [`LAST_MOMENT`] | the exit hook, on the usual and on the forced exit |

use std::io;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::message::LogFields;
use duet_rpc_proto::session::{Ending, Key, Phase};

use super::budget::Silence;
use super::{Caller, Command, Connection, log};
use crate::error::{CloseReason, ConnectionState, Disconnect};
use crate::panic_guard::drop_quietly;
use crate::transport::TransportKind;

/// A remote that answers and exits often breaks our next write before we have read its answer.
const READ_GRACE: Duration = Duration::from_millis(500);
/// A process that has died is reaped within milliseconds, unless processes that it started still run.
const EXIT_REPORT: Duration = Duration::from_millis(500);
/// The system reports the progress of a socket's reader only in steps of several hundred kilobytes.
const SLOW_READER: Duration = Duration::from_secs(30);
/// See `budget`.
pub(crate) const STALLED: Duration = Duration::from_secs(5);

/// A client that sees the exit before it has read the answer to `shutdown` reports a crash.
pub(crate) const LINGER: Duration = Duration::from_millis(25);
/// A client that exits closes both ends, in any order.
pub(crate) const STDIN_FOLLOWS: Duration = Duration::from_millis(50);
/// A connection without a sign of life for this long is stuck in a handler.
pub(crate) const LOG_IF_STUCK: Duration = Duration::from_secs(1);
/// Shortly before the forced exit: at that moment there may be too little time to find all processes.
pub(crate) const PROGRAMS_END: Duration = Duration::from_millis(1500);
/// Clients kill a server after 2 s, and on a busy machine the exit itself takes time.
pub(crate) const FORCED_EXIT: Duration = Duration::from_millis(1870);
/// See [`Server::before_exit`](crate::Server::before_exit) (L6).
pub(crate) const EXIT_HOOK: Duration = Duration::from_millis(500);
/// Time for the exit hook after [`FORCED_EXIT`].
pub(crate) const LAST_MOMENT: Duration = Duration::from_millis(30);

/// The stage of a connection.
#[derive(Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// The session has the deadline.
    Draining {
        /// Set when the remote has ended its output.
        remote_end: Option<Disconnect>,
        /// Set when a write has failed: the error, and the end of [`READ_GRACE`].
        write_failure: Option<(io::Error, Instant)>,
        /// Set while our calls wait for the exit report of a remote that has ended its output.
        calls_fail_at: Option<Instant>,
        /// Set while a remote that has closed its end does not read its answers.
        silence: Option<Silence>,
    },
    /// The transport is being closed.
    Closing {
        disconnect: Disconnect,
        /// Our calls that wait for the exit report.
        callers: Vec<Caller>,
        /// The end of the wait.
        calls_fail_at: Instant,
    },
    Closed(Disconnect),
}

impl Stage {
    pub(super) fn is_running(&self) -> bool {
        matches!(self, Stage::Running)
    }

    /// Returns `true` if the connection takes turns.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Stage::Running | Stage::Draining { .. })
    }

    /// Returns `true` if no write has failed.
    #[inline]
    pub(super) fn can_write(&self) -> bool {
        !matches!(self, Stage::Draining { write_failure: Some(_), .. })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Stage::Draining { write_failure: Some((_, until)), .. } => Some(*until),
            Stage::Draining { calls_fail_at, .. } => *calls_fail_at,
            _ => None,
        }
    }
}

fn fail_calls(callers: &mut Vec<Caller>, disconnect: &Disconnect) {
    for caller in callers.drain(..) {
        caller.settle(Err(disconnect.to_error()));
    }
}

impl Connection {
    // ---- causes of the end

    /// Handles the end of the input. `reason` is set if the input did not simply end.
    pub(super) fn handle_input_end(&mut self, reason: Option<io::Error>, now: Instant) {
        self.session.handle_end(now);
        let end = match reason {
            None => Disconnect::new(CloseReason::RemoteClosed, None),
            Some(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                Disconnect::failed(CloseReason::RemoteClosed, error)
            }
            Some(error) => Disconnect::failed(CloseReason::ReadFailed, error),
        };
        let reports_exit = self.transport.reports_exit();
        // Set the state first: callers that fail now must not see an open connection.
        self.drain();
        if let Stage::Draining { remote_end, calls_fail_at, .. } = &mut self.stage {
            *remote_end = Some(end.clone());
            *calls_fail_at = reports_exit.then(|| now + EXIT_REPORT);
        }
        if !reports_exit {
            self.abandon_calls(&end);
        }
    }

    /// Handles a failed write. Nothing can be answered any more, so nothing is begun; answers to our calls
    /// are still read.
    pub(super) fn handle_write_failure(&mut self, error: io::Error, now: Instant) {
        self.session.close(None, now, &mut self.outbox);
        self.window.note_flush(false);
        self.drain();
        if let Stage::Draining { write_failure, .. } = &mut self.stage {
            write_failure.get_or_insert((error, now + READ_GRACE));
        }
        // The transport gets no more bytes.
        self.is_flushed = true;
    }

    /// Closes because a message asked for it. The handler of that message may not have begun yet.
    pub(super) fn close_for(&mut self, key: Key) {
        if self.session.phase() == Phase::Open
            && let Some(on_close) = self.shared.on_close.get()
        {
            on_close(Some(key));
        }
        self.close(Some(key), super::now());
    }

    pub(super) fn close(&mut self, asked_by: Option<Key>, now: Instant) {
        self.session.close(asked_by, now, &mut self.outbox);
        self.drain();
    }

    /// Enters the stage of draining, if it has not begun.
    fn drain(&mut self) {
        if let Stage::Running = self.stage {
            self.stage = Stage::Draining {
                remote_end: None,
                write_failure: None,
                calls_fail_at: None,
                silence: None,
            };
            self.shared.state.set(ConnectionState::Draining);
            self.outbox.set_closing();
            // A transport that has sent everything may have to react to the close.
            self.is_flushed &= self.kind == TransportKind::Bytes;
        }
    }

    // ---- checks for the end

    /// Handles everything that is due.
    #[inline]
    pub(super) fn handle_time(&mut self, now: Instant) {
        self.dispatch.trial_ends.take_if(|until| *until <= now);
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if !is_due(self.session.poll_timeout()) && !is_due(self.outgoing_deadline()) {
            return;
        }
        if let Some(notice) = self.session.handle_timeout(now) {
            log::notice(notice, &LogFields::default());
        }
        self.expire_outgoing(now);
        if self.session.drain_deadline().is_some_and(|until| until <= now) {
            self.session.give_up_batches(&mut self.outbox);
        }
    }

    /// Checks whether the connection is over. An error is the end, and its reason.
    #[inline]
    pub(super) fn check_over(&mut self, now: Instant) -> Result<(), Disconnect> {
        if !self.is_flushed || self.window.deadline().is_some() {
            let failed = |error| Disconnect::failed(CloseReason::WriteFailed, error);
            self.check_stall(now).map_err(failed)?;
        }
        match self.stage {
            Stage::Running => Ok(()),
            _ => self.check_drained(now),
        }
    }

    fn check_drained(&mut self, now: Instant) -> Result<(), Disconnect> {
        let is_done = self.is_done();
        let is_late = self.session.drain_deadline().is_some_and(|until| until <= now);
        let is_awaited = self.session.pending_calls() > 0 && !self.receive.has_ended;
        let is_closing = self.is_closing();
        self.fail_late_calls(now);
        let Stage::Draining { write_failure, remote_end, .. } = &mut self.stage else {
            return Ok(());
        };
        if write_failure.is_some() {
            let is_over = |failure: &mut (_, Instant)| !is_awaited || is_late || failure.1 <= now;
            return match write_failure.take_if(is_over) {
                Some((error, _)) => Err(Disconnect::failed(CloseReason::WriteFailed, error)),
                None => Ok(()),
            };
        }
        let remote_end = remote_end.clone();
        if !is_done && !(is_late && (is_closing || !self.waits_for_reader(now))) {
            return Ok(());
        }
        Err(match remote_end.filter(|_| !is_closing) {
            Some(end) => end,
            None => Disconnect::new(CloseReason::Closed, None),
        })
    }

    /// Fails our calls whose remote has ended its output, if its exit report takes too long.
    fn fail_late_calls(&mut self, now: Instant) {
        if let Stage::Draining { calls_fail_at, remote_end: Some(end), .. } = &mut self.stage
            && calls_fail_at.take_if(|at| *at <= now).is_some()
        {
            let end = end.clone();
            self.abandon_calls(&end);
        }
    }

    /// Returns `true` if a connection that drains has nothing left to do.
    fn is_done(&self) -> bool {
        (self.is_closing() || (self.receive.has_ended && self.receive.is_drained))
            && self.session.is_idle()
            && self.outbox.is_empty()
            && self.is_flushed
            && !self.outgoing.has_events
            && !self.shared.mailbox.has_commands()
            && !self.shared.mailbox.has_queued()
    }

    /// Returns `true` if waiting messages will never begin.
    pub(super) fn is_closing(&self) -> bool {
        let phase = self.session.phase();
        matches!(phase, Phase::Draining(draining) if draining.ending == Ending::Closing)
    }

    /// Returns `true` if a remote that has closed its end gets more time, because it still reads. A process
    /// with a single client cannot wait so long, because it has to exit.
    fn waits_for_reader(&mut self, now: Instant) -> bool {
        let Stage::Draining { silence, .. } = &mut self.stage else { return false };
        if !self.shares_thread || self.is_flushed {
            return false;
        }
        let silent = Silence::measure(silence, self.outbox.signs(), now);
        let waits = silent < SLOW_READER;
        if waits {
            self.session.handle_progress(now);
        }
        waits
    }

    /// Ends everything: pending calls fail, and every handler is stopped. The transport is closed next,
    /// which may take a while.
    pub(super) fn abandon(&mut self, disconnect: Disconnect) {
        self.drain();
        let calls_fail_at = match &self.stage {
            Stage::Draining { calls_fail_at: Some(at), .. } => *at,
            _ => super::now() + EXIT_REPORT,
        };
        if let Some(notice) = self.session.handle_gone() {
            log::notice(notice, &LogFields::default());
        }
        let mut callers: Vec<_> = std::iter::from_fn(|| self.abandon_call()).collect();
        // The reason is already set if the driver is dropped while it closes its transport.
        let _ = self.shared.gone.set(());
        self.stop_tasks();
        self.shared.streams.close();
        for command in self.shared.mailbox.close() {
            match command {
                Command::Call { caller, .. } => callers.push(caller.unsent()),
                // The application made the cause of the failure, and its drop may panic.
                Command::Ended(_, Some(Err(failure))) => drop_quietly(failure),
                _ => {}
            }
        }
        self.shared.extensions.close();
        self.publish();
        // Stopped handlers no longer report their end, so the count is reset here.
        self.shared.counts.running.store(0, Ordering::Relaxed);
        if !self.transport.reports_exit() || disconnect.reason() == CloseReason::Closed {
            fail_calls(&mut callers, &disconnect);
        }
        self.stage = Stage::Closing { disconnect, callers, calls_fail_at };
    }

    /// Closes the transport of a connection that was abandoned.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Disconnect> {
        if let Stage::Closing { disconnect, callers, calls_fail_at } = &mut self.stage {
            let Poll::Ready(report) = self.transport.poll_close(cx) else {
                if !callers.is_empty() {
                    let alarm = tokio::time::Instant::from_std(*calls_fail_at);
                    let sleep = self.sleep.insert(Box::pin(tokio::time::sleep_until(alarm)));
                    if sleep.as_mut().poll(cx).is_ready() {
                        fail_calls(callers, disconnect);
                    }
                }
                return Poll::Pending;
            };
            let disconnect = disconnect.with_exit_report(report);
            self.set_closed(disconnect);
        }
        match &self.stage {
            Stage::Closed(disconnect) => Poll::Ready(disconnect.clone()),
            _ => Poll::Pending,
        }
    }

    /// Ends a connection whose driver is dropped.
    pub(super) fn drop_stage(&mut self) {
        if matches!(self.stage, Stage::Closed(_)) || self.end_alone() {
            return;
        }
        let is_answered = self.is_answered();
        let reason = if is_answered { CloseReason::RemoteClosed } else { CloseReason::Closed };
        let end = Disconnect::new(reason, None);
        self.abandon(end.clone());
        self.set_closed(end);
    }

    fn set_closed(&mut self, disconnect: Disconnect) {
        self.shared.state.set(ConnectionState::Disconnected(disconnect.clone()));
        let closed = Stage::Closed(disconnect.clone());
        if let Stage::Closing { mut callers, .. } = std::mem::replace(&mut self.stage, closed) {
            fail_calls(&mut callers, &disconnect);
        }
    }
}
