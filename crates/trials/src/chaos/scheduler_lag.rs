//! Scheduler lag of this machine. A process that waits for a processor is late through no fault of its own,
//! so the lag of our own thread extends the time limit of an end. On an idle machine it is 0.

use std::sync::atomic::AtomicBool;

use super::prelude::*;

const BEAT: Duration = Duration::from_millis(5);
/// A beat counts as late beyond this.
const PRECISE: Duration = Duration::from_millis(1);

/// A thread that wakes at regular intervals, and records late wake-ups.
#[derive(Debug, Default)]
pub(super) struct SchedulerLag {
    beats: Mutex<Beats>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Beats {
    /// Late beats: the time each was due, and the time it came.
    late: Vec<(Instant, Instant)>,
    /// Time of the next beat.
    next: Option<Instant>,
}

impl SchedulerLag {
    /// Measures until `end` is called.
    pub(super) fn measure(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let due = Instant::now() + BEAT;
            lock(&self.beats).next = Some(due);
            thread::sleep(BEAT);
            let now = Instant::now();
            let mut beats = lock(&self.beats);
            beats.next = None;
            if now > due + PRECISE {
                beats.late.push((due, now));
            }
        }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Part of this period during which a beat was overdue.
    pub(super) fn late_between(&self, from: Instant, to: Instant) -> Duration {
        lock(&self.beats).late_between(from, to)
    }
}

impl Beats {
    fn late_between(&self, from: Instant, to: Instant) -> Duration {
        let overlap =
            |(due, came): (Instant, Instant)| came.min(to).saturating_duration_since(due.max(from));
        let late = self.late.iter().rev().copied().take_while(|(_, came)| *came >= from);
        // A beat that has not come yet may be late too.
        let waited = self.next.map(|due| (due, to)).filter(|(due, to)| *to > *due + PRECISE);
        late.chain(waited).map(overlap).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lag_within_the_period_counts() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let beats = Beats { late: vec![(at(10), at(20)), (at(50), at(90))], next: Some(at(120)) };
        let late = |from, to| beats.late_between(at(from), at(to)).as_millis();
        assert_eq!(late(0, 100), 50);
        assert_eq!(late(15, 60), 15);
        assert_eq!(late(20, 50), 0);
        assert_eq!(late(60, 80), 20);
        assert_eq!(late(100, 150), 30);
        assert_eq!(late(100, 121), 0);
    }
}
