//! The server of a tap: three pipes, a job object, and its end.
//!
//! The job holds every process that the server starts. The system kills the job when its last handle is closed, which
//! happens however this process ends, so there is no guard. The server is in our console group, so Ctrl-C reaches it
//! without us.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::windows::io::OwnedHandle;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duet_rpc::command_support::Job;

use crate::sys::{Ended, end_not_started};

/// The time that processes have to end by themselves after the server.
const ALONE: Duration = Duration::from_millis(600);

/// The pause between two looks at the job.
const PAUSE: Duration = Duration::from_millis(10);

/// A running server.
// Same name: the interface of `unix/child.rs`.
pub(crate) struct TappedServer {
    child: Child,
    job: Arc<Job>,
}

/// Our ends of the server's pipes.
// Same name: the interface of `unix/child.rs`.
pub(crate) struct ServerPipes {
    pub(crate) stdin: File,
    pub(crate) stdout: File,
    pub(crate) stderr: File,
}

impl TappedServer {
    /// Starts a server with pipes to it.
    pub(crate) fn start(command: &[OsString]) -> io::Result<(Self, ServerPipes)> {
        let ((stdin, to), (from, stdout), (errors, stderr)) =
            (io::pipe()?, io::pipe()?, io::pipe()?);
        let stdio = [Stdio::from(stdin), Stdio::from(stdout), Stdio::from(stderr)];
        let server = Self::start_with(command, stdio)?;
        let file = |handle: OwnedHandle| File::from(handle);
        let (stdin, stdout, stderr) = (file(to.into()), file(from.into()), file(errors.into()));
        Ok((server, ServerPipes { stdin, stdout, stderr }))
    }

    /// Starts a server with our own stdin, stdout and stderr.
    pub(crate) fn start_with_ours(command: &[OsString]) -> io::Result<Self> {
        Self::start_with(command, [Stdio::inherit(), Stdio::inherit(), Stdio::inherit()])
    }

    fn start_with(command: &[OsString], stdio: [Stdio; 3]) -> io::Result<Self> {
        let (program, words) =
            command.split_first().ok_or_else(|| io::Error::other("there is no command"))?;
        let [stdin, stdout, stderr] = stdio;
        let mut start = Command::new(Job::find_program(program));
        start.args(words).stdin(stdin).stdout(stdout).stderr(stderr);
        let (child, job) =
            Job::start(&mut start).unwrap_or_else(|error| end_not_started(program, &error));
        Ok(TappedServer { child, job: Arc::new(job) })
    }

    /// A handle that ends the server.
    pub(crate) fn signals(&self) -> io::Result<SignalSender> {
        Ok(SignalSender(Arc::clone(&self.job)))
    }

    /// Waits until the server and its descendants have ended.
    pub(crate) fn wait(mut self) -> io::Result<Ended> {
        let status = self.child.wait()?;
        let left = self.job.members().len();
        let until = Instant::now() + ALONE;
        while !self.job.members().is_empty() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        self.job.kill();
        Ok(Ended { code: status.code(), signal: None, left: left as u64 })
    }
}

/// Ends the server.
// Same name: the interface of `unix/child.rs`.
pub(crate) struct SignalSender(Arc<Job>);

impl SignalSender {
    /// Kills the server: the rules know no other signal.
    pub(crate) fn send(&self, _: i32) {
        self.kill();
    }

    /// Nothing can ask it to end: it has no console of its own.
    pub(crate) fn ask(&self) {}

    /// Kills the server.
    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}

/// The path of the program that runs now.
pub(crate) fn own_path() -> io::Result<OsString> {
    std::env::current_exe().map(Into::into)
}
