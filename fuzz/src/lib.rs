//! Code that the fuzz targets share with the tests: the ledger and its games, and the reference
//! rules. A target only feeds its bytes in, so it makes the same checks as the tests.

#[path = "../../crates/proto/tests/support/mod.rs"]
pub mod support;

pub mod net;
pub mod process;

#[path = "../../crates/duet-rpc/src/log_limit.rs"]
mod log_limit;
#[path = "../../crates/duet-rpc/src/remote.rs"]
#[allow(dead_code, reason = "only the library uses the rest")]
pub mod remote;
#[path = "../../crates/duet-rpc/src/sync.rs"]
mod sync;

/// The parts of the library's seam to the system that these files use.
#[path = "../../crates/duet-rpc/src/sys/unix"]
mod sys {
    #[allow(dead_code, unexpected_cfgs, reason = "only the library uses the rest")]
    pub(crate) mod files;
}
