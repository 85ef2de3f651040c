//! How late this machine is by itself. A process that has to wait for a processor is not late by its own fault, so
//! what a thread of ours had to wait for meanwhile is added to the time that an end may take. Where there is
//! nothing else to do, that is nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(5);
/// Later than this is late.
const PRECISE: Duration = Duration::from_millis(1);

/// Beats that came too late.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    late: Mutex<Vec<(Instant, Duration)>>,
    is_over: AtomicBool,
}

impl Pulse {
    /// Beats until it is told to end.
    pub(super) fn beat(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            thread::sleep(BEAT);
            let late = begun.elapsed().saturating_sub(BEAT);
            if late > PRECISE {
                let mut all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
                all.push((Instant::now(), late));
            }
        }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// How late the beats were since then, in all.
    pub(super) fn late_since(&self, then: Instant) -> Duration {
        let all = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().take_while(|(at, _)| *at >= then).map(|(_, late)| *late).sum()
    }
}
