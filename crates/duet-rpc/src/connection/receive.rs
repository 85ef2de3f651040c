//! Receiving: reads bytes, enforces the read timeout, and hands each message to the session.
//!
//! ```text
//!              bytes            no whole message left
//!   drained ──────────▶ loaded ──────────────────────▶ drained
//!      │                   │
//!      │ a frame is late:  │ back-pressure: nothing is read, but
//!      │ dropped (F6)      │ the remote's end is still noticed
//!      ▼                   ▼
//! ```
//!
//! Reading never waits for a handler. Only `Connection::may_read` in `budget` stops it.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::fault::Fault;
use duet_rpc_proto::frame::{Event, ReadTimer};
use duet_rpc_proto::message::{Batch, Id, Incoming, LogFields, Settled};
use duet_rpc_proto::notice::Notice;
use duet_rpc_proto::session::{BatchKey, Handled, Key, Phase};
use duet_rpc_proto::text::Text;

use super::shared::add;
use super::tasks::Task;
use super::{Caller, Command, Connection, IDLE, log};
use crate::error::{CloseReason, Disconnect, Error, ErrorKind, RemoteError};
use crate::peer::Peers;
use crate::transport::{Inbox, Received, TransportKind};

/// Extra time to read the rest of a late frame. The process may have been stopped, or a handler may have
/// blocked the thread, while the bytes were already in the pipe.
const LAST_LOOK: Duration = Duration::from_millis(20);

/// The number of messages between two checks for the end of a slice.
const MESSAGES_PER_CHECK: usize = 16;

pub(super) struct Receive {
    /// `true` if everything that was received is handled.
    pub(super) is_drained: bool,
    /// `true` if the input has ended.
    pub(super) has_ended: bool,
    /// `true` if the framing is still to be detected.
    framing_is_open: bool,
    timer: ReadTimer,
    /// The time at which an overdue frame is dropped.
    last_look: Option<Instant>,
}

impl Receive {
    pub(super) fn new(read_timeout: Option<Duration>, framing_is_open: bool) -> Self {
        let timer = ReadTimer::new(read_timeout);
        Receive { is_drained: true, has_ended: false, framing_is_open, timer, last_look: None }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timer.deadline().map(|late| late.max(self.last_look.unwrap_or(late)))
    }

    /// Returns `true` if the frame that is being received is late.
    fn is_late(&mut self, now: Instant) -> bool {
        if self.timer.deadline().is_none_or(|deadline| deadline > now) {
            self.last_look = None;
            return false;
        }
        *self.last_look.get_or_insert(now + LAST_LOOK) <= now
    }
}

