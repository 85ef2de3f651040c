//! Helpers of the property tests. They are not a part of `support`, because the fuzz targets
//! compile that without proptest.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Cuts bytes at the positions in `cuts`.
pub fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Runs the same cases each time, so that the suite never fails by chance. The fuzz targets find
/// new cases, and so do `PROPTEST_RNG_SEED` and `PROPTEST_CASES`.
pub fn config(seed: u64) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(seed), ..config },
        RngSeed::Fixed(_) => config,
    }
}
