//! The parent process, whose end also ends the server (L10).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getppid, test_kill_process};

/// The interval of the watchdog's checks on systems without pidfds.
const GLANCE: Duration = Duration::from_millis(250);

/// A process whose end ends this one. The system's death signal (`PR_SET_PDEATHSIG`) does not help: it comes
/// when the *thread* that started us ends, while its process may live on.
#[derive(Debug)]
// Same name: `windows/parent.rs` has the same interface.
pub struct Parent {
    pid: Pid,
    /// `true` if it was our parent at the start. In that case, another parent means that it has ended.
    is_direct: bool,
    /// Readable when the process has ended, on systems with pidfds.
    fd: Option<OwnedFd>,
}

impl Parent {
    /// The current parent; `None` if it is in another pid namespace. If the parent has already died, this
    /// is the process that took its place.
    pub(crate) fn find() -> Option<Parent> {
        getppid().map(Parent::new)
    }

    /// The process with this id: our parent, or a process that started us through another process.
    pub fn with_id(pid: u32) -> Option<Parent> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.map(Parent::new)
    }

    fn new(pid: Pid) -> Parent {
        let is_direct = getppid() == Some(pid);
        Parent { pid, is_direct, fd: open(pid) }
    }

    /// The descriptor to poll.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The longest time between two checks.
    pub(crate) fn glance(&self) -> Option<Duration> {
        self.fd.is_none().then_some(GLANCE)
    }

    /// Returns `true` if it has ended. This check does not use the descriptor.
    pub fn is_gone(&self) -> bool {
        match self.is_direct {
            true => getppid() != Some(self.pid),
            false => test_kill_process(self.pid) == Err(Errno::SRCH),
        }
    }
}

#[cfg(target_os = "linux")]
fn open(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn open(_: Pid) -> Option<OwnedFd> {
    None
}
