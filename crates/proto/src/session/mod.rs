//! One connection as a pure machine: what comes in, what is under way, what is to be told.
//!
//! A [`Session`] has no tasks, no I/O and no clock: time is an argument, and who drives it runs
//! the handlers. It decides
//!
//! - when an incoming message starts, by the order of the profile and its limits (`schedule`),
//! - what a batch answers, as a whole (`batch`),
//! - how each call of ours ends, exactly once, by one of six doors: reply, timeout, cancel, drop,
//!   lost by the transport, close (`calls`),
//! - when a connection that is closing is done (`phase`).

mod batch;
mod calls;
mod cancel;
mod ends;
mod events;
mod ids;
mod machine;
mod outlet;
mod phase;
mod schedule;
mod storm;
mod waiting;

pub use batch::BatchKey;
pub use calls::{Progress, Terms};
pub use events::{Event, EventQueue, Priority};
pub use ids::Ids;
pub use machine::{Asks, Closes, Handled, Session};
pub use outlet::Outlet;
pub use phase::{Draining, Ending, Phase};
pub use schedule::{Job, Key, LaneOf};
pub use storm::{Storm, Treatment};
pub use waiting::Message;
