//! A client whose connection comes back when it breaks (P6).
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | the handle: calls, states, the end |
//! | `builder` | how it is made, and what can be set |
//! | `connect` | connectors: closures, and addresses |
//! | `reconnect` | the task that connects, waits and connects again |
//! | `state` | what the handles share with that task |
//! | `backoff` | how long it waits |

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
use self::state::Line;
use crate::call::Call;
use crate::connection::Subscription;
use crate::error::Disconnect;
use crate::error::Error;
use crate::peer::Peer;

/// A client that makes its connection anew when it breaks.
///
/// Calls go to the connection of the moment. When it breaks, those that are pending fail at once with
/// [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted), which is recoverable, and so do those
/// that are made before there is a new one: nothing is kept to be sent later, and nothing is sent
/// twice, as only the application knows which of its calls may be repeated. It can wait for
/// [`connected`](Client::connected) and then try again. [`Error::was_sent`] tells calls that were never sent, and so
/// can always be repeated, from those that were pending.
///
/// It is cheap to clone. When the last clone is dropped, it is closed.
///
/// ```
/// use duet_rpc::{Client, Error, ErrorKind, Peer, Profile, Router, transport::memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// // Each connection is one to a new server here; most connectors open a socket.
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
pub struct Client(Arc<Handle>);

/// The last of these closes the client.
struct Handle(Arc<Line>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The state of a [`Client`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientState {
    /// There is no connection for now: one is being made, or waited for until the next attempt.
    Connecting {
        /// The number of the attempt, counted from 1 since the last connection that stood for long
        /// enough; see [`ClientBuilder::backoff`].
        attempt: u32,
        /// The reason why the last connection ended or the last attempt failed, once it is known.
        cause: Option<Disconnect>,
    },
    /// There is a connection.
    Connected,
    /// There will be no connection any more, and this is why.
    Disconnected(Disconnect),
}

impl ClientState {
    /// Returns `true` if there is a connection.
    pub fn is_connected(&self) -> bool {
        matches!(self, ClientState::Connected)
    }

    /// Returns `true` if no connection will follow.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, ClientState::Disconnected(_))
    }
}

impl Client {
    /// A client that is made with [`connect`](ClientBuilder::connect) or
    /// [`start`](ClientBuilder::start).
    ///
    /// The connector makes a transport, each time that it is asked to: a
    /// [`Connector`](crate::transport::Connector), or a closure.
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

    fn of(line: Arc<Line>) -> Self {
        Client(Arc::new(Handle(line)))
    }

    fn line(&self) -> &Line {
        &self.0.0
    }

    /// Calls a method of the remote, on the connection of the moment; else as [`Peer::call`] does.
    /// A call keeps the client from being closed by the dropping of all its handles.
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> Call<T> {
        match self.line().peer() {
            Ok(peer) => peer.call(method, params).with_client(self.clone()),
            Err(error) => Call::refused(Some(self.clone()), error),
        }
    }

    /// Sends a notification, on the connection of the moment; else as [`Peer::notify`] does. It is
    /// lost if the connection breaks before it has left.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let peer = self.line().peer().map_err(Error::unsent)?;
        peer.notify(method, params).await.map_err(|error| self.judge(error))
    }

    /// Subscribes to the notifications of a method on all connections, the one of the moment and those that come
    /// after it; else as [`Peer::subscribe`] does. The subscription ends with the client, and does not keep it from
    /// being closed.
    ///
    /// A server that has to be asked for its notifications has to be asked again on each connection: do that in
    /// [`on_connect`](ClientBuilder::on_connect). What it sent while there was no connection is lost. So when a
    /// connection takes the place of another, the subscription yields an error of the kind
    /// [`Interrupted`](crate::ErrorKind::Interrupted), and goes on.
    ///
    /// For typed notifications, serve their trait instead: see [`Peer::subscribe`].
    ///
    /// ```
    /// use duet_rpc::{Client, Error, ErrorKind, Peer, transport::memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// // Each server sends one notification, and is gone.
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
        Subscription::of_client(Arc::clone(&self.line().subscriptions), method)
    }

    /// The connection of the moment, if there is one. It is this one connection, which does not come
    /// back: when it breaks, its errors are fatal.
    pub fn peer(&self) -> Option<Peer> {
        self.line().peer().ok()
    }

    /// Waits until there is a connection; fails when there will be none any more.
    pub async fn connected(&self) -> Result<(), Error> {
        let mut state = self.watch();
        loop {
            // What changes after this is not missed.
            state.mark_unchanged();
            match self.line().peer() {
                Ok(_) => return Ok(()),
                Err(error) if !error.is_recoverable() => return Err(error),
                Err(_) => {}
            }
            // The state is kept by this very handle, so it is always there to change.
            let _ = state.changed().await;
        }
    }

    /// Makes the connection of the moment the last one: when it ends, so does the client. Say so before
    /// you ask a server to leave, as an editor does with `shutdown` and `exit`. Without a connection
    /// the client ends immediately.
    ///
    /// ```
    /// use duet_rpc::{Client, Disconnect, Error};
    ///
    /// async fn quit(client: &Client) -> Result<Disconnect, Error> {
    ///     client.stop_reconnecting();
    ///     client.call::<()>("shutdown", ()).await?;
    ///     client.notify("exit", ()).await?;
    ///     Ok(client.closed().await) // the remote closed it; its process ended with exit status: 0
    /// }
    /// ```
    pub fn stop_reconnecting(&self) {
        self.line().stop_reconnecting();
    }

    /// Ends for good: closes the connection as [`Peer::close`] does, or gives up to make one. It
    /// begins at once, also if the future is dropped, which waits for the end.
    pub fn close(&self) -> impl Future<Output = Disconnect> + Send + 'static {
        self.line().end();
        self.closed()
    }

    /// Waits until there will be no connection any more, and says why.
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

    /// Where it stands. After a call has failed with [`Interrupted`](crate::ErrorKind::Interrupted), this does not
    /// show the connection that broke.
    pub fn state(&self) -> ClientState {
        self.line().state.borrow().clone()
    }

    /// Where it stands, as something to wait on. A state that did not last may go unseen: what has to
    /// be done on every connection is for [`on_connect`](ClientBuilder::on_connect).
    pub fn watch(&self) -> watch::Receiver<ClientState> {
        self.line().state.subscribe()
    }

    /// An error of a connection of this client, as one of the client.
    pub(crate) fn judge(&self, error: Error) -> Error {
        self.line().judge(error)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("state", &self.state()).finish_non_exhaustive()
    }
}
