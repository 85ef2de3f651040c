//! The limit of open files: raised for this process, restored for the programs that it starts.
//!
//! A [`Server`](crate::Server) that listens raises its own soft limit. Programs that use `select`, or close all
//! descriptors up to the limit, break with a high limit. Lowering the limit of this process while a program starts
//! would make other threads fail to open files, and between fork and exec only unsafe code can run. So this process
//! sets the limit of the program right after its start: the program may see the high limit in its first microseconds.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::process::Child;

/// The limit of this process before it was raised.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit of open files as far as allowed, and returns it. The default of a shell is meant for
/// programs that use `select`; this program does not.
pub(crate) fn raise() -> usize {
    let before = getrlimit(Resource::Nofile);
    note_raised(before);
    let Rlimit { current, maximum } = before;
    let most = Rlimit { current: maximum, maximum };
    let now = match setrlimit(Resource::Nofile, most) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    now.map_or(usize::MAX, |now| usize::try_from(now).unwrap_or(usize::MAX))
}

/// Records the limit that this process had before it raised it.
pub(crate) fn note_raised(before: Rlimit) {
    let _ = BEFORE.set(before);
}

/// Gives a program that was just started the limit that this process had.
#[cfg(target_os = "linux")]
pub(crate) fn restore(program: &Child) {
    use rustix::process::{Pid, prlimit};

    let program = program.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let (Some(before), Some(program)) = (BEFORE.get(), program) {
        // This fails if the program belongs to another user, or has ended.
        let _ = prlimit(Some(program), Resource::Nofile, *before);
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn restore(_: &Child) {}

/// The amount of memory that this process may still map, if it is limited and known.
#[cfg(target_os = "linux")]
pub(crate) fn memory_left() -> Option<usize> {
    let limit = getrlimit(Resource::As).current?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let kib: u64 = size.trim().strip_suffix(" kB")?.parse().ok()?;
    usize::try_from(limit.saturating_sub(kib * 1024)).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn memory_left() -> Option<usize> {
    None
}
