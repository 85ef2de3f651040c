//! Trials of the daemon: long runs under every kind of load, and every kind of end.
#![cfg(unix)]

pub mod chaos;
mod harness;
pub mod orphans;
pub mod soak;
pub mod unread;
pub mod vanish;

pub use harness::counters::{Counters, Failure, Group};
pub use harness::profile::{Profile, Transport};
pub use harness::programs;
pub use harness::wire::Framing;
