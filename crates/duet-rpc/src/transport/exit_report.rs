//! The end of the program behind a transport.

use std::fmt;
use std::process::ExitStatus;

/// The end of the remote, as far as it is known.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ExitReport {
    /// The exit status of the remote process, if it was a child of this one.
    pub exit: Option<ExitStatus>,
    /// The last lines that it wrote to stderr.
    pub last_stderr: Vec<String>,
    /// Processes (the child or its descendants) that had to be stopped with a signal.
    pub stopped: Vec<Stopped>,
}

/// A process that did not end by itself when a [`Child`](super::Child) was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Its process id.
    pub pid: u32,
    /// The name of its program, as the system shows it: on Linux the first 15 bytes.
    pub program: String,
    /// `true` if it was killed (SIGKILL), because it did not exit after SIGTERM.
    pub is_killed: bool,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signal = if self.is_killed { "SIGKILL" } else { "SIGTERM" };
        write!(f, "{} (pid {}, {signal})", self.program, self.pid)
    }
}

impl fmt::Debug for ExitReport {
    /// Shows only the number of stderr lines, because they may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ExitReport");
        shown.field("exit", &self.exit).field("last_stderr", &self.last_stderr.len());
        shown.field("stopped", &self.stopped).finish()
    }
}
