//! The open-file limit of programs that this process starts: the limit that this process was started with.
//!
//! A [`Server`](crate::Server) that listens raises its own soft limit. Programs that use `select`, or close all
//! descriptors up to the limit, break with a high limit. Lowering the limit of this process while a program starts
//! would make other threads fail to open files, and between fork and exec only unsafe code can run. So this process
//! sets the limit of the program right after its start: the program may see the high limit in its first microseconds.

use std::sync::OnceLock;

use rustix::process::Rlimit;

/// The limit of this process before it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Records the limit that this process had before it raised it.
pub(crate) fn note_raised(before: Rlimit) {
    let _ = BEFORE.set(before);
}

/// Gives a program that was just started the limit that this process had.
#[cfg(target_os = "linux")]
pub(super) fn restore(program: u32) {
    use rustix::process::{Pid, Resource, prlimit};

    let program = i32::try_from(program).ok().and_then(Pid::from_raw);
    if let (Some(before), Some(program)) = (BEFORE.get(), program) {
        // This fails if the program belongs to another user, or has ended.
        let _ = prlimit(Some(program), Resource::Nofile, *before);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn restore(_: u32) {}
