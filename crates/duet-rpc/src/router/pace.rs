//! Pace of a method: decides if its handler may run inline, on the thread that reads and writes.
//!
//! ```text
//!            poll under 250 µs                poll under 250 µs, 64 times in a row
//!   New ─────────────────────▶ Quick ◀─────────────────────────────────┐
//!    │                           │                                     │
//!    │ poll over 250 µs          │ poll over 250 µs                    │
//!    └───────────────────────────┴──────────────────────────────────▶ Slow
//! ```
//!
//! `Quick` runs inline. `New` and `Slow` run on the worker pool, if there is one. Returning from `Slow` takes many
//! quick polls, because a handler may block for some params only, and a handler that blocks inline stops the whole
//! connection.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// A poll that takes longer than this is slow.
pub(crate) const QUICK_POLL: Duration = Duration::from_micros(250);

/// The pace of one method. All connections of a router share it, so it is one atomic number: the number of quick
/// polls that the method needs before it may run inline, or a constant above that.
pub(crate) struct Pace(AtomicU8);

const QUICK: u8 = 0;
const SLOW: u8 = 64;
const NEW: u8 = SLOW + 1;
const ALWAYS_QUICK: u8 = SLOW + 2;
const ALWAYS_SLOW: u8 = SLOW + 3;

impl Pace {
    pub(crate) const fn new() -> Self {
        Pace(AtomicU8::new(NEW))
    }

    /// A pace that the application fixed with [`quick`](crate::quick).
    pub(crate) const fn always_quick() -> Self {
        Pace(AtomicU8::new(ALWAYS_QUICK))
    }

    /// A pace that the application fixed with [`blocking`](crate::blocking).
    pub(crate) const fn always_slow() -> Self {
        Pace(AtomicU8::new(ALWAYS_SLOW))
    }

    #[inline]
    fn get(&self) -> u8 {
        // Relaxed is enough: no other data depends on the pace, and a lost update costs one more quick poll.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns `true` if the handler may run inline.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        matches!(self.get(), QUICK | ALWAYS_QUICK)
    }

    /// Returns `true` if the handler is known to block its thread.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.get(), 1..=SLOW | ALWAYS_SLOW)
    }

    /// Returns `true` if polls are measured, because the application did not fix the pace.
    #[inline]
    pub(crate) fn is_measured(&self) -> bool {
        !matches!(self.get(), ALWAYS_QUICK | ALWAYS_SLOW)
    }

    /// Claims the first run of the method; returns `true` for one caller only. After that run, one quick poll makes
    /// the method quick.
    pub(crate) fn claim_trial(&self) -> bool {
        self.0.compare_exchange(NEW, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Records the duration of a poll.
    pub(crate) fn record(&self, took: Duration) {
        let before = self.get();
        let after = match (before, took < QUICK_POLL) {
            (ALWAYS_QUICK | ALWAYS_SLOW, _) | (QUICK, true) => return,
            (_, false) => SLOW,
            (NEW, true) => QUICK,
            (left, true) => left - 1,
        };
        self.0.store(after, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pace, QUICK_POLL, SLOW};

    const FAST: Duration = Duration::ZERO;

    #[test]
    fn l5_new_method_is_quick_after_one_quick_poll_and_slow_after_one_slow_poll() {
        let pace = Pace::new();
        assert!(!pace.is_quick() && !pace.is_slow() && pace.is_measured());
        assert!(pace.claim_trial());
        assert!(!pace.claim_trial(), "the trial is claimed once");
        pace.record(FAST);
        assert!(pace.is_quick());
        pace.record(QUICK_POLL);
        assert!(pace.is_slow());
        for left in (0..SLOW).rev() {
            pace.record(FAST);
            assert_eq!(pace.is_quick(), left == 0, "{left} quick polls are missing");
        }
        pace.record(QUICK_POLL);
        pace.record(FAST);
        pace.record(QUICK_POLL);
        assert_eq!(pace.get(), SLOW, "a slow poll starts the count again");
    }

    #[test]
    fn l5_pace_that_the_application_fixed_never_changes() {
        for (pace, is_quick) in [(Pace::always_quick(), true), (Pace::always_slow(), false)] {
            for took in [FAST, QUICK_POLL, FAST] {
                pace.record(took);
                assert!(pace.is_quick() == is_quick && pace.is_slow() != is_quick);
            }
            assert!(!pace.is_measured() && !pace.claim_trial());
        }
    }
}
