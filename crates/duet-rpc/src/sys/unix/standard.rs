//! The standard descriptors of this process.

use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::{fcntl_dupfd_cloexec, retry_on_intr};

use super::Owned;

/// The lowest number of a private descriptor: below it are the standard ones.
const FIRST_PRIVATE: i32 = 3;

/// Private duplicates of stdin and stdout.
pub(crate) fn duplicate() -> io::Result<(Owned, Owned)> {
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_PRIVATE)?;
    Ok((input, duplicate_output()?))
}

/// A private duplicate of stdout.
pub(crate) fn duplicate_output() -> io::Result<Owned> {
    Ok(fcntl_dupfd_cloexec(rustix::stdio::stdout(), FIRST_PRIVATE)?)
}

/// Redirects other output of the process to stderr, and other reads of stdin to an empty input.
pub(crate) fn redirect() -> io::Result<()> {
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    retry_on_intr(|| rustix::stdio::dup2_stdin(&nothing))?;
    retry_on_intr(|| rustix::stdio::dup2_stdout(rustix::stdio::stderr()))?;
    Ok(())
}
