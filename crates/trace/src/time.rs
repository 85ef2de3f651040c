//! RFC 3339 timestamps.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time, shown in UTC to the microsecond, or with fewer digits: `{:.3}` shows milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp(SystemTime);

impl Timestamp {
    /// The current time.
    pub fn now() -> Self {
        Timestamp(SystemTime::now())
    }

    /// The time after a number of microseconds since 1970.
    pub fn from_unix_micros(micros: u64) -> Self {
        Timestamp(UNIX_EPOCH + Duration::from_micros(micros))
    }

    /// The microseconds since 1970. A time before that is 0.
    pub fn unix_micros(self) -> u64 {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// Parses a time in RFC 3339, with any offset from UTC. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (day, rest) = text.split_once(['T', 't', ' '])?;
        let numbers = |text: &str, mark: char| -> Option<[u64; 3]> {
            let parts: Vec<_> = text.split(mark).map(str::parse).collect::<Result<_, _>>().ok()?;
            parts.try_into().ok()
        };
        let [year, month, day] = numbers(day, '-')?;
        let zone = rest.find(['Z', 'z', '+', '-'])?;
        let (clock, zone) = rest.split_at(zone);
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let [hour, minute, second] = numbers(clock, ':')?;
        let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month);
        if !is_date || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let micros: u64 = digits.parse().ok()?;
        let local = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        let seconds = match zone.split_at(1) {
            ("Z" | "z", "") => local,
            (sign, offset) => {
                let (hours, minutes) = offset.split_once(':')?;
                let offset = hours.parse::<u64>().ok()? * 3600 + minutes.parse::<u64>().ok()? * 60;
                match sign {
                    "+" => local.checked_sub(offset)?,
                    _ => local.checked_add(offset)?,
                }
            }
        };
        Some(Timestamp::from_unix_micros(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
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
        let digits = f.precision().unwrap_or(6).clamp(1, 6);
        let fraction = since.subsec_micros() / 10_u32.pow(6 - digits as u32);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:0digits$}Z"
        )
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

/// The number of days from 1970-01-01 to a date: the reverse of `date`.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year) = (year / 400, year % 400);
    let day = (153 * month + 2) / 5 + day - 1 + 365 * year + year / 4 - year / 100;
    // The first days of 1970 are before the March in which a year begins.
    (era * 146_097 + day).saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::Timestamp;

    #[test]
    fn g3_timestamps_are_rfc_3339_in_utc() {
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
            assert_eq!(format!("{time:.3}"), shown.replace("000Z", "Z"));
            assert_eq!(Timestamp::parse(shown).map(|it| it.unix_micros()), Some(millis * 1_000));
        }
        assert_eq!(Timestamp(UNIX_EPOCH - Duration::from_secs(1)).to_string(), rows[0].1);
    }

    #[test]
    fn timestamps_with_an_offset_are_parsed_and_others_refused() {
        for (text, shown) in [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
            ("2026-01-02T03:04:05.1234567+02:00", "2026-01-02T01:04:05.123456Z"),
            ("2026-01-01 23:00:00-01:30", "2026-01-02T00:30:00.000000Z"),
        ] {
            let time = Timestamp::parse(text).expect("it is a time");
            assert_eq!(time.to_string(), shown, "{text}");
        }
        for text in [
            "",
            "2026-01-02",
            "2026-13-02T03:04:05Z",
            "2026-01-02T25:04:05Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05+2",
            "1969-01-02T03:04:05Z",
            "1970-01-01T00:00:00+01:00",
            "-1-01-01T00:00:00Z",
            "99999999999999999999-01-01T00:00:00Z",
            "2026-01-02T03:04:05.xZ",
        ] {
            assert!(Timestamp::parse(text).is_none(), "{text}");
        }
    }
}
