//! Backoff: the delay before the next attempt to connect (P6).

use std::time::Duration;

/// The delay of a [`Client`](crate::Client) between two attempts to connect.
///
/// The delay grows with each failed attempt, up to a maximum. A part of it is random, so that the clients of a
/// restarted server do not all connect at the same time.
///
/// ```
/// use std::time::Duration;
/// use duet_rpc::Backoff;
///
/// let backoff = Backoff { most: Duration::from_secs(5), ..Backoff::default() };
/// assert_eq!(backoff.delay(1, 0), Duration::from_millis(100));
/// assert_eq!(backoff.delay(2, 0), Duration::from_millis(200));
/// assert_eq!(backoff.delay(99, 0), Duration::from_secs(5));
/// // The largest random number takes off half of it, because `jitter` is 0.5.
/// assert_eq!(backoff.delay(1, u64::MAX), Duration::from_millis(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The delay after the first failed attempt. Default: 100 ms.
    pub first: Duration,
    /// The factor by which each further failed attempt multiplies the delay, at least 1. Default: 2.
    pub factor: f64,
    /// The maximum delay. Default: 30 s.
    pub most: Duration,
    /// The time for which a connection must have lasted to count as good. A connection that broke earlier counts
    /// as a failed attempt. Default: `None`, which means as long as `most`.
    pub good_after: Option<Duration>,
    /// The random part of the delay, from 0 to 1. Default: 0.5, so the client waits between half of the delay and
    /// all of it.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: Duration::from_millis(100),
            factor: 2.0,
            most: Duration::from_secs(30),
            good_after: None,
            jitter: 0.5,
        }
    }
}

impl Backoff {
    /// The time for which a connection must have lasted to count as good.
    pub(super) fn long_enough(&self) -> Duration {
        self.good_after.unwrap_or(self.most)
    }

    /// The delay after this number of failed attempts in a row. The random number shortens it: 0 gives the full
    /// delay, larger numbers give less.
    pub fn delay(&self, failed: u32, random: u64) -> Duration {
        let most = self.most.as_secs_f64();
        let steps = i32::try_from(failed.saturating_sub(1)).unwrap_or(i32::MAX);
        // `max` and `min` return the other operand if one is NaN.
        let grown = self.first.as_secs_f64() * self.factor.max(1.0).powi(steps);
        let grown = if self.first.is_zero() { 0.0 } else { grown.min(most) };
        let jitter = self.jitter.clamp(0.0, 1.0).max(0.0);
        let share = random as f64 / u64::MAX as f64;
        let delay = Duration::try_from_secs_f64(grown * (1.0 - jitter * share));
        delay.map_or(self.most, |delay| delay.min(self.most))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn p6_delay_grows_to_its_maximum_and_a_part_of_it_is_random() {
        let plain = Backoff { first: MS(100), most: MS(1000), ..Backoff::default() };
        let odd = |factor, jitter| Backoff { factor, jitter, ..plain };
        let (low, middle, high) = (0, u64::MAX / 2, u64::MAX);
        let rows = [
            // The delay doubles, up to the maximum.
            (plain, 1, low, MS(100)),
            (plain, 2, low, MS(200)),
            (plain, 3, low, MS(400)),
            (plain, 4, low, MS(800)),
            (plain, 5, low, MS(1000)),
            (plain, 6, low, MS(1000)),
            (plain, u32::MAX, low, MS(1000)),
            // Zero failed attempts count as one.
            (plain, 0, low, MS(100)),
            // Up to half of the delay is random.
            (plain, 1, middle, MS(75)),
            (plain, 1, high, MS(50)),
            (plain, 9, high, MS(500)),
            // Jitter 0 and jitter 1.
            (odd(2.0, 0.0), 3, high, MS(400)),
            (odd(2.0, 1.0), 3, middle, MS(200)),
            (odd(2.0, 1.0), 3, high, MS(0)),
            // Other factors. Invalid values count as the nearest valid value.
            (odd(1.5, 0.0), 3, low, MS(225)),
            (odd(1.0, 0.0), 9, low, MS(100)),
            (odd(0.5, 0.0), 9, low, MS(100)),
            (odd(-7.0, 0.0), 9, low, MS(100)),
            (odd(f64::NAN, 0.0), 9, low, MS(100)),
            (odd(f64::INFINITY, 0.0), 2, low, MS(1000)),
            (odd(2.0, f64::NAN), 1, high, MS(100)),
            (odd(2.0, -3.0), 1, high, MS(100)),
            (odd(2.0, 3.0), 1, high, MS(0)),
            // `first` above the maximum, `first` zero, unlimited maximum.
            (Backoff { first: MS(5000), ..plain }, 1, low, MS(1000)),
            (Backoff { first: MS(0), ..plain }, 1, low, MS(0)),
            (Backoff { first: MS(0), ..plain }, u32::MAX, low, MS(0)),
            (Backoff { most: Duration::MAX, ..plain }, u32::MAX, low, Duration::MAX),
        ];
        for (number, (backoff, failed, random, expected)) in rows.into_iter().enumerate() {
            let delay = backoff.delay(failed, random);
            let off = delay.abs_diff(expected);
            assert!(off < Duration::from_micros(1), "row {number}: {delay:?}, not {expected:?}");
        }
    }

    #[test]
    fn p6_default_delay_stays_within_its_bounds() {
        for failed in (0..200).chain([u32::MAX]) {
            for random in [0, 1, u64::MAX / 3, u64::MAX - 1, u64::MAX] {
                let delay = Backoff::default().delay(failed, random);
                assert!(delay >= MS(50) && delay <= Duration::from_secs(30), "{failed} {random}");
            }
        }
    }
}
