//! A histogram of latencies in bounded memory: buckets of equal relative width.

use std::collections::BTreeMap;

/// Each power of two has 2⁷ buckets, so a bucket is less than 1 % wide.
const BITS: u32 = 7;

#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    buckets: BTreeMap<u32, u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    pub(super) fn add(&mut self, value: u64) {
        *self.buckets.entry(bucket(value)).or_default() += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The number of values up to each power of two, from the first to the last that has any.
    pub(super) fn powers(&self) -> Vec<(u64, u64)> {
        let power = |bucket: u32| upper(bucket).checked_next_power_of_two().unwrap_or(u64::MAX);
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for (bucket, count) in &self.buckets {
            let end = power(*bucket);
            while let Some(&(last, _)) = rows.last()
                && last < end
            {
                rows.push((last.saturating_mul(2), 0));
            }
            match rows.last_mut() {
                Some((_, sum)) => *sum += count,
                None => rows.push((end, *count)),
            }
        }
        rows
    }

    /// The nearest rank: the smallest value that at least this share does not exceed.
    pub(super) fn percentile(&self, percent: u8) -> Option<u64> {
        let rank = (self.count * u64::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(upper(*bucket).min(self.max));
            }
        }
        None
    }

    pub(super) fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }
}

/// The bucket of a value. Values below 2⁸ have their own.
fn bucket(value: u64) -> u32 {
    let exponent = value.checked_ilog2().unwrap_or(0).saturating_sub(BITS);
    let top = u32::try_from(value >> exponent).unwrap_or(u32::MAX);
    (exponent << BITS) + top
}

/// The greatest value of a bucket.
fn upper(bucket: u32) -> u64 {
    // `top` has BITS + 1 bits where there is an exponent, so it adds 1 to the upper part.
    let exponent = (bucket >> BITS).saturating_sub(1);
    let top = u64::from(bucket - (exponent << BITS));
    (top << exponent) + ((1 << exponent) - 1)
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket, upper};

    #[test]
    fn buckets_are_in_order_and_less_than_one_percent_wide() {
        let powers = (0..63).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for value in (0..5_000).chain(powers).chain([u64::MAX]) {
            let end = upper(bucket(value));
            assert!(end >= value && end - value <= value / 100, "{value}: {end}");
            assert_eq!(bucket(end), bucket(value));
            assert!(
                bucket(value / 2) <= bucket(value) && bucket(value.max(1) - 1) <= bucket(value)
            );
        }
    }

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50), histogram.max()), (None, None));
        for value in 1..=100 {
            histogram.add(value);
        }
        for (percent, value) in [(0, 1), (1, 1), (50, 50), (95, 95), (99, 99), (100, 100)] {
            assert_eq!(histogram.percentile(percent), Some(value));
        }
        histogram.add(1_000_000);
        assert_eq!(
            (histogram.percentile(100), histogram.max()),
            (Some(1_000_000), Some(1_000_000))
        );
    }
}
