//! Error responses with `id: null`: the remote could not tell which of our messages it refuses (M5).
//!
//! | the remote says | what happens |
//! |---|---|
//! | `oversize`, and the largest message that we have sent is a pending call | the call fails: whichever message was too large, the largest one is too |
//! | anything else | calls go on, because any message may be meant; a call that was pending then and times out has the error as its cause |

use duet_rpc_proto::message::{Id, Reason, ReceivedError};
use duet_rpc_proto::session::Outlet;
use serde::Deserialize;

use super::core::Core;
use super::records;
use crate::error::{Error, ErrorKind, RemoteError, UncorrelatedError};

/// What is kept to tell which call such an error may be about.
#[derive(Default)]
pub(super) struct Uncorrelated {
    /// The call whose message was the largest when it was sent, and how large.
    largest_call: Option<(usize, Id)>,
    /// The latest of these errors, and how many calls had begun when it came.
    latest: Option<Box<(RemoteError, u64)>>,
}

impl Core {
    /// Sends the message of a call.
    pub(super) fn push_call(&mut self, id: &Id, message: Vec<u8>) {
        let before = self.outbox.largest();
        self.outbox.send_text(message);
        let largest = self.outbox.largest();
        if largest > before {
            self.uncorrelated.largest_call = Some((largest, id.clone()));
        }
    }

    #[cold]
    pub(super) fn handle_uncorrelated(&mut self, error: ReceivedError<'_>) {
        let error = RemoteError::new(error);
        let largest = self.outbox.largest();
        let largest_call = &mut self.uncorrelated.largest_call;
        if says_oversize(&error)
            && let Some((_, id)) = largest_call.take_if(|(size, _)| *size == largest)
            && let Some(caller) = self.session.fail(&id)
        {
            let error = Error::new(ErrorKind::Remote).caused_by(error.clone());
            records::call_failed(&id, &error);
            // The caller may have given up already.
            let _ = caller.send(Err(error));
        }
        let begun = self.session.calls_begun();
        // It can be there already; the first one stays.
        let _ = self.shared.complaint.set(error.clone());
        self.uncorrelated.latest = Some(Box::new((error, begun)));
    }

    /// The error of a call that was not answered in time.
    pub(super) fn timed_out(&self, id: &Id) -> Error {
        let error = Error::new(ErrorKind::Timeout);
        match (&self.uncorrelated.latest, self.session.call_number(id)) {
            (Some(latest), Some(number)) if number <= latest.1 => {
                error.caused_by(UncorrelatedError(latest.0.clone()))
            }
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
