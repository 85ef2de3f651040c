//! JSON-RPC 2.0 for two programs that talk over pipes and streams.
//!
//! This version holds the pure core, re-exported as [`proto`], and three things that the peer will
//! stand on: the [`Error`] that tells whose fault it was and whether a retry makes sense, the
//! [`fence`] that keeps a panicking handler from taking the process along, and [`params`] that
//! become types, or an answer that names the culprit. The peer itself, which serves and calls at
//! the same time on tokio, is not in this version.

// Nothing that comes from outside may end the process; tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod context;
mod driver;
pub mod error;
mod events;
mod failure;
pub mod fence;
mod handler;
pub mod params;
mod peer;
mod router;
#[cfg(unix)]
mod serve;
mod shared;
mod state;
pub mod transport;
#[cfg(unix)]
mod watchdog;

pub use call::Call;
pub use context::Context;
pub use driver::Driver;
pub use duet_rpc_proto as proto;
pub use duet_rpc_proto::Profile;
pub use duet_rpc_proto::session::Priority;
pub use error::{Error, ErrorKind, RemoteError};
pub use events::EventStream;
pub use failure::Failure;
pub use handler::{Handler, Output};
pub use peer::{Peer, Stats};
pub use router::Router;
#[cfg(unix)]
pub use serve::{Server, serve};
pub use state::{Disconnect, Reason, State};
