//! State of a connection, and the reason for its end (P5).

use std::fmt;
use std::sync::Arc;

use super::{Error, ErrorKind};
use crate::transport::ExitReport;

/// The state of a connection. It only moves forward ([P5](crate::proto::specification#p5)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The driver of the connection has not started.
    Connecting,
    /// Messages are sent and received.
    Connected,
    /// The connection is closing. Running handlers finish.
    Draining,
    /// The connection is closed, for this reason.
    Disconnected(Disconnect),
}

impl ConnectionState {
    /// Returns `true` if messages can be sent and received, now or once the connection has started.
    pub fn is_open(&self) -> bool {
        matches!(self, ConnectionState::Connecting | ConnectionState::Connected)
    }

    /// Returns `true` if the connection is closed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, ConnectionState::Disconnected(_))
    }
}

/// The end of a connection and its reason. Cloning is cheap.
#[derive(Clone)]
pub struct Disconnect(Arc<DisconnectDetails>);

#[derive(Clone)]
struct DisconnectDetails {
    reason: CloseReason,
    failure: Option<Arc<Error>>,
    exit_report: ExitReport,
    last_stderr: Option<StderrCause>,
}

/// Limits of an error message: the number of stderr lines, and the characters of each line.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARS: usize = 200;

/// The last lines of a child process on stderr, as the cause of the end of its connection. They may contain
/// secrets, so the log leaves them out.
#[derive(Clone)]
pub(super) struct StderrCause {
    lines: Vec<String>,
    failure: Option<Arc<Error>>,
}

impl fmt::Display for StderrCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("last lines on stderr:")?;
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
    /// This side closed the connection: a handle was closed or dropped, a
    /// [shutdown method](crate::Router::shutdown_method) arrived, or the process was asked to exit.
    Closed,
    /// The remote closed the connection: its output ended.
    RemoteClosed,
    /// Reading failed.
    ReadFailed,
    /// Writing failed.
    WriteFailed,
    /// Connecting failed, and the [`Client`](crate::Client) gave up.
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

    /// Adds the exit report of the child process, if there was one.
    pub(crate) fn with_exit_report(&self, exit_report: ExitReport) -> Self {
        let ExitReport { exit, last_stderr, stopped } = &exit_report;
        if exit.is_none() && last_stderr.is_empty() && stopped.is_empty() {
            return self.clone();
        }
        let (lines, failure) = (exit_report.last_stderr.clone(), self.0.failure.clone());
        let last_stderr = (!lines.is_empty()).then_some(StderrCause { lines, failure });
        Disconnect(Arc::new(DisconnectDetails {
            exit_report,
            last_stderr,
            ..DisconnectDetails::clone(&self.0)
        }))
    }

    /// The end of a connection whose driver was dropped.
    pub(crate) fn dropped() -> Self {
        Disconnect::new(CloseReason::Closed, None)
    }

    /// The side that ended the connection, and the reason.
    pub fn reason(&self) -> CloseReason {
        self.0.reason
    }

    /// The error that ended the connection, if an error ended it.
    pub fn failure(&self) -> Option<&Error> {
        self.0.failure.as_deref()
    }

    /// The exit status of a child process, and its last lines on stderr. Empty for other transports.
    pub fn exit_report(&self) -> &ExitReport {
        &self.0.exit_report
    }

    /// The error of every operation after the end.
    pub(crate) fn to_error(&self) -> Error {
        Error::new(ErrorKind::Disconnected).caused_by(self.clone())
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.reason {
            CloseReason::Closed => "closed locally",
            CloseReason::RemoteClosed => "closed by the remote",
            CloseReason::ReadFailed => "reading from the remote failed",
            CloseReason::WriteFailed => "writing to the remote failed",
            CloseReason::ConnectFailed => "connecting to the remote failed",
        })?;
        if let Some(exit) = self.0.exit_report.exit {
            write!(f, "; the child process ended with {exit}")?;
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
