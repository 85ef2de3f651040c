//! Builder of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::connect::Connect;
use super::reconnect::Keeper;
use super::state::Line;
use super::{Backoff, Client};
use crate::error::Error;
use crate::peer::Peer;
use crate::router::Router;

/// Default time limit of an attempt to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// A [`Client`] to be, made by [`Client::builder`].
///
/// An attempt to connect that fails is followed by another, but for errors of the kinds
/// `InvalidInput`, `PermissionDenied` and `Unsupported`, which would not go away by themselves, and
/// a panic: these end the client. So does a program that cannot be started because it is not there or
/// may not be executed, and a program that exits with status 0.
#[must_use = "it connects when it is told to"]
pub struct ClientBuilder(Keeper);

impl ClientBuilder {
    pub(super) fn new(connector: Box<dyn Connect>) -> Self {
        ClientBuilder(Keeper {
            line: Arc::new(Line::new(&Profile::agent(), Duration::ZERO)),
            connector,
            on_connect: None,
            preparing: None,
            profile: Profile::agent(),
            router: Router::new(),
            backoff: Backoff::default(),
            most_failures: None,
            attempt_timeout: ATTEMPT_TIMEOUT,
            restarts_after_success: false,
        })
    }

    /// Sets the profile of all connections. Default: [`Profile::agent`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.0.profile = profile;
        self
    }

    /// Sets the router, which serves the methods that the remote calls on each connection. Default: no
    /// methods.
    pub fn router(mut self, router: Router) -> Self {
        self.0.router = router;
        self
    }

    /// Sets the time between attempts.
    ///
    /// When a connection breaks, the first attempt follows immediately. But a connection that stood for less than
    /// [`Backoff::good_after`] counts as an attempt that failed, so a remote that accepts connections and drops them
    /// gets no more attempts than one that cannot be reached.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.0.backoff = backoff;
        self
    }

    /// Ends the client when so many attempts to connect have failed in a row. A connection that stood for
    /// less than [`Backoff::good_after`] counts as one that failed, so a server that crashes at the start is given
    /// up too. If nothing is said, it goes on until it is closed.
    pub fn give_up_after(mut self, failures: u32) -> Self {
        self.0.most_failures = Some(failures);
        self
    }

    /// Starts a server again that has exited with status 0. If nothing is said, the client takes that
    /// for the wanted end, and ends. Only a [`Child`](crate::transport::Child) has an exit status.
    pub fn restart_after_success(mut self) -> Self {
        self.0.restarts_after_success = true;
        self
    }

    /// How long an attempt to connect may take, and what is done
    /// [`on_connect`](ClientBuilder::on_connect); 10 s if nothing is said.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.0.attempt_timeout = timeout;
        self
    }

    /// Prepares every connection before the client uses it: says who is calling, subscribes again
    /// to what was lost with the last one. If that fails, so has the attempt to connect.
    ///
    /// ```
    /// use duet_rpc::{ClientBuilder, Peer};
    ///
    /// fn with_login(client: ClientBuilder) -> ClientBuilder {
    ///     client.on_connect(async |peer: Peer| peer.call("login", ["Ada"]).await)
    /// }
    /// ```
    pub fn on_connect<P, F>(mut self, mut prepare: P) -> Self
    where
        P: FnMut(Peer) -> F + Send + 'static,
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.0.on_connect = Some(Box::new(move |peer| Box::pin(prepare(peer))));
        self
    }

    /// Connects, once, and keeps the connection from then on. If it fails, there is no client.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn connect(mut self) -> Result<Client, Error> {
        self.begin();
        let peer = self.0.attempt().await?;
        Ok(self.spawn(Some(peer)))
    }

    /// A client that makes also its first connection in its own time, with as many attempts as that
    /// takes; see [`Client::connected`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(mut self) -> Client {
        self.begin();
        self.spawn(None)
    }

    /// Makes the state that goes with the settings, now that they are known.
    fn begin(&mut self) {
        self.0.line = Arc::new(Line::new(&self.0.profile, self.0.backoff.good_after()));
    }

    fn spawn(self, first: Option<Peer>) -> Client {
        let line = Arc::clone(&self.0.line);
        if let Some(peer) = &first {
            line.adopt(peer, 1);
        }
        tokio::spawn(self.0.keep(first));
        Client::of(line)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClientBuilder");
        shown.field("profile", &self.0.profile).field("backoff", &self.0.backoff);
        shown.field("give_up_after", &self.0.most_failures);
        shown.field("attempt_timeout", &self.0.attempt_timeout).finish_non_exhaustive()
    }
}
