//! The handles of this process: checks that stdin and stdout were open at the start.

use std::io;
use std::os::windows::io::{AsRawHandle, RawHandle};

/// Fails if stdin cannot be read.
pub(crate) fn check_stdin() -> io::Result<()> {
    check_open(io::stdin().as_raw_handle())
}

/// Fails if stdout cannot be written.
pub(crate) fn check_stdout() -> io::Result<()> {
    check_open(io::stdout().as_raw_handle())
}

/// Rust discards writes to a missing handle, and reads nothing, without an error.
fn check_open(handle: RawHandle) -> io::Result<()> {
    match handle.is_null() || handle.addr() == usize::MAX {
        true => Err(io::Error::other("it is closed")),
        false => Ok(()),
    }
}

/// Handles do not run out.
pub(crate) fn check_free(_: usize) -> io::Result<()> {
    Ok(())
}
