//! Caller: the receiver of the answer to a call of ours, and the observers of the call.
//!
//! A call can end in many places. Each of them ends its `Caller`, so only this file reports the end to
//! observers.

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind};
use crate::router::{CallWatch, End};

/// The raw result of a call, or the reason why there is none.
pub(crate) type Settlement = Result<String, Error>;

pub(crate) struct Caller {
    sender: oneshot::Sender<Settlement>,
    /// Set if the call is observed.
    pub(super) watch: Option<Box<CallWatch>>,
    /// `true` if the message of the call never left the send queue.
    is_unsent: bool,
}

impl Caller {
    /// Makes a caller, and the receiver for the outcome.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Settlement>) {
        let (sender, receiver) = oneshot::channel();
        (Caller { sender, watch: None, is_unsent: false }, receiver)
    }

    /// Marks the call as never sent: its message did not leave the send queue.
    pub(super) fn unsent(mut self) -> Self {
        self.is_unsent = true;
        self
    }

    /// Ends the call. The caller may have given up already.
    pub(super) fn settle(self, settlement: Settlement) {
        let settlement = match self.is_unsent {
            true => settlement.map_err(Error::unsent),
            false => settlement,
        };
        if let Some(watch) = self.watch {
            watch.end(match &settlement {
                Ok(_) => End::Result,
                Err(error) => end_of(error),
            });
        }
        let _ = self.sender.send(settlement);
    }

    /// Ends a call that its caller has dropped.
    pub(super) fn cancel(self) {
        if let Some(watch) = self.watch {
            watch.end(End::Cancelled);
        }
    }

    /// Ends a call that the connection did not accept.
    pub(super) fn refuse(self, error: Error) {
        if let Some(watch) = self.watch {
            watch.forget();
        }
        let _ = self.sender.send(Err(error.unsent()));
    }
}

fn end_of(error: &Error) -> End {
    match (error.kind(), error.remote()) {
        (ErrorKind::Remote, Some(error)) => End::Failure(error.code),
        (ErrorKind::Timeout, _) => End::Timeout,
        (ErrorKind::Disconnected | ErrorKind::Transport, _) => End::Dropped,
        _ => End::Unusable,
    }
}
