//! The process that started this one, and whether it still lives (L10).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, getppid};

/// How often one looks where the system does not tell.
const GLANCE: Duration = Duration::from_millis(250);

/// The parent, as it was when this was made. To ask the system for a signal when it dies will not
/// do: that comes when the *thread* ends that started us, and the process may live on.
#[derive(Debug)]
pub(crate) struct Parent {
    pid: Pid,
    /// Readable when the parent has ended, where the system has such a thing.
    fd: Option<OwnedFd>,
}

impl Parent {
    /// `None` if there is none that can be seen from here.
    pub(crate) fn find() -> Option<Parent> {
        let pid = getppid()?;
        Some(Parent { pid, fd: open(pid) })
    }

    /// What to poll.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// How long one may wait without a look.
    pub(super) fn glance(&self) -> Option<Duration> {
        self.fd.is_none().then_some(GLANCE)
    }

    /// Whether we have become somebody else's child.
    pub(super) fn is_gone(&self) -> bool {
        getppid() != Some(self.pid)
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
