//! Notices: events of a session that the log must show, and their severity.

use std::fmt;

use crate::message::InvalidResponseReason;

/// Severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The remote made a mistake.
    Warn,
    /// Something failed on our side, or failed where only the log shows it.
    Error,
}

/// An event that gets no answer, or no full answer, so that only the log shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A notification for an unknown method.
    UnknownNotification,
    /// A notification that was dropped: too many messages waited, and reading had to go on because
    /// a response that we need could be among the unread bytes.
    NotificationDropped,
    /// A cancellation that names no request.
    BadCancellation,
    /// A response that matches no pending call: it is late, a duplicate, or has an unknown id.
    UnmatchedResponse,
    /// An invalid response.
    InvalidResponse(InvalidResponseReason),
    /// This many bad messages got no answer since the last such notice.
    Muted(u64),
}

impl Notice {
    /// The severity of this notice.
    pub fn severity(&self) -> Severity {
        match self {
            Notice::NotificationDropped => Severity::Error,
            Notice::UnknownNotification
            | Notice::BadCancellation
            | Notice::UnmatchedResponse
            | Notice::InvalidResponse(_)
            | Notice::Muted(_) => Severity::Warn,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::UnknownNotification => f.write_str("a notification for an unknown method"),
            Notice::NotificationDropped => f.write_str("a notification was dropped: too many wait"),
            Notice::BadCancellation => f.write_str("a cancellation names no request"),
            Notice::UnmatchedResponse => f.write_str("a response answers no pending call"),
            Notice::InvalidResponse(why) => why.fmt(f),
            Notice::Muted(count) => {
                write!(f, "{count} more bad messages in a row, not answered")
            }
        }
    }
}
