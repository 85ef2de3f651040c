//! The standard handles of this process.
//!
//! Rust asks the system for a standard handle at each print. C has its own table of descriptors, made at the start. Both
//! have to change, or `puts` still reaches the real stdout.

use std::fs::OpenOptions;
use std::io;
use std::os::windows::io::AsHandle;

use super::{Owned, calls};

/// Private duplicates of stdin and stdout.
pub(crate) fn duplicate() -> io::Result<(Owned, Owned)> {
    Ok((io::stdin().as_handle().try_clone_to_owned()?, duplicate_output()?))
}

/// A private duplicate of stdout.
pub(crate) fn duplicate_output() -> io::Result<Owned> {
    io::stdout().as_handle().try_clone_to_owned()
}

/// Redirects other output of the process to stderr, and other reads of stdin to an empty input.
pub(crate) fn redirect() -> io::Result<()> {
    let nothing = || OpenOptions::new().read(true).write(true).open("NUL");
    let errors = io::stderr().as_handle().try_clone_to_owned()?;
    let errors_of_c = io::stderr().as_handle().try_clone_to_owned()?;
    // The descriptors of C first: closing them may close the handles that the system has now.
    calls::replace_c_descriptor(calls::CDescriptor::Stdin, nothing()?.into())?;
    calls::replace_c_descriptor(calls::CDescriptor::Stdout, errors_of_c)?;
    calls::set_stdin(nothing()?.into())?;
    calls::set_stdout(errors)
}
