//! Oddities worth a line in the log, and how loud that line is.

use std::fmt;

use crate::message::InvalidResponseReason;

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The remote did something wrong, and was told or cannot be.
    Warn,
    /// Something failed on our side, or failed where nothing else will show it.
    Error,
}

/// Something that gets no answer, or no full one, and so must show in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A notification for a method that nobody serves.
    UnknownNotification,
    /// A notification that came when too many waited already, while an answer that we needed stood
    /// behind it.
    NotificationDropped,
    /// A cancellation that does not say of what.
    BadCancellation,
    /// A response that answers no call of ours: late, a second one, or for a stranger.
    UnmatchedResponse,
    /// A response that cannot be used.
    InvalidResponse(InvalidResponseReason),
    /// This many bad messages went unanswered since the last such notice.
    Muted(u64),
}

impl Notice {
    /// How loud it is.
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
            Notice::BadCancellation => f.write_str("a cancellation does not say of what"),
            Notice::UnmatchedResponse => f.write_str("a response answers no pending call"),
            Notice::InvalidResponse(why) => why.fmt(f),
            Notice::Muted(count) => {
                write!(f, "{count} more bad messages in a row, not answered")
            }
        }
    }
}
