//! Phase of a session: open, draining, closed. Every change is made here (P5, L3, L4, L5).
//!
//! ```text
//!          the input ends                      a close is asked for
//!   Open ─────────────────▶ Draining(Input) ───────────────────────▶ Draining(Closing) ──▶ Closed
//!     └───────────────────── a close is asked for ──────────────────▶        │
//! ```
//!
//! | phase | new work | answers to our calls | time counts from |
//! |---|---|---|---|
//! | `Draining(Input)` | taken | cannot come | the last byte that the remote took |
//! | `Draining(Closing)` | refused | can come, unless the input has ended | the close, or earlier |

use std::time::{Duration, Instant};

use super::batch::Batches;
use super::waiting::Waiting;
use super::{Key, Session, Sink, earliest};
use crate::message::{ErrorObject, Reason};
use crate::notice::Notice;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Messages come and go.
    Open,
    /// What is under way is finished, and nothing new is begun but what had come before.
    Draining(Draining),
    /// Nothing comes and nothing goes.
    Closed,
}

/// Why a session drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The input ended: everything that had come is worked on and answered, and the time counts
    /// from the last byte that the remote took.
    Input,
    /// We close: what runs or waits is finished, and the time counts from the closing.
    Closing,
}

/// The time that a draining session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// Why.
    pub ending: Ending,
    /// Whether answers to our calls can still come. The input may end after we began to close, so
    /// this does not follow from why.
    hears: bool,
    until: Option<Instant>,
    patience: Duration,
}

impl Phase {
    /// Begins to drain. A closing tightens what the end of the input has begun; else the first
    /// reason stays. An input that has ended stays so.
    pub(super) fn drain(&mut self, ending: Ending, patience: Duration, now: Instant) {
        let until = now.checked_add(patience);
        let hears = ending != Ending::Input;
        match self {
            Phase::Draining(draining) if draining.ending < ending => {
                // Both count: the closing is never a reason to wait longer.
                let until = match (draining.until, until) {
                    (Some(one), Some(two)) => Some(one.min(two)),
                    (one, two) => one.or(two),
                };
                let hears = hears && draining.hears;
                *self = Phase::Draining(Draining { ending, hears, until, patience });
            }
            Phase::Open => *self = Phase::Draining(Draining { ending, hears, until, patience }),
            Phase::Draining(draining) => draining.hears &= hears,
            Phase::Closed => {}
        }
    }

    /// The connection is gone.
    pub(super) fn close(&mut self) {
        *self = Phase::Closed;
    }

    /// The remote took some bytes.
    pub(super) fn handle_progress(&mut self, now: Instant) {
        if let Phase::Draining(draining) = self
            && draining.ending == Ending::Input
        {
            draining.until = now.checked_add(draining.patience);
        }
    }

    /// Whether new requests and notifications are taken.
    pub(super) fn takes_work(&self) -> bool {
        match self {
            Phase::Open => true,
            Phase::Draining(draining) => draining.ending == Ending::Input,
            Phase::Closed => false,
        }
    }

    /// Whether answers to our calls can still come.
    pub(super) fn hears(&self) -> bool {
        match self {
            Phase::Open => true,
            Phase::Draining(draining) => draining.hears,
            Phase::Closed => false,
        }
    }

    /// When to wait no longer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Phase::Draining(draining) => draining.until,
            Phase::Open | Phase::Closed => None,
        }
    }
}

impl<C> Session<C> {
    /// When [`handle_timeout`](Session::handle_timeout) has something to do, the next call
    /// [expires](Session::next_expired), or the time for draining is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let fault_or_phase = earliest(self.fault_limit.poll_timeout(), self.phase.deadline());
        earliest(self.calls.next_deadline(), fault_or_phase)
    }

    /// Time has passed: there may be something to log.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Notice> {
        self.fault_limit.handle_timeout(now)
    }

    /// The time for draining is over: batches that are not done leave with the answers that they have.
    pub fn give_up_batches(&mut self, out: &mut impl Sink) {
        self.batches.give_up(out);
    }

    /// The input has ended. No answer can come any more: [`abandon`](Session::abandon) the calls.
    pub fn handle_end(&mut self, now: Instant) {
        self.phase.drain(Ending::Input, self.profile.drain_timeout, now);
    }

    /// Closes: what is under way is finished, but nothing new is begun. If a message asked for
    /// it, what came after that one is not begun either; in a batch it is answered with an error.
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

    /// The remote took some bytes: it is still there.
    pub fn handle_progress(&mut self, now: Instant) {
        self.phase.handle_progress(now);
    }

    /// The connection is gone: what waits is dropped, and what runs has nobody to answer.
    /// [`abandon`](Session::abandon) the calls.
    pub fn handle_gone(&mut self) -> Option<Notice> {
        self.phase.close();
        self.admission.drop_all();
        self.batches = Batches::default();
        self.fault_limit.take_muted()
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// When a session that drains has no time left.
    pub fn drain_deadline(&self) -> Option<Instant> {
        self.phase.deadline()
    }
}
