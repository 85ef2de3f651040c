//! The descriptors of this process: checks that stdin and stdout were open at the start, and that more can be
//! opened.
//!
//! Before `main`, Rust opens `/dev/null` in place of a closed descriptor. A write to it succeeds and is lost.
//! Nothing distinguishes it from a `/dev/null` that the user asked for. So the descriptors are checked before
//! Rust replaces them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;

static STDIN_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

ctor::declarative::ctor! {
    /// Runs before `main`, so it only makes system calls.
    #[ctor]
    fn record_closed() {
        let is_closed = |fd: BorrowedFd<'_>| rustix::io::fcntl_getfd(fd).is_err();
        STDIN_WAS_CLOSED.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
        STDOUT_WAS_CLOSED.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
    }
}

/// Fails if stdin cannot be read.
pub(crate) fn check_stdin() -> io::Result<()> {
    check_open(&STDIN_WAS_CLOSED, rustix::stdio::stdin(), OFlags::WRONLY, "reading")
}

/// Fails if stdout cannot be written.
pub(crate) fn check_stdout() -> io::Result<()> {
    check_open(&STDOUT_WAS_CLOSED, rustix::stdio::stdout(), OFlags::RDONLY, "writing")
}

/// `wrong` is the access mode in which Rust discards writes, and reads nothing, without an error.
fn check_open(
    was_closed: &AtomicBool,
    fd: BorrowedFd<'_>,
    wrong: OFlags,
    purpose: &str,
) -> io::Result<()> {
    if was_closed.load(Ordering::Relaxed) {
        return Err(io::Error::other("it is closed"));
    }
    match rustix::fs::fcntl_getfl(fd)? & OFlags::ACCMODE == wrong {
        true => Err(io::Error::other(format!("it is not open for {purpose}"))),
        false => Ok(()),
    }
}

/// Fails if fewer than `count` descriptors can be opened.
pub(crate) fn check_free(count: usize) -> io::Result<()> {
    let one = |_| io::stderr().as_fd().try_clone_to_owned();
    (0..count).map(one).collect::<io::Result<Vec<_>>>().map(drop)
}
