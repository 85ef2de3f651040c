//! The life of a session: open, draining, closed; every change is made here (P5, L3, L4, L5).

use std::time::{Duration, Instant};

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
