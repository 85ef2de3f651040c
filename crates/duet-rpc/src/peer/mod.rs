//! Peer: the handle of one connection.

mod builder;
mod peers;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use duet_rpc_proto::message::{write_notification, write_request};
use duet_rpc_proto::session::Key;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

pub use self::builder::PeerBuilder;
pub use self::peers::{Broadcast, Peers};
pub(crate) use self::peers::{Registration, Registry};
use crate::call::Call;
use crate::connection::{Command, EventStream, Shared, Subscription, UnusableAnswer};
use crate::error::{ConnectionState, Disconnect};
use crate::error::{Error, ErrorKind, RemoteError};
use crate::panic_guard;
use crate::remote::{Identity, Remote};
use crate::transport::Transport;

/// One end of a connection: it serves methods and calls the methods of the remote, at the same time.
///
/// Cloning is cheap. Dropping the last clone closes the connection gracefully. The specification has
/// [the rules](crate::proto::specification#7-library-the-peer).
///
/// ```
/// use duet_rpc::{Error, Peer, Profile, Router, transport::memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
/// let (here, there) = memory::pair();
/// let server = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
/// let client = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
/// let sum: i64 = client.call("add", (1, 2)).await?;
/// assert_eq!(sum, 3);
/// client.close().await;
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the connection is closed when the last handle is dropped"]
pub struct Peer {
    handle: Arc<Handle>,
}

/// Closes the connection when the last clone of the peer is dropped.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.has_ended.load(Ordering::Relaxed) {
            self.0.mailbox.post(Command::Close(None));
        }
    }
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of calls that wait for an answer.
    pub pending_calls: usize,
    /// Number of handlers that run and were not ready immediately.
    pub running: usize,
    /// Number of messages that wait for their turn.
    pub waiting: usize,
    /// Number of answers that arrived too late or match no call.
    pub unmatched_answers: usize,
    /// Number of received messages. The entries of a batch count one by one.
    pub messages: u64,
    /// Number of faults in the input: byte sequences that contain no message, and invalid messages.
    pub faults: u64,
    /// Number of received bytes.
    pub bytes_received: u64,
    /// Number of sent bytes.
    pub bytes_sent: u64,
}

impl Peer {
    /// Returns a builder for a peer on this transport; finish it with [`spawn`](PeerBuilder::spawn).
    pub fn builder(transport: impl Transport) -> PeerBuilder {
        PeerBuilder::boxed(Box::new(transport))
    }

