//! The state of a connection, and the reason for its end (P5).

use std::fmt;
use std::sync::Arc;

use super::{Error, ErrorKind};
use crate::transport::ExitReport;

/// The state of a connection. It only moves forward ([P5](crate::proto::specification#p5)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// It has not begun.
    Connecting,
    /// Messages come and go.
    Connected,
    /// It is closing: what is under way is finished.
    Draining,
    /// It is closed, and this is why.
    Disconnected(Disconnect),
}

impl ConnectionState {
    /// Returns `true` if messages can be sent and received, now or soon.
    pub fn is_open(&self) -> bool {
        matches!(self, ConnectionState::Connecting | ConnectionState::Connected)
    }

    /// Returns `true` if the connection is closed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, ConnectionState::Disconnected(_))
    }
}

/// The end of a connection and its reason. It is cheap to clone.
#[derive(Clone)]
pub struct Disconnect(Arc<DisconnectDetails>);

#[derive(Clone)]
struct DisconnectDetails {
    reason: CloseReason,
    failure: Option<Arc<Error>>,
    exit_report: ExitReport,
    last_stderr: Option<StderrCause>,
}

/// The number of stderr lines of a process that an error shows, and the length of each.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARS: usize = 200;

/// The last lines that a remote process wrote to stderr, as the cause of the end of its connection.
/// They may hold anything, so the log leaves them out.
#[derive(Clone)]
pub(super) struct StderrCause {
    lines: Vec<String>,
    failure: Option<Arc<Error>>,
}

impl fmt::Display for StderrCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it wrote to stderr")?;
        let skipped = self.lines.len().saturating_sub(SHOWN_LINES);
        for (number, line) in self.lines.iter().skip(skipped).enumerate() {
            let line: String = line.chars().take(SHOWN_CHARS).collect();
            write!(f, "{} {line:?}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for StderrCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrCause").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}

impl std::error::Error for StderrCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        to_cause(self.failure.as_ref())
    }
}

fn to_cause(failure: Option<&Arc<Error>>) -> Option<&(dyn std::error::Error + 'static)> {
    failure.map(|failure| &**failure as &(dyn std::error::Error + 'static))
}

/// The side that ended a connection, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// We closed it: a handle was closed or dropped, a [shutdown method](crate::Router::shutdown_method) came, or
    /// the process was asked to end.
    Closed,
    /// The remote did: its output ended.
    RemoteClosed,
    /// Reading failed.
    ReadFailed,
    /// Writing failed.
    WriteFailed,
    /// Connecting failed: a [`Client`](crate::Client) gave up.
    ConnectFailed,
}

impl Disconnect {
    pub(crate) fn new(reason: CloseReason, failure: Option<Error>) -> Self {
        let failure = failure.map(Arc::new);
        let exit_report = ExitReport::default();
        Disconnect(Arc::new(DisconnectDetails { reason, failure, exit_report, last_stderr: None }))
    }

    pub(crate) fn failed(reason: CloseReason, error: std::io::Error) -> Self {
        Disconnect::new(reason, Some(Error::new(ErrorKind::Transport).caused_by(error)))
    }

    /// The same, once it is known what became of the other end.
    pub(crate) fn with_exit_report(&self, exit_report: ExitReport) -> Self {
        let (lines, failure) = (exit_report.last_stderr.clone(), self.0.failure.clone());
        let last_stderr = (!lines.is_empty()).then_some(StderrCause { lines, failure });
        Disconnect(Arc::new(DisconnectDetails {
            exit_report,
            last_stderr,
            ..DisconnectDetails::clone(&self.0)
        }))
    }

    /// For a connection whose driver was dropped.
    pub(crate) fn dropped() -> Self {
        Disconnect::new(CloseReason::Closed, None)
    }

    /// The reason of the end.
    pub fn reason(&self) -> CloseReason {
        self.0.reason
    }

    /// The error that ended it, if there is one.
    pub fn failure(&self) -> Option<&Error> {
        self.0.failure.as_deref()
    }

    /// The report of the other end: the exit status of a child process, and its last lines on stderr.
    pub fn exit_report(&self) -> &ExitReport {
        &self.0.exit_report
    }

    /// The error that every operation gets from here on.
    pub(crate) fn to_error(&self) -> Error {
        Error::new(ErrorKind::Disconnected).caused_by(self.clone())
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.reason {
            CloseReason::Closed => "it was closed here",
            CloseReason::RemoteClosed => "the remote closed it",
            CloseReason::ReadFailed => "reading from the remote failed",
            CloseReason::WriteFailed => "writing to the remote failed",
            CloseReason::ConnectFailed => "connecting to the remote failed",
        })?;
        if let Some(exit) = self.0.exit_report.exit {
            write!(f, "; its process ended with {exit}")?;
        }
        for (number, process) in self.0.exit_report.stopped.iter().enumerate() {
            write!(f, "{}{process}", if number == 0 { "; stopped: " } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Disconnect");
        shown.field("reason", &self.0.reason).field("failure", &self.0.failure);
        shown.field("exit_report", &self.0.exit_report).finish()
    }
}

impl std::error::Error for Disconnect {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.last_stderr {
            Some(last_stderr) => Some(last_stderr),
            None => to_cause(self.0.failure.as_ref()),
        }
    }
}
