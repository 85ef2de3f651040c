//! What the daemon is put through: load of every kind for as long as one likes, and ends of every kind.
//!
//! Nothing here uses the library: framings, messages and answers are read by the plainest code that can do
//! it, so that a mistake there is not made here again.
#![cfg(unix)]

pub mod chaos;
pub mod orphans;
pub mod programs;
pub mod random;
pub mod soak;
pub mod unread;
pub mod wire;
