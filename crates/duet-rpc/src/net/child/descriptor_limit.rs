//! The limit of open files for programs that are started: the limit that this process was started with.
//!
//! A [`Server`](crate::Server) that listens raises its own soft limit. Programs that use `select`, or
//! close all descriptors up to the limit, break with a high one. Lowering it here while a program starts
//! would make other threads fail to open files, and between fork and exec only unsafe code can run. So it
//! is set for the program right after its start: the program may see the high limit in its first
//! microseconds.

use std::sync::OnceLock;

use rustix::process::Rlimit;

/// The limit before it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Notes the limit that this process had before it raised it.
pub(crate) fn note_raised(before: Rlimit) {
    let _ = BEFORE.set(before);
}

/// Gives a program that was just started the limit that this process had.
#[cfg(target_os = "linux")]
pub(super) fn restore(program: u32) {
    use rustix::process::{Pid, Resource, prlimit};

    let program = i32::try_from(program).ok().and_then(Pid::from_raw);
    if let (Some(before), Some(program)) = (BEFORE.get(), program) {
        // It fails if the program belongs to another user, or has ended.
        let _ = prlimit(Some(program), Resource::Nofile, *before);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn restore(_: u32) {}
