//! RFC 3339 timestamps.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time, shown in UTC to the microsecond.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp(SystemTime);

impl Timestamp {
    /// The current time.
    pub fn now() -> Self {
        Timestamp(SystemTime::now())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Timestamp(time)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A clock before 1970 is not set; the epoch is as good as any other time.
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let micros = since.subsec_micros();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Converts a number of days since 1970-01-01 to a date. Years begin in March, so that the leap day is the
/// last day of a year.
fn date(days: u64) -> (u64, u64, u64) {
    // A cycle of 400 years has 146,097 days and begins on a March 1.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, months have 31, 30, 31, 30, 31 days, repeatedly.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::Timestamp;

    #[test]
    fn timestamps_are_rfc_3339_in_utc() {
        let rows = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000000Z"),
            (1_767_323_045_678, "2026-01-02T03:04:05.678000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000000Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001000Z"),
        ];
        for (millis, shown) in rows {
            let time = Timestamp(UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(time.to_string(), shown);
        }
        assert_eq!(Timestamp(UNIX_EPOCH - Duration::from_secs(1)).to_string(), rows[0].1);
    }
}
