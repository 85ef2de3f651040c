//! Log limit: rate limit for log lines that a remote can trigger (F7).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Counts the records of one kind, second by second. Any web page can cause refusals, and must not be
/// able to fill a disk with them (F7).
pub(crate) struct LogLimiter {
    most: u64,
    /// The current second, and its count.
    state: Mutex<Option<(Instant, u64)>>,
}

impl LogLimiter {
    /// Allows `most` records per second.
    pub(crate) const fn new(most: u64) -> Self {
        LogLimiter { most, state: Mutex::new(None) }
    }

    /// Logs a record, unless there were too many in this second. Before it, logs the number of records
    /// that were left out.
    pub(crate) fn log(&self, what: &str, one: impl FnOnce()) {
        let (may_log, left_out) = self.count(Instant::now());
        if left_out > 0 {
            tracing::warn!(count = left_out, "{what}, not logged one by one");
        }
        if may_log {
            one();
        }
    }

    /// Counts one record. Returns whether it may be logged, and the number of records that were left out in
    /// the previous second.
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
    fn f7_log_of_refusals_is_rate_limited() {
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
