//! Client: a handle that reconnects when its connection breaks (P6).
//!
//! | file | contents |
//! |---|---|
//! | `mod` | the handle: calls, states, closing |
//! | `builder` | settings and construction |
//! | `connect` | connectors: closures and addresses |
//! | `reconnect` | the task that connects, waits and reconnects |
//! | `state` | the state that the handles share with the task |
//! | `backoff` | the delay between two attempts |

mod backoff;
mod builder;
mod connect;
mod reconnect;
mod state;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

pub use self::backoff::Backoff;
pub use self::builder::ClientBuilder;
pub use self::connect::Connect;
use self::state::SharedState;
use crate::call::Call;
use crate::connection::Subscription;
use crate::error::Disconnect;
use crate::error::Error;
use crate::peer::Peer;

/// A client that reconnects when its connection breaks.
///
/// Calls go over the current connection. When it breaks, pending calls fail immediately with
/// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted), which is recoverable. Calls made before the next
/// connection is ready fail in the same way. The client never queues a call for later and never sends a call twice,
/// because only the application knows which calls may be repeated. The application can wait for
/// [`connected`](Client::connected) and then retry. [`Error::was_sent`] is `false` for calls that were never sent and
/// can always be repeated.
///
/// Cloning is cheap. Dropping the last clone closes the client.
///
/// ```
/// use duet_rpc::{Client, Error, ErrorKind, Peer, Profile, Router, transport::memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// // This connector starts a new server for each connection. Most connectors open a socket.
/// let connector = || async {
///     let (here, there) = memory::pair();
///     let router = Router::new()
///         .method("add", async |(a, b): (i64, i64)| a + b)
///         .shutdown_method("crash", async || "goodbye");
///     let (server, driver) = Peer::builder(there).profile(Profile::agent()).router(router).build();
///     tokio::spawn(async move {
///         driver.await;
///         drop(server);
///     });
///     Ok(here)
/// };
/// let client = Client::builder(connector).profile(Profile::agent()).connect().await?;
/// assert_eq!(client.call::<i64>("add", (1, 2)).await?, 3);
///
/// client.call::<String>("crash", ()).await?;
/// let sum: i64 = loop {
///     match client.call("add", (3, 4)).await {
///         Err(error) if error.kind() == ErrorKind::Interrupted => client.connected().await?,
///         answer => break answer?,
///     };
/// };
/// assert_eq!(sum, 7);
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "the client is closed when the last handle is dropped"]
pub struct Client(Arc<ClientHandle>);

/// Closes the client when the last clone is dropped.
struct ClientHandle(Arc<SharedState>);

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The state of a [`Client`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientState {
    /// There is no connection. The client is connecting, or waits before the next attempt.
    Connecting {
        /// The number of the attempt. It starts at 1 after a connection that lasted long enough; see
        /// [`ClientBuilder::backoff`].
        attempt: u32,
        /// The end of the last connection or the failure of the last attempt, once it is known.
        cause: Option<Disconnect>,
    },
    /// The client is connected.
    Connected,
    /// The client has ended, for this reason.
    Disconnected(Disconnect),
}

impl ClientState {
    /// Returns `true` if the client is connected.
    pub fn is_connected(&self) -> bool {
        matches!(self, ClientState::Connected)
    }

    /// Returns `true` if the client has ended.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, ClientState::Disconnected(_))
    }
}

