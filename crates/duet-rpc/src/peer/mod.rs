//! Peer: the handle of a connection.

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
pub(crate) use self::peers::Registry;
pub use self::peers::{Broadcast, Peers};
use crate::call::Call;
use crate::connection::{Command, EventStream, Shared, Subscription, UnusableAnswer};
use crate::error::{ConnectionState, Disconnect};
use crate::error::{Error, ErrorKind, RemoteError};
use crate::extensions::Extensions;
use crate::panic_guard;
use crate::remote::Identity;
use crate::transport::Transport;

/// One end of a connection: it serves methods and calls the other end's, at the same time.
///
/// It is cheap to clone. When the last clone is dropped, the connection is closed gracefully. The
/// specification has [the rules](crate::proto::specification#7-library-the-peer).
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
    /// The state of the request, if it has its own: over HTTP a connection has many users.
    exchange: Option<Arc<Exchange>>,
}

/// State of one exchange: it belongs to the request, and not to the connection.
pub(crate) struct Exchange {
    pub(crate) extensions: Extensions,
    sender: Option<Arc<Identity>>,
}

impl Exchange {
    pub(crate) fn new(sender: Option<Arc<Identity>>) -> Self {
        Exchange { extensions: Extensions::default(), sender }
    }
}

/// The last of these closes the connection.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.mailbox.post(Command::Close(None));
    }
}

/// Figures of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that wait for an answer.
    pub pending_calls: usize,
    /// Handlers that run and had to wait.
    pub running: usize,
    /// Messages that wait for their turn.
    pub waiting: usize,
    /// Answers that came too late, or to nothing that was asked.
    pub unmatched_answers: usize,
    /// Messages that were received, those of a batch one by one.
    pub messages: u64,
    /// Runs of bytes that held no message, and messages that were none.
    pub faults: u64,
    /// Bytes that were received.
    pub bytes_received: u64,
    /// Bytes that were sent.
    pub bytes_sent: u64,
}

impl Peer {
    /// Begins a peer on this transport: set what it needs, then [`spawn`](PeerBuilder::spawn) it.
    pub fn builder(transport: impl Transport) -> PeerBuilder {
        PeerBuilder::boxed(Box::new(transport))
    }

    /// The handle that the handler of a message gets.
    pub(crate) fn of_request(handle: Arc<Handle>, exchange: Option<Arc<Exchange>>) -> Self {
        Peer { handle, exchange }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// Calls a method of the remote. Params are anything that serde writes as an array or an
    /// object; `()` and `None` stand for none.
    ///
    /// The call is sent when it is first polled, fails after the profile's
    /// [`call_timeout`](crate::Profile::call_timeout), and is cancelled when it is dropped.
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

    /// Sends a notification. It waits while too much is on its way already, at most as long as a
    /// call would; when it returns, the notification is in order behind all that was sent before,
    /// and not necessarily on the wire.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        match self.shared().notify(notification(method, &params)?)? {
            None => Ok(()),
            Some(waits) => waits.wait().await,
        }
    }

    /// A stream of events to the remote that never waits: what does not fit is dropped, and
    /// counted.
    pub fn events(&self, method: &str, topic: &str) -> EventStream {
        EventStream::new(Arc::clone(self.shared()), method, topic)
    }

    /// Subscribes to the notifications of a method, to await them one by one instead of serving them with a
    /// handler: a client that has asked a server for news, for example. Those that came before are not seen.
    ///
    /// The router need not know the method. If it does, its handler runs for each notification as well. A
    /// notification that a [guard](crate::Router::guard) refuses is not delivered.
    /// Several subscriptions to a method get each notification each. Requests are for handlers alone.
    ///
    /// Cancellations and progress that the connection itself understands are not delivered.
    ///
    /// Handlers of an HTTP server cannot subscribe: the next notification on the connection may come from another
    /// user. The subscription ends with an error of the kind [`OneWay`](ErrorKind::OneWay).
    pub fn subscribe<T>(&self, method: &str) -> Subscription<T> {
        Subscription::new(Arc::clone(self.shared()), method)
    }

    /// A value that belongs to the connection, one of each type: made when it is first asked for,
    /// and let go when the connection ends. Handlers of one router that serves many connections keep
    /// here what they know of each.
    ///
    /// HTTP is stateless: its connections are pooled by clients and proxies, so that requests of different
    /// users come on one connection. There the value belongs to the request, or to the batch, whose
    /// [`Context`](crate::Context) this handle came from, and is let go when that is answered. A login
    /// cannot be kept this way over HTTP: each request has to show who it is from.
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
        let exchange = self.exchange.as_deref().map(|exchange| &exchange.extensions);
        exchange.unwrap_or(&self.shared().extensions).get()
    }

    /// The connections of the server that this connection belongs to, itself among them from when its
    /// `on_connect` has returned until it ends. For a peer on its own, it is that one connection. See [`Peers`].
    pub fn peers(&self) -> Peers {
        match &self.shared().registry {
            Some(registry) => Peers::of(registry),
            None => Peers::one(self.clone()),
        }
    }

    /// The address that the remote connected from: of a connection that a [`Hub`](crate::Hub) or a server
    /// accepted over TCP, WebSocket or HTTP, or that was told with [`PeerBuilder::remote`]. Behind a proxy
    /// that is the address of the proxy.
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.shared().remote.addr()
    }

    /// The identity that the remote has proved: the name of its token over WebSocket and HTTP, or its user
    /// over a Unix socket. `None` if it did not have to prove any: over TCP, over stdio, and with a token
    /// that has no name.
    ///
    /// Over HTTP requests of different users come on one connection, so the identity belongs to the request:
    /// ask the handle of its [`Context`](crate::Context). Any other handle knows of none.
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
        let sender = self.exchange.as_deref().and_then(|exchange| exchange.sender.as_deref());
        sender.or(self.shared().remote.identity())
    }

    /// Closes the connection gracefully: running handlers finish, and messages and events that wait
    /// are sent, all within the profile's [`drain_timeout`](crate::Profile::drain_timeout). Closing begins
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

    /// Waits until the connection is closed, by whomever, and says why.
    pub fn closed(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        closed(self.shared().state.subscribe())
    }

    /// Waits for an error response with `id: null`, and returns the first: the remote could not read a
    /// message of ours, and so cannot say which. A call whose message it was is never answered. If the
    /// error says `oversize`, the largest message that was sent, and not refused before, is too large: if that is a
    /// pending call, the call fails with the error. Any other call goes on, and if it times out, its error has this
    /// one as its cause.
    pub async fn next_uncorrelated_error(&self) -> RemoteError {
        self.shared().uncorrelated_error.wait().await.clone()
    }

    /// Waits for an answer that cannot be used, and returns what is wrong with the first: it is
    /// malformed, or over the message limit. The call that it was meant for waits on, until its timeout.
    pub async fn unusable_answer(&self) -> UnusableAnswer {
        *self.shared().unusable.wait().await
    }

    /// The state of the connection.
    pub fn state(&self) -> ConnectionState {
        self.shared().state.borrow().clone()
    }

    /// The state of the connection, as a channel to wait on.
    pub fn watch(&self) -> watch::Receiver<ConnectionState> {
        self.shared().state.subscribe()
    }

    /// Figures of the connection: calls and requests that are pending.
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
            // The driver was dropped before it could end: its runtime is gone.
            return Disconnect::dropped();
        }
    }
}

/// A notification as it is sent.
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
            Err(error.caused_by("params are an array or an object: a tuple, a struct, a map"))
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
