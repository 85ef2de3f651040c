//! Windows calls for the command, which has no `unsafe` of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::{Child, Command};

use windows_sys::Win32::System::Threading::CREATE_SUSPENDED;

use super::{Signal, calls, program, standard};

/// A program and every process that it starts. The system kills them all when the job is dropped, or when this process ends
/// in any way.
#[derive(Debug)]
pub struct Job(OwnedHandle);

impl Job {
    /// Starts a program in a new job, in the console group of this process.
    pub fn start(command: &mut Command) -> io::Result<(Child, Job)> {
        let job = Job(calls::create_job()?);
        let mut child = command.creation_flags(CREATE_SUSPENDED).spawn()?;
        let joined = calls::join_job(job.0.as_handle(), child.as_raw_handle())
            .and_then(|()| calls::resume_process(child.id()));
        if let Err(error) = joined {
            // It has run nothing.
            let _ = child.kill();
            return Err(error);
        }
        Ok((child, job))
    }

    /// The file of a program: `npx` is `npx.cmd`.
    pub fn find_program(name: &OsStr) -> OsString {
        program::find(name).map_or_else(|| name.to_owned(), Into::into)
    }

    /// The ids of its running processes.
    pub fn members(&self) -> Vec<u32> {
        calls::job_members(self.0.as_handle()).unwrap_or_default()
    }

    /// Kills all of its processes.
    pub fn kill(&self) {
        // It fails only if no process is left.
        let _ = calls::terminate_job(self.0.as_handle());
    }
}

/// Kills a process.
pub fn kill_process(id: u32) {
    // It may have ended by itself.
    let _ = calls::terminate_process(id);
}

/// Gives up stdin and stdout, for a process that has duplicates of them: prints go to stderr, and stdin is empty.
pub fn take_standard_handles() -> io::Result<()> {
    standard::redirect()
}

/// Calls this function for each console event, with the number that the C runtime has for it: 2 for Ctrl-C, 21 for
/// Ctrl-Break, 15 for the end of the console or of the session. In the last case the thread waits afterwards, because the
/// system ends the process as soon as it returns.
pub fn receive_console_events(handle: fn(i32)) -> io::Result<()> {
    static HANDLE: std::sync::OnceLock<fn(i32)> = std::sync::OnceLock::new();
    let _ = HANDLE.set(handle);
    calls::receive_console_events(|event| {
        let signal = Signal::new(event);
        if let Some(handle) = HANDLE.get() {
            handle(signal.number());
        }
        while signal.ends_with_its_handler() {
            std::thread::park();
        }
    })
}
