//! Ids of our calls (P1).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::message::Id;
use crate::policy::IdStyle;

/// Generates unique ids. Tasks can share it.
///
/// ```
/// use duet_rpc_proto::{policy::IdStyle, session::Ids};
///
/// let ids = Ids::new(IdStyle::Counter, 0);
/// assert_eq!((ids.next().as_raw(), ids.next().as_raw()), ("1", "2"));
/// ```
#[derive(Debug)]
pub struct Ids {
    style: IdStyle,
    /// The start of the sequence of UUIDs.
    seed: u128,
    last: AtomicU64,
}

impl Ids {
    /// Ids of this style. The seed matters only for UUIDs: two connections with the same seed have
    /// the same ids.
    pub fn new(style: IdStyle, seed: u128) -> Self {
        Ids { style, seed, last: AtomicU64::new(0) }
    }

    /// The next id.
    pub fn next(&self) -> Id {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match self.style {
            IdStyle::Counter => Id::from(number),
            IdStyle::Uuid => Id::from(&*self.uuid(number)),
        }
    }

    /// A UUID of version 4. A bijective mixing function scatters the numbers of a connection, so
    /// its ids are unique.
    fn uuid(&self, number: u64) -> String {
        let high = scatter(number.wrapping_add((self.seed >> 64) as u64));
        let low = scatter(number.wrapping_mul(3).wrapping_add(self.seed as u64));
        let bits = (u128::from(high) << 64) + u128::from(low);
        let bits = (bits & !(0xf << 76) & !(0x3 << 62)) + (0x4 << 76) + (0x2 << 62);
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }
}

/// The finaliser of SplitMix64: a bijection in which each input bit affects all output bits.
fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Ids, scatter};
    use crate::policy::IdStyle;

    #[test]
    fn p1_scatter_matches_splitmix64() {
        // The published first numbers for the seed 0.
        let published = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([1, 2, 3].map(scatter), published);
    }

    #[test]
    fn p1_a_uuid_depends_on_all_of_the_seed() {
        let ids = Ids::new(IdStyle::Uuid, (5 << 64) + 7);
        let (high, low) = (scatter(1 + 5), scatter(3 + 7));
        let expect = format!(
            "\"{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}\"",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff,
        );
        assert_eq!(ids.next().as_raw(), expect);
    }

    #[test]
    fn p1_uuids_are_version_4_and_unique() {
        let mut seen = HashSet::new();
        for seed in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let ids = Ids::new(IdStyle::Uuid, seed);
            for _ in 0..1000 {
                let id = ids.next();
                let text = id.as_raw().trim_matches('"').to_owned();
                assert_eq!(text.len(), 36, "{text}");
                assert_eq!(text.as_bytes()[14], b'4', "{text}");
                assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
                assert!(seen.insert(text));
            }
        }
    }
}
