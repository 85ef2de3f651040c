//! What the fuzz targets share with the tests: the ledger and its games, and the rules written once
//! more. A target adds where its bytes go, so that what it checks is what the tests check.

#[path = "../../crates/proto/tests/support/mod.rs"]
pub mod support;

pub mod net;
pub mod process;

#[path = "../../crates/duet-rpc/src/log_limit.rs"]
mod log_limit;
#[path = "../../crates/duet-rpc/src/remote.rs"]
pub mod remote;
#[path = "../../crates/duet-rpc/src/sync.rs"]
mod sync;
