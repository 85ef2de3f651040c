//! Phase of a session: open, draining, closed. All transitions are in this file (P5, L3, L4, L5).
//!
//! ```text
//!          the input ends                       close is called
//!   Open ─────────────────▶ Draining(Input) ───────────────────────▶ Draining(Closing) ──▶ Closed
//!     └──────────────────────── close is called ─────────────────────▶        │
//! ```
//!
//! | phase | new messages | responses to our calls | the drain timeout counts from |
//! |---|---|---|---|
//! | `Draining(Input)` | taken | cannot come | the last byte that the remote took |
//! | `Draining(Closing)` | refused | can come, unless the input has ended | the close, or earlier |

use std::time::{Duration, Instant};

use super::batch::Batches;
use super::waiting::Waiting;
use super::{Key, Session, Sink, earliest};
use crate::message::{ErrorObject, Reason};
use crate::notice::Notice;

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Messages are received and sent.
    Open,
    /// Messages that arrived are finished; nothing else starts.
    Draining(Draining),
    /// Nothing is received or sent.
    Closed,
}

/// Reason for draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The input ended. Everything that arrived is handled and answered. The timeout counts from
    /// the last byte that the remote took.
    Input,
    /// We close. Messages that run or wait are finished. The timeout counts from the close.
    Closing,
}

/// State of a draining session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// The reason.
    pub ending: Ending,
    /// True if responses to our calls can still come. The input may end after we began to close, so
    /// this does not follow from the reason.
    receives_responses: bool,
    until: Option<Instant>,
    timeout: Duration,
}

impl Phase {
    /// Begins to drain. A close tightens the draining that the end of the input began; otherwise
    /// the first reason stays. An ended input stays ended.
    pub(super) fn drain(&mut self, ending: Ending, timeout: Duration, now: Instant) {
        let until = now.checked_add(timeout);
        let receives_responses = ending != Ending::Input;
        match self {
            Phase::Draining(draining) if draining.ending < ending => {
                // The earlier deadline counts: a close never extends the wait.
                let until = match (draining.until, until) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
                let receives_responses = receives_responses && draining.receives_responses;
                *self = Phase::Draining(Draining { ending, receives_responses, until, timeout });
            }
            Phase::Open => {
                *self = Phase::Draining(Draining { ending, receives_responses, until, timeout });
            }
            Phase::Draining(draining) => draining.receives_responses &= receives_responses,
            Phase::Closed => {}
        }
    }

    /// Closes the session, because the connection is gone.
    pub(super) fn close(&mut self) {
        *self = Phase::Closed;
    }

    /// Notes that the remote took some bytes.
    pub(super) fn handle_progress(&mut self, now: Instant) {
        if let Phase::Draining(draining) = self
            && draining.ending == Ending::Input
        {
            draining.until = now.checked_add(draining.timeout);
        }
    }

    /// True if new requests and notifications are taken.
    pub(super) fn takes_work(&self) -> bool {
        match self {
            Phase::Open => true,
            Phase::Draining(draining) => draining.ending == Ending::Input,
            Phase::Closed => false,
        }
    }

    /// True if responses to our calls can still come.
    pub(super) fn receives_responses(&self) -> bool {
        match self {
            Phase::Open => true,
            Phase::Draining(draining) => draining.receives_responses,
            Phase::Closed => false,
        }
    }

    /// The end of the draining.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Phase::Draining(draining) => draining.until,
            Phase::Open | Phase::Closed => None,
        }
    }
}

impl<C> Session<C> {
    /// The next time at which [`handle_timeout`](Session::handle_timeout) has work, a call
    /// [expires](Session::next_expired), or the draining ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let fault_or_phase = earliest(self.fault_limit.poll_timeout(), self.phase.deadline());
        earliest(self.calls.next_deadline(), fault_or_phase)
    }

    /// Returns a notice for the log, if one is due.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.fault_limit.handle_timeout(now)
    }

    /// Sends the answers so far of unfinished batches, because the time for draining is over.
    pub fn give_up_batches(&mut self, out: &mut impl Sink) {
        self.batches.give_up(out);
    }

    /// Handles the end of the input. No response can come any more: [`abandon`](Session::abandon)
    /// the calls.
    pub fn handle_end(&mut self, now: Instant) {
        self.phase.drain(Ending::Input, self.profile.drain_timeout, now);
    }

    /// Closes: running work is finished, and nothing new starts. If a message asked for it, waiting
    /// messages after that one are dropped; in a batch they are answered with an error.
    pub fn close(&mut self, asked_by: Option<Key>, now: Instant, out: &mut impl Sink) {
        self.phase.drain(Ending::Closing, self.profile.drain_timeout, now);
        if let Some(key) = asked_by {
            let late = ErrorObject::invalid_request_because(Reason::ShuttingDown);
            for (job, waiting) in self.admission.drop_after(key) {
                match waiting {
                    _ if job.batch().is_none() => {}
                    Waiting::Message(_) => self.answer_error(job.borrow(), &late, out),
                    Waiting::Refusal(reply) => self.refuse_waiting(&job, reply, out),
                }
            }
        }
    }

    /// Handles progress of sending: the remote took some bytes.
    pub fn handle_progress(&mut self, now: Instant) {
        self.phase.handle_progress(now);
    }

    /// Handles the loss of the connection. Waiting messages are dropped, and running ones get no
    /// answer. [`abandon`](Session::abandon) the calls.
    pub fn handle_gone(&mut self) -> Option<Notice> {
        self.phase.close();
        self.admission.drop_all();
        self.batches = Batches::default();
        self.fault_limit.take_muted()
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The end of the draining, if the session drains.
    pub fn drain_deadline(&self) -> Option<Instant> {
        self.phase.deadline()
    }
}
