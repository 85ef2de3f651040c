//! Seam to the operating system: everything that differs between Unix and Windows, behind the same names.
//!
//! | name | contents |
//! |---|---|
//! | `descriptors` | checks of stdin, stdout and free descriptors |
//! | `Interruptions`, `EarlySignals`, `TapSignals` | events that ask the process to end: signals, or console events |
//! | `TappedServer`, `run_guard`, `run_launch` | the server of a tap, with all processes that it starts |
//! | `tap_stdio` | our stdin, stdout and stderr, as a tap forwards them |
//! | `local` | sockets of this machine that a tap stands between |
//! | `InheritedSocket` | sockets that a service manager passes |
//! | `files` | log files, access rights, identity of files |
//! | `processes` | ids, exits and signals of processes |
//! | `release_free_memory` | memory that the allocator keeps |
//! | `terminal` | width and colours |
//!
//! `proto/tests/house/platforms.rs` counts each `cfg` outside of this folder.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use crate::console;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

/// The end of a tapped server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// The number of processes that it left behind.
    pub(crate) left: u64,
}

/// Exit codes of shells and of `env` for a program that does not exist, or cannot be run.
const NOT_FOUND: i32 = 127;
const CANNOT_RUN: i32 = 126;

/// Ends the process that should have become, or started, the server of a tap.
fn end_not_started(program: &OsStr, error: &io::Error) -> ! {
    let is_name = Path::new(program).components().count() == 1;
    let advice = match error.kind() {
        io::ErrorKind::NotFound if is_name => {
            "; it is in no folder of PATH: install it, or give its full path"
        }
        _ => "",
    };
    console::say(format_args!("cannot start {}: {error}{advice}", program.display()));
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    std::process::exit(if is_missing { NOT_FOUND } else { CANNOT_RUN })
}
