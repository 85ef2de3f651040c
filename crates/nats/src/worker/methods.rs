//! Methods of a worker: their figures, and whether their requests begin in the loop of the worker.
//!
//! ```text
//!            MISTAKES beginnings in a row over HEAVY
//!   light ─────────────────────────────────────────▶ heavy
//!     ▲                                                │
//!     └───────────── TASKS requests as tasks ──────────┘
//! ```
//!
//! The loop answers a light request itself, because a task costs more than the request. A heavy request is a task from
//! the beginning: other processors may run it, and the loop reads on. `duet-rpc` decides the same for handlers within a
//! connection, and there a handler is quick if it does not hold up one client. Here it would hold up all callers, and
//! all processors but one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::stats::Counters;

/// A request whose beginning takes longer is heavy.
const HEAVY: Duration = Duration::from_micros(50);

/// A machine that does other work may hold up any request.
const MISTAKES: u32 = 4;

/// Requests of a heavy method that are tasks, before one is tried in the loop again.
const TASKS: u32 = 256;

/// One method of the service.
#[derive(Debug)]
pub(super) struct Method {
    /// The name of its endpoint.
    pub(super) name: String,
    pub(super) counters: Counters,
    /// The requests that are still to be tasks.
    tasks: AtomicU32,
    /// The number of beginnings in a row that took long.
    mistakes: AtomicU32,
}

impl Method {
    pub(super) fn new(name: String) -> Self {
        let (tasks, mistakes) = (AtomicU32::new(0), AtomicU32::new(0));
        Method { name, counters: Counters::default(), tasks, mistakes }
    }

    /// Returns `true` if the next request begins in the loop.
    pub(super) fn is_light(&self) -> bool {
        // Only the loop writes it, here and below.
        let tasks = self.tasks.load(Ordering::Relaxed);
        self.tasks.store(tasks.saturating_sub(1), Ordering::Relaxed);
        tasks == 0
    }

    /// Notes how long the loop was held up by a request.
    pub(super) fn note_beginning(&self, took: Duration) {
        if took <= HEAVY {
            return self.mistakes.store(0, Ordering::Relaxed);
        }
        let mistakes = self.mistakes.load(Ordering::Relaxed) + 1;
        match mistakes {
            MISTAKES.. => self.tasks.store(TASKS, Ordering::Relaxed),
            _ => self.mistakes.store(mistakes, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n3_requests_of_a_heavy_method_are_tasks_and_one_in_256_is_tried_again() {
        let method = Method::new("add".to_owned());
        let play = |times: &[u32]| {
            times.iter().for_each(|times| method.note_beginning(HEAVY * *times));
            (0..).take_while(|_| !method.is_light()).count()
        };
        let all = TASKS as usize;
        for (times, tasks) in [
            (&[][..], 0),
            (&[1, 1, 1, 1, 1], 0),
            // Single ones do not count.
            (&[2, 2, 2, 0, 2, 2, 2, 0], 0),
            (&[2, 2, 2, 2], all),
            // One in the loop is enough to go on.
            (&[2], all),
            (&[0], 0),
            (&[2, 2, 2], 0),
        ] {
            assert_eq!(play(times), tasks, "{times:?}");
        }
    }
}
