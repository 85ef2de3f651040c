//! Call: sent when it is first polled, cancelled when it is dropped (P2, P3).

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::{CallOptions, Progress};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::connection::{Caller, Command, Settlement};
use crate::error::{Error, ErrorKind, WrongResult};
use crate::net::Client;
use crate::params;
use crate::peer::Peer;

/// A pending call, made by [`Peer::call`] or [`Client::call`]. Await it for the answer; drop it to cancel it.
///
/// It is sent when it is first polled. The rules: [P2](crate::proto::specification#p2), [P3](crate::proto::specification#p3).
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T> {
    /// `None` if a client had no connection to make it on.
    peer: Option<Peer>,
    /// The client that reconnects, if there is one.
    client: Option<Client>,
    id: Id,
    options: CallOptions,
    step: CallStep,
    result: PhantomData<fn() -> T>,
}

enum CallStep {
    /// Not sent yet.
    New(Result<Vec<u8>, Error>),
    Sent(oneshot::Receiver<Settlement>),
    Over,
}

impl<T> Call<T> {
    pub(crate) fn new(peer: Peer, id: Id, message: Result<Vec<u8>, Error>) -> Self {
        let options = CallOptions { timeout: peer.shared().profile.call_timeout, progress: None };
        let (peer, client, step) = (Some(peer), None, CallStep::New(message));
        Call { peer, client, id, options, step, result: PhantomData }
    }

    /// A call that fails because the client has no connection.
    pub(crate) fn refused(client: Option<Client>, error: Error) -> Self {
        let options = CallOptions { timeout: None, progress: None };
        let (peer, step) = (None, CallStep::New(Err(error)));
        Call { peer, client, id: Id::NULL, options, step, result: PhantomData }
    }

    /// The same call, on a connection of this client.
    pub(crate) fn with_client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Waits this long for the answer, instead of the profile's timeout. After that, the call fails, and the
    /// remote gets a cancellation.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Waits for the answer as long as it takes.
    pub fn no_timeout(mut self) -> Self {
        self.options.timeout = None;
        self
    }

    /// Restarts the timeout with each progress notification for this token, up to a total. Ask the remote
    /// in the params to use this token.
    pub fn restart_on_progress(mut self, token: impl Into<Id>, total: Duration) -> Self {
        self.options.progress = Some(Progress { token: token.into(), total });
        self
    }

    /// The id of the call on the wire; null if there is no connection.
    pub fn id(&self) -> &Id {
        &self.id
    }

    fn send(&self, message: Vec<u8>) -> Result<CallStep, Error> {
        let Some(peer) = &self.peer else { return Err(self.closed_error()) };
        let (caller, answer) = Caller::new();
        let shared = peer.shared();
        shared.check_two_way()?;
        let called = shared.mailbox.call(self.id.clone(), message, caller, self.options.clone());
        if let Some(driver) = called.map_err(|kind| shared.rejection(kind))? {
            shared.wake_to_send(driver);
        }
        Ok(CallStep::Sent(answer))
    }

    /// Ready with the raw result, or the error.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Settlement> {
        loop {
            let next = match &mut self.step {
                CallStep::Sent(answer) => {
                    let answer = ready!(Pin::new(answer).poll(cx));
                    self.step = CallStep::Over;
                    // The driver is gone.
                    return Poll::Ready(answer.unwrap_or_else(|_| Err(self.closed_error())));
                }
                CallStep::New(_) => match std::mem::replace(&mut self.step, CallStep::Over) {
                    CallStep::New(Ok(message)) => self.send(message),
                    CallStep::New(Err(error)) => Err(error),
                    _ => return Poll::Pending,
                },
                // The caller polled the call again after it was ready. That is a mistake, but not a reason to
                // panic.
                CallStep::Over => return Poll::Pending,
            };
            match next {
                Ok(step) => self.step = step,
                Err(error) => return Poll::Ready(Err(error.unsent())),
            }
        }
    }

    fn closed_error(&self) -> Error {
        match &self.peer {
            Some(peer) => peer.shared().closed_error(),
            None => Error::new(ErrorKind::Disconnected),
        }
    }
}

impl<T: DeserializeOwned> Future for Call<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let settled = ready!(this.poll_settled(cx)).map_err(|error| match &this.client {
            Some(client) => client.to_client_error(error),
            None => error,
        });
        let read = settled.and_then(|result| read(&result));
        Poll::Ready(read.map_err(|error| match this.id.is_null() {
            true => error,
            false => error.of_request(this.id.clone()),
        }))
    }
}

fn read<T: DeserializeOwned>(result: &str) -> Result<T, Error> {
    serde_json::from_str(result).map_err(|_| {
        let wrong = WrongResult(params::explain_result::<T>(result));
        Error::new(ErrorKind::Protocol).caused_by(wrong)
    })
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let CallStep::Sent(answer) = &mut self.step {
            // A call that is answered needs no cancellation.
            answer.close();
            if answer.try_recv().is_err()
                && let Some(peer) = &self.peer
            {
                peer.shared().mailbox.post(Command::Cancel(self.id.clone()));
            }
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("id", &self.id).finish_non_exhaustive()
    }
}