    pub(crate) fn from_handle(handle: Arc<Handle>) -> Self {
        Peer { handle }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// Calls a method of the remote. Params are any value that serde writes as an array or an object. `()` and
    /// `None` send no params.
    ///
    /// The first poll sends the call. The call fails after the profile's
    /// [`call_timeout`](crate::Profile::call_timeout). Dropping it cancels it.
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> Call<T> {
        let id = self.shared().ids.next();
        let message = panic_guard::catch(|| {
            let params = to_params(&params)?;
            let mut message = Vec::new();
            let written = write_request(&mut message, &id, method, params.as_deref());
            written.map(|()| message).map_err(cannot_send)
        });
        Call::new(self.clone(), id, message.unwrap_or_else(Err))
    }

    /// Sends a notification. While the send queue is full, it waits, at most as long as a call would. When it
    /// returns, the notification is queued behind all earlier messages, but not necessarily on the wire.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let sent = async {
            match self.shared().notify(notification(method, &params)?)? {
                None => Ok(()),
                Some(waits) => waits.wait().await,
            }
        };
        sent.await.map_err(Error::unsent)
    }

    /// Opens a stream of events to the remote. Sending an event never waits: an event that does not fit into the
    /// queue is dropped and counted.
    pub fn events(&self, method: &str, topic: &str) -> EventStream {
        EventStream::new(Arc::clone(self.shared()), method, topic)
    }

    /// Subscribes to the notifications of a method. The subscription returns them one by one, so the method needs
    /// no handler. It does not return earlier notifications.
    ///
    /// If the router also serves the method, its handler runs for each notification as well. Each of several
    /// subscriptions to a method gets every notification. Requests go only to handlers. A notification that a
    /// [guard](crate::Router::guard) refuses is not delivered.
    ///
    /// A [service](mod@crate::service) trait gives notifications names and types: implement it, and serve it
    /// with `into_router`. The sender uses its typed client, so neither side repeats a method name or the
    /// type of params. Subscribe if the code that needs the notifications is in the middle of other work.
    ///
    /// The connection handles cancellations and progress itself, and does not deliver them to subscriptions.
    ///
    /// Handlers of an HTTP server cannot subscribe: a request is one message, and nothing follows it.
    /// The subscription ends with an error of the kind [`OneWay`](ErrorKind::OneWay).
    pub fn subscribe<T>(&self, method: &str) -> Subscription<T> {
        Subscription::new(Arc::clone(self.shared()), method)
    }

    /// The value of this type that belongs to the connection. The first access makes it, and the end of the
    /// connection drops it. There is one value of each type. Handlers keep data about one connection here.
    ///
    /// HTTP is stateless: each request or batch is a connection of its own, and its answer drops the value. So a
    /// login does not last over HTTP: each request must authenticate itself.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use duet_rpc::{Context, Router};
    ///
    /// #[derive(Default)]
    /// struct Visits(AtomicU64);
    ///
    /// let router = Router::new().method("visit", async |cx: Context| {
    ///     let visits = cx.peer().extension::<Visits>();
    ///     visits.0.fetch_add(1, Ordering::Relaxed) + 1
    /// });
    /// ```
    pub fn extension<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.shared().extensions.get()
    }

    /// The open connections of the server to which this connection belongs. A connection is among them from the
    /// return of `on_connect` until its end. For a peer without a server, it is that one connection. See [`Peers`].
    pub fn peers(&self) -> Peers {
        match &self.shared().registry {
            Some(registry) => Peers::from_registry(registry),
            None => Peers::one(self.clone()),
        }
    }

    /// The address from which the remote connected. Connections that a [`Hub`](crate::Hub) or a server accepted
    /// over TCP, WebSocket or HTTP have one, and so do peers with a [`PeerBuilder::remote`]. Behind a proxy it is
    /// the address of the proxy.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote().addr()
    }

    /// The authenticated identity of the remote: the name of its token over WebSocket and HTTP, or its user over
    /// a Unix socket. `None` over TCP, over stdio, and with a token that has no name.
    ///
    /// ```
    /// use duet_rpc::{Context, Failure, Identity, Router};
    ///
    /// let router = Router::new().method("delete", async |(name,): (String,), cx: Context| {
    ///     match cx.identity() {
    ///         Some(Identity::Token { name: user }) if user == "admin" => Ok(name),
    ///         _ => Err(Failure::new(403, "only admin may delete")),
    ///     }
    /// });
    /// ```
    pub fn identity(&self) -> Option<&Identity> {
        self.remote().identity()
    }

    /// The remote: its address, its identity, and over HTTP and WebSocket its headers.
    pub fn remote(&self) -> &Remote {
        &self.shared().remote
    }

    /// Closes the connection gracefully: running handlers finish, and queued messages and events are sent, all
    /// within the profile's [`drain_timeout`](crate::Profile::drain_timeout). Closing begins
    /// immediately, even if the returned future is dropped; the future waits for the end.
    pub fn close(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        self.begin_close(None);
        closed(self.shared().state.subscribe())
    }

    pub(crate) fn begin_close(&self, asked_by: Option<Key>) {
        if let Some(on_close) = self.shared().on_close.get() {
            on_close(asked_by);
        }
        self.shared().mailbox.post(Command::Close(asked_by));
    }

    /// Waits until either side has closed the connection, and returns the reason.
    pub fn closed(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        closed(self.shared().state.subscribe())
    }

    /// Waits for the first error response with `id: null`, and returns it. The remote sends one if it could not
    /// read a message, and so cannot tell which message it was. A call with that message never gets an answer.
    ///
    /// If the error says `oversize`, the library assumes that the remote refused the largest message that was
    /// sent and not refused before. If that message is a pending call, the call fails with the error. Other
    /// calls continue. If one of them times out, this error is the cause of its timeout error.
    pub async fn next_uncorrelated_error(&self) -> RemoteError {
        self.shared().uncorrelated_error.wait().await.clone()
    }

    /// Waits for the first unusable answer, and returns its fault: the answer is malformed, or over the
    /// message limit. The call for which it was meant continues to wait until its timeout.
    pub async fn unusable_answer(&self) -> UnusableAnswer {
        *self.shared().unusable.wait().await
    }

    /// The state of the connection.
    pub fn state(&self) -> ConnectionState {
        self.shared().state.get()
    }

    /// The state of the connection, as a channel to wait on.
    pub fn watch(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// The counters of the connection.
    pub fn stats(&self) -> Stats {
        let counts = &self.shared().counts;
        Stats {
            pending_calls: counts.pending_calls.load(Ordering::Relaxed),
            running: counts.running.load(Ordering::Relaxed),
            waiting: counts.waiting.load(Ordering::Relaxed),
            unmatched_answers: counts.unmatched.load(Ordering::Relaxed),
            messages: counts.messages.load(Ordering::Relaxed),
            faults: counts.faults.load(Ordering::Relaxed),
            bytes_received: counts.bytes_received.load(Ordering::Relaxed),
            bytes_sent: counts.bytes_sent.load(Ordering::Relaxed),
        }
    }
}

async fn closed(mut state: watch::Receiver<ConnectionState>) -> Disconnect {
    loop {
        if let ConnectionState::Disconnected(disconnect) = &*state.borrow_and_update() {
            return disconnect.clone();
        }
        if state.changed().await.is_err() {
            // The driver was dropped with its runtime before it could publish the end.
            return Disconnect::dropped();
        }
    }
}

/// Writes a notification as JSON.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Result<Vec<u8>, Error> {
    let message = panic_guard::catch(|| {
        let params = to_params(params)?;
        let mut message = Vec::new();
        let written = write_notification(&mut message, method, params.as_deref());
        written.map(|()| message).map_err(cannot_send)
    });
    message.unwrap_or_else(Err)
}

/// Params as JSON; `None` for null.
fn to_params(params: &impl Serialize) -> Result<Option<Box<RawValue>>, Error> {
    let params = serde_json::value::to_raw_value(params).map_err(cannot_send)?;
    match params.get().as_bytes().first() {
        Some(b'{' | b'[') => Ok(Some(params)),
        Some(b'n') => Ok(None),
        _ => {
            let error = Error::new(ErrorKind::Params);
            Err(error.caused_by(
                "params must be an array or an object, such as a tuple, a struct or a map",
            ))
        }
    }
}

fn cannot_send(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Params).caused_by(error)
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Peer");
        shown.field("state", &self.state()).field("stats", &self.stats()).finish()
    }
}
