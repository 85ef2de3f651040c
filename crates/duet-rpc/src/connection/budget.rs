//! Budget: the limits on messages and handlers that wait on a connection, so that a remote that reads nothing costs
//! bounded memory (L8, P9).
//!
//! | waits | bounded by | beyond the bound |
//! |---|---|---|
//! | a message of ours, in the outbox or the mailbox | `outgoing_bytes` | further calls and notifications wait in the send queue; requests are held |
//! | an incoming request | its order, `waiting`, `waiting_bytes`, `in_flight` | nothing is read; while a call of ours is pending, requests are refused instead |
//! | an incoming notification | the same | nothing is read; while a call of ours is pending, it is dropped past four times `waiting_bytes` |
//! | a refusal | one for each call that the remote may have pending | nothing is read |
//! | a handler on the pool | `outgoing_bytes` of its connection, and a shared budget | it does not begin |
//! | a handler on the pool, of a method with large answers | also its part of the budget | it begins when fewer large answers are being made, or when the last such handler blocks its thread |
//! | a handler on the pool, of a method that never answered before | one handler of the method at a time | it begins when the last one has ended, awaits or blocks |
//! | answers of batches | `batch_bytes`, and the shared budget | further requests of batches are answered busy |
//! | a remote that reads nothing, while the shared budget is spent | [`STALLED`] | it is disconnected |
//!
//! Back-pressure means that we stop reading. Only [`Connection::may_read`] decides that. We continue to read while
//! a call of ours is pending, because its response could be among the unread bytes.
//!
//! A handler that awaits or blocks does not delay the start of others, because it may be waiting for later
//! handlers. So handlers that do not await usually make one large answer at a time, and never more than there
//! are threads. `in_flight` bounds the handlers that await.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use duet_rpc_proto::Limits;
use duet_rpc_proto::session::Asks;

use super::closing::STALLED;
use super::memory::Reservation;
use super::{Connection, Shared, log};
use crate::router::AnswerSize;

/// The most bytes that one refusal takes.
const REFUSAL: usize = 128;

// ---- decisions of the connection's task

/// Back-pressure of one connection, known only to its task.
pub(super) struct Window {
    /// Bytes of refusals since the outbox last had room. Only refusals count, because reading alone causes
    /// them. If results counted too, two peers that send each other many results would both stop reading for
    /// ever.
    refusals: usize,
    most_refusals: usize,
    /// Set while messages wait in the outbox, if connections share the budget.
    stall: Option<Silence>,
    /// The figures that were last published to the handles.
    published: Option<(usize, usize)>,
    pub(super) batch_bytes: usize,
}

/// Time without a sign that the remote reads.
pub(super) struct Silence {
    /// The count of signs at the start of this time.
    signs: u64,
    since: Instant,
}

impl Silence {
    /// Measures how long the count of signs has not changed.
    pub(super) fn measure(silence: &mut Option<Silence>, signs: u64, now: Instant) -> Duration {
        let silence = match silence {
            Some(silence) if silence.signs == signs => silence,
            silence => silence.insert(Silence { signs, since: now }),
        };
        now.saturating_duration_since(silence.since)
    }
}

impl Window {
    pub(super) fn new(limits: &Limits) -> Self {
        // A connection that makes no calls must still read.
        let most_refusals = limits.pending_calls.max(1).saturating_mul(REFUSAL);
        Window { refusals: 0, most_refusals, stall: None, published: None, batch_bytes: 0 }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stall.as_ref().map(|stall| stall.since + STALLED)
    }

    #[inline]
    pub(super) fn note_flush(&mut self, is_full: bool) {
        if !is_full {
            self.refusals = 0;
        }
    }

    /// Forces the next publication. The mailbox counted the bytes of the commands that were taken from it, so
    /// its figures are outdated.
    pub(super) fn note_commands(&mut self) {
        self.published = None;
    }
}

impl Connection {
    /// Returns `true` if another message can be read and handled now. Only this function decides to stop
    /// reading.
    #[inline(always)]
    pub(super) fn may_read(&self) -> bool {
        self.session.wants_input()
            && self.window.refusals < self.window.most_refusals
            && self.dispatch.trial_ends.is_none()
    }

