//! Error responses with `id: null`: the remote could not tell which of our messages it refuses (M5).
//!
//! | the remote says | what happens |
//! |---|---|
//! | `oversize` | the largest message that we have sent is too large, whichever was meant; if it is a pending call, the call fails. At the next such error it is the next largest |
//! | anything else | calls go on, because any message may be meant; a call that was pending then and times out has the error as its cause |
//!
//! The same holds for an [answer that cannot be used](UnusableAnswer), such as one that is too large.

use duet_rpc_proto::message::{Id, Reason, ReceivedError};
use serde::Deserialize;

use super::core::Core;
use super::records;
use super::unusable::UnusableAnswer;
use crate::error::{Error, ErrorKind, RemoteError, UncorrelatedError};

/// What is kept to tell which call such an error may be about.
#[derive(Default)]
pub(super) struct Uncorrelated {
    /// The latest of these errors, and how many calls had begun when it came.
    latest: Option<Box<(RemoteError, u64)>>,
    /// The latest answer that could not be used, and how many calls had begun when it came.
    pub(super) unusable: Option<(UnusableAnswer, u64)>,
}

impl Core {
    #[cold]
    pub(super) fn handle_uncorrelated(&mut self, error: ReceivedError<'_>) {
        let error = RemoteError::new(error);
        if says_oversize(&error)
            && let Some(id) = self.outbox.take_largest()
            && let Some(caller) = self.session.fail(&id)
        {
            let error = Error::new(ErrorKind::Remote).caused_by(error.clone());
            records::call_failed(&id, &error);
            // The caller may have given up already.
            let _ = caller.send(Err(error));
        }
        let begun = self.session.calls_begun();
        // It can be there already; the first one stays.
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
