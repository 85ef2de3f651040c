//! The parts of a session that need no tasks and no I/O; time is an argument.
//!
//! So far: the brake on error storms, the table of requests that run, and the table of calls that
//! wait for an answer.

mod in_flight;
mod outlet;
mod pending;
mod storm;

pub use in_flight::InFlight;
pub use outlet::Outlet;
pub use pending::Pending;
pub use storm::{Storm, Treatment};
