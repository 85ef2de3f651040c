//! Trials of the daemon: load of every kind for as long as one likes, and ends of every kind.
#![cfg(unix)]

pub mod chaos;
mod harness;
pub mod orphans;
pub mod soak;
pub mod unread;

pub use harness::counters::{Counters, Failure, Group};
pub use harness::profile::{Profile, Transport};
pub use harness::programs;
pub use harness::wire::Framing;
