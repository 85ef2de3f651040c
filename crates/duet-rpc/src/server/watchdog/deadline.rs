//! Deadline of the forced exit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The start of a deadline's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountsFrom {
    /// From the moment of arming: a client that sends a signal waits no longer than the patience.
    Trigger,
    /// From the last byte that left, if that is later: a slow reader loses nothing.
    LastByte,
}

/// The earliest deadline of each kind. Progress decides which of the two is earlier.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    from_trigger: Option<Deadline>,
    from_last_byte: Option<Deadline>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    armed: Instant,
    patience: Duration,
    counts_from: CountsFrom,
    code: i32,
}

impl Deadlines {
    pub(super) fn add(
        &mut self,
        now: Instant,
        patience: Duration,
        counts_from: CountsFrom,
        code: i32,
        progress: &WriteProgress,
    ) {
        let new = Deadline { armed: now, patience, counts_from, code };
        let kept = match counts_from {
            CountsFrom::Trigger => &mut self.from_trigger,
            CountsFrom::LastByte => &mut self.from_last_byte,
        };
        match kept {
            Some(kept) if kept.at(progress) <= new.at(progress) => {}
            _ => *kept = Some(new),
        }
    }

    /// The earliest deadline, with its exit code.
    pub(super) fn next(&self, progress: &WriteProgress) -> Option<(Instant, i32)> {
        let both = [self.from_trigger, self.from_last_byte];
        let known = both.iter().flatten().map(|deadline| (deadline.at(progress), deadline.code));
        known.min_by_key(|&(at, _)| at)
    }
}

impl Deadline {
    fn at(&self, progress: &WriteProgress) -> Instant {
        let from = match self.counts_from {
            CountsFrom::Trigger => self.armed,
            CountsFrom::LastByte => self.armed.max(progress.last()),
        };
        // A patience beyond the range of the clock counts as the longest possible one.
        from.checked_add(self.patience)
            .unwrap_or_else(|| from + Duration::from_secs(u32::MAX.into()))
    }
}

/// The time of the last write, in one number that a thread can write while another reads.
#[derive(Debug)]
pub(super) struct WriteProgress {
    origin: Instant,
    milliseconds: AtomicU64,
}

impl WriteProgress {
    pub(super) fn new() -> Self {
        WriteProgress { origin: Instant::now(), milliseconds: AtomicU64::new(0) }
    }

    pub(super) fn now(&self) {
        // Rounded up, so that a deadline is never too early.
        let elapsed = self.origin.elapsed().as_millis().saturating_add(1);
        self.milliseconds.store(u64::try_from(elapsed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        let elapsed = Duration::from_millis(self.milliseconds.load(Ordering::Relaxed));
        self.origin.checked_add(elapsed).unwrap_or(self.origin)
    }
}