impl Connection {
    /// Reads, unless back-pressure forbids it. Returns `true` if something arrived. An error ends the
    /// connection.
    pub(super) fn receive(
        &mut self,
        inbox: &mut Inbox,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Result<bool, Disconnect> {
        if self.receive.has_ended {
            return Ok(false);
        }
        if !self.may_read() {
            self.receive.timer.observe(inbox.partial(), now);
            self.receive.timer.pause(now);
            let has_closed = self.session.phase() == Phase::Open
                && self.transport.poll_remote_closed(cx).is_ready();
            if has_closed {
                self.handle_input_end(None, now);
            }
            return Ok(has_closed);
        }
        self.receive.timer.resume(now);
        let before = inbox.size();
        let received = self.transport.poll_receive(cx, inbox);
        let received_bytes = inbox.size().saturating_sub(before) as u64;
        add(&self.shared.counts.bytes_received, received_bytes);
        while let Some((id, error)) = inbox.next_failed_call() {
            self.fail_call(&id, error);
        }
        match received {
            Poll::Pending => {
                self.receive.timer.observe(inbox.partial(), now);
                Ok(self.drop_late_frame(inbox, now))
            }
            Poll::Ready(Ok(Received::Data | Received::Drained)) => {
                self.detect_framing(inbox);
                self.receive.is_drained = false;
                // The transport itself may have to answer, for example a ping.
                self.is_flushed &= self.kind == TransportKind::Bytes;
                // An exchange is over before it could free memory, and a timer for it would cost a system call.
                self.idle_at = (!self.kind.is_exchange()).then(|| now + IDLE);
                Ok(true)
            }
            Poll::Ready(Ok(Received::Eof)) => {
                inbox.finish();
                // An unfinished frame has ended, and cannot be late.
                self.receive.timer.observe(None, now);
                self.receive.is_drained = false;
                self.receive.has_ended = true;
                // The end may have completed a last message, and with it an answer.
                self.handle_arrived(inbox, cx, now);
                self.handle_input_end(inbox.take_end(), now);
                Ok(true)
            }
            Poll::Ready(Err(error)) => Err(Disconnect::failed(CloseReason::ReadFailed, error)),
        }
    }

    /// Drops a frame that took too long. Returns `true` if there was one.
    fn drop_late_frame(&mut self, inbox: &mut Inbox, now: Instant) -> bool {
        // A task without cooperative budget gets `Pending` from the runtime even if there are bytes.
        if !self.receive.is_late(now) || !tokio::task::coop::has_budget_remaining() {
            return false;
        }
        let Some(dropped) = inbox.handle_timeout() else { return false };
        log::late_frame(&dropped, self.shared.profile.read_timeout);
        self.receive.timer.observe(inbox.partial(), now);
        self.receive.is_drained = false;
        true
    }

    /// Answers in the framing of the first bytes. This happens before any message is handled, because the
    /// first one may be answered immediately.
    fn detect_framing(&mut self, inbox: &Inbox) {
        if self.receive.framing_is_open
            && let Some(framing) = inbox.framing()
        {
            self.outbox.set_framing(framing);
            self.receive.framing_is_open = false;
        }
    }

    /// Handles the messages that have arrived, while back-pressure allows it. Returns `true` if there were
    /// any, or if this found that none are left, so that reading continues.
    pub(super) fn handle_arrived(
        &mut self,
        inbox: &mut Inbox,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> bool {
        let mut moved = false;
        let mut messages = 0_usize;
        while !self.receive.is_drained && self.may_read() {
            messages += 1;
            if self.slice_ends.is_some()
                && messages.is_multiple_of(MESSAGES_PER_CHECK)
                && self.slice_is_over(super::now())
            {
                break;
            }
            moved = true;
            let Some(event) = inbox.next_event() else {
                self.receive.is_drained = true;
                break;
            };
            match &event {
                Event::Fault(fault) => self.handle_fault(fault, now),
                Event::Frame(text) => self.handle_frame(text, cx, now),
            }
        }
        moved
    }

    fn handle_fault(&mut self, fault: &Fault<'_>, now: Instant) {
        add(&self.shared.counts.faults, 1);
        self.note_unusable_bytes(fault);
        let before = self.outbox.len();
        let handled = self.session.handle_fault(fault, now, &mut self.outbox);
        self.note_refusal(before);
        match handled {
            Handled::Refused(_) => log::fault(fault),
            Handled::Notice(notice) => log::notice(notice, &LogFields::default()),
            _ => {}
        }
    }

    #[inline(always)]
    fn handle_frame(&mut self, text: &Text<'_>, cx: &mut Context<'_>, now: Instant) {
        log::frame(text.as_str().len());
        let profile = &self.shared.profile;
        // Not moved, because the type is large: it can contain an error response.
        let message = Incoming::classify(text, profile.batch, &profile.limits);
        match &message {
            Incoming::Batch(entries) => self.handle_batch(entries.clone(), cx, now),
            _ => self.handle_message(&message, text, None, cx, now),
        }
    }

    fn handle_batch(&mut self, mut entries: Batch<'_>, cx: &mut Context<'_>, now: Instant) {
        // Not when the connection begins, because most connections have no batches.
        if let Some(is_full) = self.shared.others_fill_batches() {
            self.session.set_others_fill_batches(is_full);
        }
        let batch = self.session.begin_batch();
        while let Some((text, message)) = entries.next_entry() {
            self.handle_message(&message, &text, Some(batch), cx, now);
        }
        let before = self.outbox.len();
        self.session.end_batch(batch, &mut self.outbox);
        self.note_refusal(before);
    }

    // Inlined, because passing a message costs more than this function.
    #[inline(always)]
    fn handle_message(
        &mut self,
        message: &Incoming<'_>,
        text: &Text<'_>,
        batch: Option<BatchKey>,
        cx: &mut Context<'_>,
        now: Instant,
    ) {
        add(&self.shared.counts.messages, 1);
        self.session.hold(self.must_hold());
        let before = self.outbox.len();
        let handled = self.session.handle(message, batch, now, &mut self.outbox);
        if let Handled::Start(job) = handled {
            if let Some((method, params)) = message.call() {
                self.start(job, method, params, cx);
            }
        } else {
            self.handle_outcome(handled, message, text, before);
        }
        // A cancellation, or a message that a handler has sent, may allow waiting messages to begin.
        if self.session.has_ready() {
            self.begin_ready(cx);
        }
    }

    /// Carries out the decision of the session about a message that starts no handler.
    fn handle_outcome(
        &mut self,
        handled: Handled<'_, Caller>,
        message: &Incoming<'_>,
        text: &Text<'_>,
        before: usize,
    ) {
        self.note_uncorrelated(message, text);
        self.note_refusal(before);
        let dialect = self.shared.profile.dialect;
        match handled {
            Handled::Waits(key) => {
                if message.call().is_some_and(|(method, _)| self.dispatch.router.closes(method)) {
                    self.close_for(key);
                }
            }
            Handled::Refused(reply) => log::refused(&reply.error, &LogFields::from_text(text)),
            Handled::Settled(caller) => {
                if let Incoming::Response(response) = message {
                    settle(&response.id, caller, response.settled);
                }
            }
            Handled::Stop(key) => self.stop_cancelled(key),
            Handled::Cancelled(id) => log::cancelled(None, id.as_ref(), dialect),
            Handled::CancelledElsewhere(id) => self.cancel_elsewhere(&id),
            Handled::Notice(notice @ Notice::Muted(_)) => {
                log::notice(notice, &LogFields::default());
            }
            Handled::Notice(notice) => log::notice(notice, &LogFields::from_text(text)),
            Handled::Start(_) | Handled::Done => {}
        }
    }

    /// Stops the handler of a request that the remote has cancelled.
    fn stop_cancelled(&self, key: Key) {
        let (task, id) = (self.dispatch.tasks.get(&key), self.session.id_of(key));
        task.into_iter().for_each(Task::cancel);
        log::cancelled(task.map(|task| &*task.entry.name), id, self.shared.profile.dialect);
    }

    /// Cancels a request because the remote said so on another connection.
    #[cold]
    pub(super) fn cancel_request(&mut self, id: Id) {
        match self.session.handle_cancel(id, &mut self.outbox) {
            Handled::Stop(key) => self.stop_cancelled(key),
            Handled::Cancelled(id) => {
                log::cancelled(None, id.as_ref(), self.shared.profile.dialect);
            }
            _ => {}
        }
    }

    /// Passes a cancellation on. Over HTTP it comes in a request of its own, so the one that it cancels runs on another
    /// connection of the same client.
    #[cold]
    fn cancel_elsewhere(&self, id: &Id) {
        let Some(registry) = self.shared.registry.as_ref().filter(|_| self.kind.is_exchange())
        else {
            return;
        };
        for peer in &Peers::from_registry(registry) {
            let other = peer.shared();
            if other.kind.is_exchange() && other.remote.is_same_client(&self.shared.remote) {
                other.mailbox.post(Command::CancelRequest(id.clone()));
            }
        }
    }

    /// Starts all messages that are ready to run.
    #[inline]
    pub(super) fn begin_ready(&mut self, cx: &mut Context<'_>) {
        while let Some((job, message)) = self.session.next_ready(&mut self.outbox) {
            self.start(job.borrow(), message.method(), &message.params(), cx);
            self.session.hold(self.must_hold());
        }
    }
}

/// Passes an answer to the caller.
fn settle(id: &Id, caller: Caller, settled: Settled<'_>) {
    let answer = match settled {
        Settled::Result(result) => Ok(result.to_owned()),
        Settled::Error(_) => Err(match settled.error() {
            Some(error) => Error::new(ErrorKind::Remote).caused_by(RemoteError::new(error)),
            None => Error::new(ErrorKind::Protocol).caused_by("the error is not an object"),
        }),
    };
    log::settled(id, answer.is_ok());
    caller.settle(answer);
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
