//! The command on every system that it runs on: Linux, macOS and Windows. `scripts/windows` runs these tests under wine.
//!
//! Other tests of the command are written for Unix: they use its signals, sockets and shells.

mod ends;
mod run;
mod serving;
mod tools;
#[cfg(windows)]
mod windows;

#[path = "../support/programs.rs"]
#[allow(dead_code, reason = "other test files use the rest")]
mod programs;
