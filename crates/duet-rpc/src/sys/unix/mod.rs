//! Unix: file descriptors that can be polled, signals, process groups.

pub mod command_support;
mod descriptor;
pub(crate) mod exit;
pub(crate) mod files;
mod hang_up;
pub(crate) mod limits;
pub(crate) mod local;
mod parent;
pub(crate) mod polled;
mod process_table;
pub(crate) mod procfs;
pub(crate) mod program;
mod reserve;
mod signals;
mod socket_file;
pub(crate) mod standard;
pub(crate) mod tcp;
pub(crate) mod tree;
pub(crate) mod watch;

pub(crate) use std::os::fd::OwnedFd as Owned;

pub(crate) use descriptor::Descriptor;
pub(crate) use exit::Exit;
pub(crate) use hang_up::HangUpWatch;
pub use parent::Parent;
pub(crate) use reserve::Reserve;
pub(crate) use rustix::io::{Errno, Result as IoResult};
pub(crate) use signals::Signal;
pub use signals::is_ignored;

use std::io::{self, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits for input, on a thread that may block.
pub(crate) fn blocking_read(input: &Owned, bytes: &mut Vec<u8>) -> IoResult<usize> {
    rustix::io::retry_on_intr(|| rustix::io::read(input, rustix::buffer::spare_capacity(bytes)))
}

/// Ends the process immediately. No destructor and no exit handler runs.
pub(crate) fn exit_now(code: i32) {
    signal_hook::low_level::exit(code);
}

/// Writes a line of at most `PIPE_BUF` bytes to stderr, or drops it: a stderr that nobody reads must not stop the
/// server (L8).
pub(crate) fn print_or_drop(line: &str) {
    // One thread at a time, because `poll` reports room for one line.
    let mut stderr = io::stderr().lock();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let is_ready = matches!(poll(&mut fds, Some(&now)), Ok(1));
    if is_ready && fds[0].revents().contains(PollFlags::OUT) {
        // A closed stderr has no reader.
        let _ = stderr.write_all(line.as_bytes());
    }
}

/// Registers a descriptor with the runtime.
///
/// The runtime's newer function for this is `unsafe`, because a descriptor might be closed or replaced while
/// it is registered. The callers own their descriptors and never change them, so the older function is safe
/// here, and needs no `unsafe`.
#[allow(deprecated)]
fn register<T: std::os::fd::AsRawFd>(
    descriptor: T,
    interest: tokio::io::Interest,
) -> io::Result<tokio::io::unix::AsyncFd<T>> {
    tokio::io::unix::AsyncFd::with_interest(descriptor, interest)
}
