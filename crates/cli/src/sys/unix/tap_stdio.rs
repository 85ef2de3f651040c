//! Our stdin, stdout and stderr, as a tap forwards them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Our end of a standard stream.
pub(crate) struct TapStream(BorrowedFd<'static>);

impl AsFd for TapStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0
    }
}

pub(crate) fn stdin() -> io::Result<TapStream> {
    Ok(TapStream(rustix::stdio::stdin()))
}

pub(crate) fn stdout() -> io::Result<TapStream> {
    Ok(TapStream(rustix::stdio::stdout()))
}

pub(crate) fn stderr() -> io::Result<TapStream> {
    Ok(TapStream(rustix::stdio::stderr()))
}

/// Closes our stdin, so that the client gets EPIPE.
pub(crate) fn close_stdin(_: TapStream) {
    replace_stdin();
}

/// Closes our stdout, so that the client sees its end.
pub(crate) fn close_stdout(_: TapStream) {
    replace_stdout();
}

pub(super) fn replace_stdin() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdin(&null);
    }
}

pub(super) fn replace_stdout() {
    if let Ok(null) = null() {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// A closed descriptor could be taken by the next file that is opened. `/dev/null` keeps its place.
fn null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// Makes the pipes of our outputs as large as this user may have them: 1 MiB, unless the system says otherwise. Our pipe
/// and our buffer hold 128 KiB at most, unless the server has enlarged its end.
pub(crate) fn enlarge_outputs() {
    enlarge(rustix::stdio::stdout());
    enlarge(rustix::stdio::stderr());
}

#[cfg(target_os = "linux")]
fn enlarge(pipe: BorrowedFd<'_>) {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    let Ok(size) = fcntl_getpipe_size(pipe) else { return };
    for wanted in [1 << 20, 1 << 19, 1 << 18, 1 << 17] {
        if wanted <= size || fcntl_setpipe_size(pipe, wanted).is_ok() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn enlarge(_: BorrowedFd<'_>) {}