impl Client {
    /// Returns a builder; finish it with [`connect`](ClientBuilder::connect) or [`start`](ClientBuilder::start).
    ///
    /// The connector makes the transport of each connection: a [`Connector`](crate::transport::Connector), or a
    /// closure.
    ///
    /// ```no_run
    /// use duet_rpc::{Client, transport::Connector};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::builder(Connector::new("tcp://127.0.0.1:4000")?).connect().await?;
    /// let sum: i64 = client.call("add", (1, 2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(connector: impl Connect) -> ClientBuilder {
        ClientBuilder::new(Box::new(connector))
    }

    fn new(shared: Arc<SharedState>) -> Self {
        Client(Arc::new(ClientHandle(shared)))
    }

    fn shared(&self) -> &SharedState {
        &self.0.0
    }

    /// Calls a method of the remote over the current connection; see [`Peer::call`]. A pending call keeps the
    /// client open, even if all its handles are dropped.
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> Call<T> {
        match self.shared().peer() {
            Ok(peer) => peer.call(method, params).with_client(self.clone()),
            Err(error) => Call::refused(Some(self.clone()), error),
        }
    }

    /// Sends a notification over the current connection; see [`Peer::notify`]. The notification is lost if the
    /// connection breaks before it is sent.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let peer = self.shared().peer().map_err(Error::unsent)?;
        peer.notify(method, params).await.map_err(|error| self.to_client_error(error))
    }

    /// Subscribes to the notifications of a method, on the current connection and on all later connections; see
    /// [`Peer::subscribe`]. The subscription ends with the client, and does not keep the client open.
    ///
    /// If the server sends notifications only on request, repeat the request on each connection in
    /// [`on_connect`](ClientBuilder::on_connect). Notifications sent while there is no connection are lost. So when a
    /// connection replaces another, the subscription yields an error of the kind
    /// [`Interrupted`](crate::ErrorKind::Interrupted), and continues.
    ///
    /// For typed notifications, serve their trait instead: see [`Peer::subscribe`].
    ///
    /// ```
    /// use duet_rpc::{Client, Error, ErrorKind, Peer, transport::memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// // Each server sends one notification, and disconnects.
    /// let connector = || async {
    ///     let (here, there) = memory::pair();
    ///     let server = Peer::builder(there).spawn();
    ///     tokio::spawn(async move { server.notify("tick", [1]).await });
    ///     Ok(here)
    /// };
    /// let client = Client::builder(connector).start();
    /// let mut ticks = client.subscribe::<(u64,)>("tick");
    /// let (mut sum, mut gaps) = (0, 0);
    /// while sum < 3 {
    ///     match ticks.next().await.expect("the client goes on") {
    ///         Ok((tick,)) => sum += tick,
    ///         // A new connection: the place to ask the server for what was missed.
    ///         Err(error) if error.kind() == ErrorKind::Interrupted => gaps += 1,
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// assert_eq!(gaps, 2);
    /// # client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe<T>(&self, method: &str) -> Subscription<T> {
        Subscription::of_client(Arc::clone(&self.shared().subscriptions), method)
    }

    /// The current connection, if there is one. This handle does not reconnect: when its connection breaks, its
    /// errors are final.
    pub fn peer(&self) -> Option<Peer> {
        self.shared().peer().ok()
    }

    /// Waits until the client is connected. Fails if the client has ended.
    pub async fn connected(&self) -> Result<(), Error> {
        let mut state = self.watch();
        loop {
            // A later change wakes the wait below.
            state.mark_unchanged();
            match self.shared().peer() {
                Ok(_) => return Ok(()),
                Err(error) if !error.is_recoverable() => return Err(error),
                Err(_) => {}
            }
            // Cannot fail: this handle keeps the sender alive.
            let _ = state.changed().await;
        }
    }

    /// Makes the current connection the last: when it ends, the client ends. Call this before you ask a server to
    /// exit, as an editor does with `shutdown` and `exit`. Without a connection the client ends immediately.
    ///
    /// ```
    /// use duet_rpc::{Client, Disconnect, Error};
    ///
    /// async fn quit(client: &Client) -> Result<Disconnect, Error> {
    ///     client.stop_reconnecting();
    ///     client.call::<()>("shutdown", ()).await?;
    ///     client.notify("exit", ()).await?;
    ///     Ok(client.closed().await) // closed by the remote; the child process ended with exit status: 0
    /// }
    /// ```
    pub fn stop_reconnecting(&self) {
        self.shared().stop_reconnecting();
    }

    /// Ends the client: closes the connection as [`Peer::close`] does, or stops connecting. Closing begins
    /// immediately, even if the returned future is dropped; the future waits for the end.
    pub fn close(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        self.shared().end();
        self.closed()
    }

    /// Waits until the client has ended, and returns the reason.
    pub fn closed(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        let mut state = self.watch();
        async move {
            loop {
                if let ClientState::Disconnected(disconnect) = &*state.borrow_and_update() {
                    return disconnect.clone();
                }
                if state.changed().await.is_err() {
                    return Disconnect::dropped();
                }
            }
        }
    }

    /// The state of the client. Once a call has failed with [`Interrupted`](crate::ErrorKind::Interrupted), the
    /// state no longer shows the broken connection as connected.
    pub fn state(&self) -> ClientState {
        self.shared().state.borrow().clone()
    }

    /// The state of the client, as a channel to wait on. The channel may skip a short state. Use
    /// [`on_connect`](ClientBuilder::on_connect) for work that every connection needs.
    pub fn watch(&self) -> watch::Receiver<ClientState> {
        self.shared().state.subscribe()
    }

    /// Converts an error of a connection into an error of the client.
    pub(crate) fn to_client_error(&self, error: Error) -> Error {
        self.shared().to_client_error(error)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("state", &self.state()).finish_non_exhaustive()
    }
}
