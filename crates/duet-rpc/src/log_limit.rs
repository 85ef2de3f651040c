//! Log limit: rate limit for log lines that a remote can trigger (F7).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Counts what is logged of a kind, second by second. Any web page can cause refusals, and nobody should
/// be able to fill a disk so (F7).
pub(crate) struct LogLimiter {
    most: u64,
    /// The second, and how many there were in it.
    state: Mutex<Option<(Instant, u64)>>,
}

impl LogLimiter {
    /// Has so many logged one by one in a second.
    pub(crate) const fn new(most: u64) -> Self {
        LogLimiter { most, state: Mutex::new(None) }
    }

    /// Logs one, if there were not too many in this second, and before it how many were left out in
    /// the last.
    pub(crate) fn log(&self, what: &str, one: impl FnOnce()) {
        let (may_log, left_out) = self.count(Instant::now());
        if left_out > 0 {
            tracing::warn!(count = left_out, "{what}, and not logged one by one");
        }
        if may_log {
            one();
        }
    }

    /// Whether one more may be logged, and how many were left out in the second that has passed.
    fn count(&self, now: Instant) -> (bool, u64) {
        let mut state = lock(&self.state);
        let (since, count) = state.get_or_insert((now, 0));
        let mut left_out = 0;
        if now.saturating_duration_since(*since) >= Duration::from_secs(1) {
            left_out = count.saturating_sub(self.most);
            (*since, *count) = (now, 0);
        }
        *count += 1;
        (*count <= self.most, left_out)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::LogLimiter;

    #[test]
    fn f7_refusals_are_logged_one_by_one_only_so_often() {
        let (log_limit, now) = (LogLimiter::new(20), Instant::now());
        for _ in 0..20 {
            assert_eq!(log_limit.count(now), (true, 0));
        }
        for _ in 0..5 {
            assert_eq!(log_limit.count(now + Duration::from_millis(999)), (false, 0));
        }
        assert_eq!(log_limit.count(now + Duration::from_secs(1)), (true, 5));
        assert_eq!(log_limit.count(now + Duration::from_secs(2)), (true, 0));
    }
}
