//! Uncorrelated errors: responses with `id: null`, and answers that cannot be used (M5, M7).
//!
//! | the error of the remote | result |
//! |---|---|
//! | `oversize` | the largest message that we have sent counts as refused; if it is a pending call, the call fails. The next such error refers to the next largest message |
//! | any other | calls continue, because the error may refer to any message; if a call that was pending at that time times out, the error is its cause |
//!
//! An [`UnusableAnswer`], such as an answer that is too large, does not end its call either.

use std::fmt;

use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message::{Id, Incoming, InvalidResponseReason, Reason, ReceivedError};
use duet_rpc_proto::text::{Member, Text};
use serde::Deserialize;

use super::shared::add;
use super::{Connection, log};
use crate::error::{Error, ErrorKind, RemoteError, UncorrelatedError};

/// The reason why an answer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnusableAnswer {
    /// It is a malformed response.
    Malformed(InvalidResponseReason),
    /// It has the id of a pending call, and neither a result nor an error.
    Empty,
    /// A message over this limit, in bytes, was skipped. It may have been any message.
    Oversize(usize),
    /// Bytes that are not a message arrived. They may be an answer in another framing, or printed text.
    NotAMessage,
}

impl fmt::Display for UnusableAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableAnswer::Malformed(why) => why.fmt(f),
            UnusableAnswer::Empty => f.write_str("a response has neither a result nor an error"),
            UnusableAnswer::Oversize(limit) => {
                write!(f, "a message is over the limit of {limit} bytes")
            }
            UnusableAnswer::NotAMessage => f.write_str(
                "bytes that are not a message arrived; check that both sides use the same framing, and that the \
                 remote prints nothing else",
            ),
        }
    }
}

impl std::error::Error for UnusableAnswer {}

/// The latest error and the latest unusable answer, to find the calls that they may refer to.
#[derive(Default)]
pub(super) struct Uncorrelated {
    /// The latest error, and the number of calls that had begun when it arrived.
    latest: Option<Box<(RemoteError, u64)>>,
    /// The latest unusable answer, and the number of calls that had begun when it arrived.
    unusable: Option<(UnusableAnswer, u64)>,
}

impl Connection {
    /// Notes a message that may answer one of our calls, but does not name the call.
    pub(super) fn note_uncorrelated(&mut self, message: &Incoming<'_>, text: &Text<'_>) {
        match message {
            Incoming::Invalid(_) | Incoming::InvalidResponse(_) => {
                add(&self.shared.counts.faults, 1);
                self.note_unusable(message, text);
            }
            Incoming::Response(response) if response.id.is_null() => {
                if let Some(error) = response.settled.error() {
                    self.handle_uncorrelated(error);
                }
            }
            _ => {}
        }
    }

    /// Notes a bad message. A message with a method is a request of the remote, and not an answer.
    #[cold]
    fn note_unusable(&mut self, message: &Incoming<'_>, text: &Text<'_>) {
        let pending = self.session.pending_calls();
        let what = match message {
            Incoming::InvalidResponse(response) => match &response.id {
                Some(id) if self.session.is_pending(id) => UnusableAnswer::Malformed(response.why),
                // Without an id it may answer any pending call.
                None if pending > 0 => UnusableAnswer::Malformed(response.why),
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

    /// Notes bytes that held no message.
    #[cold]
    pub(super) fn note_unusable_bytes(&mut self, fault: &Fault<'_>) {
        if self.session.pending_calls() == 0 {
            return;
        }
        match fault.kind {
            FaultKind::Oversize => {
                let limit = self.shared.profile.limits.message_bytes;
                self.keep_unusable(UnusableAnswer::Oversize(limit));
            }
            // Often only printed text, so nobody is told before a call times out.
            FaultKind::Malformed(_) | FaultKind::NotJson(_) => {
                let begun = self.session.calls_begun();
                self.uncorrelated.unusable.get_or_insert((UnusableAnswer::NotAMessage, begun)).1 =
                    begun;
            }
            _ => {}
        }
    }

    fn keep_unusable(&mut self, what: UnusableAnswer) {
        // The application can wait for the first error.
        let _ = self.shared.unusable.set(what);
        self.uncorrelated.unusable = Some((what, self.session.calls_begun()));
    }

    #[cold]
    fn handle_uncorrelated(&mut self, error: ReceivedError<'_>) {
        let error = RemoteError::new(error);
        if says_oversize(&error)
            && let Some(id) = self.outbox.take_largest()
            && let Some(caller) = self.session.fail(&id)
        {
            let error = Error::new(ErrorKind::Remote).caused_by(error.clone());
            log::call_failed(&id, &error);
            caller.settle(Err(error));
        }
        let begun = self.session.calls_begun();
        // Keeps the first one.
        let _ = self.shared.uncorrelated_error.set(error.clone());
        self.uncorrelated.latest = Some(Box::new((error, begun)));
    }

    /// The error of a call that was not answered in time.
    pub(super) fn timed_out(&self, id: &Id) -> Error {
        let error = Error::new(ErrorKind::Timeout);
        let Some(number) = self.session.call_number(id) else { return error };
        match (&self.uncorrelated.latest, self.uncorrelated.unusable) {
            (Some(latest), _) if number <= latest.1 => {
                error.caused_by(UncorrelatedError(latest.0.clone()))
            }
            (_, Some((unusable, begun))) if number <= begun => error.caused_by(unusable),
            _ => error,
        }
    }
}

fn says_oversize(error: &RemoteError) -> bool {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        reason: &'a str,
    }
    let data =
        error.data.as_ref().and_then(|data| serde_json::from_str::<Data<'_>>(data.get()).ok());
    data.is_some_and(|data| data.reason == Reason::Oversize.name())
}
