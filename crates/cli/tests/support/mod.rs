//! What the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;

pub(crate) mod daemon;
pub(crate) mod folder;
pub(crate) mod listening;
pub(crate) mod log;
pub(crate) mod once;
pub(crate) mod programs;
pub(crate) mod terminal;

/// Says that something is not tested here. It goes past the capture of the tests' output, so that it is
/// seen.
pub(crate) fn say_skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}, as {why}");
}
