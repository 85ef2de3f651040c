//! Answers that cannot be used. A call whose answer is one of these is not answered by it (M7), and
//! whoever waits for that call may want to know.

use std::fmt;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message::{Incoming, WhyStray};
use duet_rpc_proto::text::{Member, Text};

use super::core::Core;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnusableAnswer {
    /// It is a response, and malformed.
    Malformed(WhyStray),
    /// It has the id of a pending call, and neither a result nor an error.
    Empty,
    /// A message is longer than the limit, in bytes, and was skipped. It may have been any message.
    Oversize(usize),
}

impl fmt::Display for UnusableAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableAnswer::Malformed(why) => why.fmt(f),
            UnusableAnswer::Empty => f.write_str("a response has neither a result nor an error"),
            UnusableAnswer::Oversize(limit) => {
                write!(f, "a message is over the limit of {limit} bytes")
            }
        }
    }
}

impl std::error::Error for UnusableAnswer {}

impl Core {
    /// A message came that is bad. Ids of the remote's own requests do not count, so one that names a
    /// method is none of ours.
    #[cold]
    pub(super) fn note_unusable(&mut self, message: &Incoming<'_>, text: &Text<'_>) {
        let pending = self.session.pending_calls();
        let what = match message {
            Incoming::Stray(stray) => match &stray.id {
                Some(id) if self.session.is_pending(id) => UnusableAnswer::Malformed(stray.why),
                // Without an id it can be the answer to any of them.
                None if pending > 0 => UnusableAnswer::Malformed(stray.why),
                _ => return,
            },
            Incoming::Invalid(reply)
                if text.member(Member::Method).is_none() && self.session.is_pending(&reply.id) =>
            {
                UnusableAnswer::Empty
            }
            _ => return,
        };
        self.keep_unusable(what);
    }

    /// Bytes came that hold no message.
    #[cold]
    pub(super) fn note_unusable_bytes(&mut self, fault: &Fault<'_>) {
        if fault.kind == FaultKind::Oversize && self.session.pending_calls() > 0 {
            let limit = self.shared.profile.limits.message_bytes;
            self.keep_unusable(UnusableAnswer::Oversize(limit));
        }
    }

    fn keep_unusable(&mut self, what: UnusableAnswer) {
        // Of those that the application can ask for, the first one stays.
        let _ = self.shared.unusable.set(what);
        self.uncorrelated.unusable = Some((what, self.session.calls_begun()));
    }
}
