//! The process that this one ends with, and whether it still lives (L10).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getppid, test_kill_process};

/// How often the watchdog looks where the system does not tell.
const GLANCE: Duration = Duration::from_millis(250);

/// A process to end with. To ask the system for a signal when the parent dies will not do: that comes
/// when the *thread* ends that started us, and the process may live on.
#[derive(Debug)]
pub struct Parent {
    pid: Pid,
    /// Whether it was our parent when this was made. Then it has ended when we have another one.
    is_direct: bool,
    /// Readable when the process has ended, where the system has such a thing.
    fd: Option<OwnedFd>,
}

impl Parent {
    /// The parent of this moment; `None` if it cannot be seen from here. If the parent has died
    /// already, this is the process that took its place.
    pub(crate) fn find() -> Option<Parent> {
        getppid().map(Parent::new)
    }

    /// The process with this id, whether it is our parent or the one that had another start us.
    pub fn with_id(pid: u32) -> Option<Parent> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.map(Parent::new)
    }

    fn new(pid: Pid) -> Parent {
        let is_direct = getppid() == Some(pid);
        Parent { pid, is_direct, fd: open(pid) }
    }

    /// What to poll.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// How long the watchdog may wait without a look.
    pub(super) fn glance(&self) -> Option<Duration> {
        self.fd.is_none().then_some(GLANCE)
    }

    /// Whether it has ended, as far as it shows without its descriptor.
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
