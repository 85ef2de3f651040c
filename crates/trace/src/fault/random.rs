//! Numbers that depend on a seed and on nothing else, so that faults repeat.
//!
//! There is no state: the number for a message is a hash of the seed, the rule and the place of the
//! message among those of its direction. How the threads of the two directions interleave does not matter.

/// A hash of these values, by the steps of SplitMix64.
pub(super) fn mix(values: &[u64]) -> u64 {
    values.iter().fold(0, |state, value| {
        let mut state = (state ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 31)
    })
}

/// A number from 0 to below 1.
pub(super) fn fraction(number: u64) -> f64 {
    // 53 bits are all that a float has.
    (number >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number from `least` to `most`, both included.
pub(super) fn between(number: u64, least: u64, most: u64) -> u64 {
    match most.saturating_sub(least).checked_add(1) {
        Some(count) => least + number % count,
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x5_numbers_spread_evenly_and_repeat() {
        assert_eq!(mix(&[1, 2, 3]), mix(&[1, 2, 3]));
        assert_ne!(mix(&[1, 2, 3]), mix(&[1, 3, 2]));
        let below = (0..10_000).filter(|&it| fraction(mix(&[7, it])) < 0.1).count();
        assert!((900..1_100).contains(&below), "{below} of 10000");
        let drawn: Vec<_> = (0..1_000).map(|it| between(mix(&[it]), 5, 7)).collect();
        assert!((5..=7).all(|value| drawn.iter().filter(|&&it| it == value).count() > 250));
        assert!(drawn.iter().all(|it| (5..=7).contains(it)));
        assert_eq!(between(9, 4, 4), 4);
        assert_eq!(between(9, 0, u64::MAX), 9);
    }
}
