//! All processes that a program started: a job object holds them together.
//!
//! The program starts suspended, joins the job, and only then runs, so every process that it starts is in the job too. The
//! system kills the job when its last handle is closed, which happens however this process ends.

use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::time::Instant;

use tokio::process::{Child, Command};
use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

use super::calls;

// Same name: the interface of `unix/tree.rs`.
pub(crate) struct Marker;

impl Marker {
    /// Makes a program that is about to start wait for its job, in a console group of its own.
    pub(crate) fn put_on(command: &mut Command) -> Marker {
        command.creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP);
        Marker
    }
}

/// A program and all processes that it started.
// Same name: the interface of `unix/tree.rs`.
pub(crate) struct Tree {
    job: OwnedHandle,
    program: Option<u32>,
}

/// A running process.
// Same name: the interface of `unix/procfs.rs`.
pub(crate) struct ProcessEntry {
    id: u32,
    pub(crate) program: String,
}

impl ProcessEntry {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Tree {
    /// Puts a suspended program into a new job, and lets it run. If this fails, the program has run nothing.
    pub(crate) fn new(program: &Child, _: Marker) -> io::Result<Self> {
        let job = calls::create_job()?;
        let (Some(handle), Some(id)) = (program.raw_handle(), program.id()) else {
            return Err(io::Error::other("the program has ended already"));
        };
        calls::join_job(job.as_handle(), handle)?;
        calls::resume_process(id)?;
        Ok(Tree { job, program: Some(id) })
    }

    /// The running members.
    pub(crate) fn members(&self) -> Option<Vec<ProcessEntry>> {
        let ids = calls::job_members(self.job()).ok()?;
        let entry = |id| ProcessEntry { id, program: calls::program_name(id).unwrap_or_default() };
        Some(ids.into_iter().map(entry).collect())
    }

    /// The running members: a job knows them without a scan.
    pub(crate) fn members_or_known(&self, _: Vec<ProcessEntry>) -> Option<Vec<ProcessEntry>> {
        self.members()
    }

    /// Sends Ctrl-Break to the program's console group. Returns `true` if there is a console for it.
    pub(crate) fn terminate(&self, _: &[ProcessEntry]) -> bool {
        self.program.is_some_and(|id| calls::send_break(id).is_ok())
    }

    /// Kills all members.
    pub(crate) fn kill_group(&self) {
        // It fails only if no process is left.
        let _ = calls::terminate_job(self.job());
    }

    /// Kills all members, and returns them.
    pub(crate) fn kill(&self, _: Instant) -> Vec<ProcessEntry> {
        let members = self.members().unwrap_or_default();
        self.kill_group();
        members
    }

    /// Nothing to forget: a job has no id that others could get.
    pub(crate) fn forget_group(&self) {}

    fn job(&self) -> BorrowedHandle<'_> {
        self.job.as_handle()
    }
}