    /// Returns `true` if no further request may begin for now.
    #[inline]
    pub(super) fn must_hold(&self) -> bool {
        self.is_full() || self.dispatch.trial_ends.is_some() || !self.stage.can_write()
    }

    /// Returns `true` if the outbox is full, so that only messages that must be sent are added.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        let outgoing = self.outbox.len();
        outgoing >= self.shared.profile.limits.outgoing_bytes
            || (outgoing > 0 && self.shared.budget.is_spent_by_many())
    }

    /// Counts a refusal, if one was added to a full outbox. `before` is the earlier length of the outbox.
    #[inline]
    pub(super) fn note_refusal(&mut self, before: usize) {
        if before >= self.shared.profile.limits.outgoing_bytes {
            self.window.refusals += self.outbox.len().saturating_sub(before);
        }
    }

    /// Fails if the remote has read nothing for [`STALLED`] while other connections wait for the memory of
    /// its unread messages.
    pub(super) fn check_stall(&mut self, now: Instant) -> io::Result<()> {
        let budget = &self.shared.budget;
        if self.outbox.is_empty() || !budget.is_shared() {
            self.window.stall = None;
            return Ok(());
        }
        let silent = Silence::measure(&mut self.window.stall, self.outbox.signs(), now);
        if silent < STALLED {
            return Ok(());
        }
        if budget.is_spent_by_many() {
            log::stalled(self.outbox.len(), STALLED);
            let error = "the remote reads nothing, and the memory for answers is used up";
            return Err(io::Error::new(io::ErrorKind::TimedOut, error));
        }
        // Memory is not short, so the time begins again.
        self.window.stall = Some(Silence { signs: self.outbox.signs(), since: now });
        Ok(())
    }

    /// Publishes the number of running and waiting messages to the handles.
    pub(super) fn publish(&mut self) {
        let shared = &self.shared;
        let bytes = self.session.batch_bytes();
        if bytes != self.window.batch_bytes {
            shared.budget.count_batches(self.window.batch_bytes, bytes);
            self.window.batch_bytes = bytes;
        }
        shared.is_full_of_batches.store(self.session.is_full_of_batches(), Ordering::Relaxed);
        // Without a change there is no need to take the locks.
        let outbox = (self.outbox.len(), self.outbox.held());
        if self.window.published != Some(outbox) {
            self.window.published = Some(outbox);
            shared.mailbox.count_outbox(outbox.0, outbox.1);
        }
        let counts = &shared.counts;
        counts.pending_calls.store(self.session.pending_calls(), Ordering::Relaxed);
        counts.running.store(self.session.running(), Ordering::Relaxed);
        counts.waiting.store(self.session.waiting(), Ordering::Relaxed);
        counts.unmatched.store(self.session.unmatched_responses() as usize, Ordering::Relaxed);
        counts.bytes_sent.store(self.outbox.sent(), Ordering::Relaxed);
    }
}

// ---- waiting handlers on the pool

impl Shared {
    /// Returns a function that tells if the batches of all connections hold too much memory. `None` if this
    /// connection has its own budget.
    pub(super) fn others_fill_batches(&self) -> Option<Asks> {
        let budget = Arc::clone(&self.budget);
        budget.is_shared().then(|| Arc::new(move || budget.is_full_of_batches()) as Asks)
    }

    /// Waits until a handler with answers of this size may begin: its connection has room for an answer or is
    /// closed, and the budget has memory for it.
    pub(super) async fn wait_to_begin(self: Arc<Self>, size: &Arc<AnswerSize>) -> Reservation {
        // The handler keeps its place in the queue until it begins or gives up.
        let mut first = None;
        loop {
            let has_waited = self.mailbox.wait_for_room(&mut first).await;
            if let Some(reservation) = self.budget.try_reserve(size) {
                // Other waiting messages may have filled the room again, but the handler that waited for the
                // room still begins.
                if has_waited || self.mailbox.has_room_to_begin() {
                    return reservation;
                }
            } else {
                let reservation = self.budget.reserve(size).await;
                // The answers of earlier handlers may have taken the room.
                if self.mailbox.has_room_to_begin() {
                    return reservation;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
