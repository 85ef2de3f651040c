//! Trials of the daemon: load of every kind for as long as one likes, and ends of every kind.
#![cfg(unix)]

pub mod chaos;
#[allow(dead_code, reason = "chaos and soak move to it next")]
mod harness;
pub mod orphans;
pub mod random;
pub mod soak;
pub mod unread;
pub mod wire;

pub use harness::counters::{Counters, Failure, Group};
pub use harness::profile::{Profile, Transport};
pub use harness::programs;
pub use harness::wire::Framing;
