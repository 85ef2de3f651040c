//! Builder of a client, with its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::connect::Connect;
use super::reconnect::ReconnectTask;
use super::state::SharedState;
use super::{Backoff, Client};
use crate::error::Error;
use crate::peer::Peer;
use crate::router::Router;

/// Default time limit of an attempt to connect.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Builder of a [`Client`], made by [`Client::builder`].
///
/// After a failed attempt to connect, the client tries again. These failures end the client instead, because a
/// retry would fail as well: errors of the kinds `InvalidInput`, `PermissionDenied` and `Unsupported`, a panic in the
/// connector, and a program that does not exist or is not executable. A program that exits with status 0 ends the
/// client, too; see [`restart_after_success`](ClientBuilder::restart_after_success).
#[must_use = "nothing happens before `connect` or `start`"]
pub struct ClientBuilder(ReconnectTask);

impl ClientBuilder {
    pub(super) fn new(connector: Box<dyn Connect>) -> Self {
        ClientBuilder(ReconnectTask {
            shared: Arc::new(SharedState::new(&Profile::agent(), Duration::ZERO)),
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

    /// Sets the router that serves calls from the remote, on every connection. Default: no methods.
    pub fn router(mut self, router: Router) -> Self {
        self.0.router = router;
        self
    }

    /// Sets the delay between attempts.
    ///
    /// After a break, the first attempt follows immediately. A connection that lasted less than
    /// [`Backoff::good_after`] counts as a failed attempt. So the client does not hammer a server that accepts
    /// connections and closes them immediately.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.0.backoff = backoff;
        self
    }

    /// Sets the number of failed attempts in a row after which the client ends. A connection that lasted less than
    /// [`Backoff::good_after`] counts as a failed attempt, so this also limits the restarts of a server that crashes at
    /// startup. Default: no limit.
    pub fn give_up_after(mut self, failures: u32) -> Self {
        self.0.most_failures = Some(failures);
        self
    }

    /// Restarts a server that exited with status 0. By default such an exit ends the client. Only a
    /// [`Child`](crate::transport::Child) has an exit status.
    pub fn restart_after_success(mut self) -> Self {
        self.0.restarts_after_success = true;
        self
    }

    /// Sets the time limit of an attempt to connect, and of the function
    /// [`on_connect`](ClientBuilder::on_connect). Default: 10 s each.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.0.attempt_timeout = timeout;
        self
    }

    /// Sets a function that prepares every new connection before the client uses it, for example with a login or
    /// with new subscriptions. If the function fails, the attempt to connect has failed.
    ///
    /// ```
    /// use duet_rpc::{ClientBuilder, Peer};
    ///
    /// fn with_login(client: ClientBuilder) -> ClientBuilder {
    ///     client.on_connect(async |peer: Peer| peer.call("login", ["Ada"]).await)
    /// }
    /// ```
    ///
    /// The function runs for every connection. If it captures a value, clone the value for each connection:
    ///
    /// ```
    /// use duet_rpc::{ClientBuilder, Peer};
    ///
    /// fn with_login(client: ClientBuilder, name: String) -> ClientBuilder {
    ///     client.on_connect(move |peer: Peer| {
    ///         let name = name.clone();
    ///         async move { peer.call("login", [name]).await }
    ///     })
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

    /// Makes the first connection with one attempt, and reconnects from then on. Fails if the attempt fails.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn connect(mut self) -> Result<Client, Error> {
        self.begin();
        let peer = self.0.attempt().await?;
        Ok(self.spawn(Some(peer)))
    }

    /// Returns a client immediately. It makes its first connection in the background, with retries; see
    /// [`Client::connected`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn start(mut self) -> Client {
        self.begin();
        self.spawn(None)
    }

    /// Makes the shared state, now that the settings are final.
    fn begin(&mut self) {
        self.0.shared = Arc::new(SharedState::new(&self.0.profile, self.0.backoff.long_enough()));
    }

    fn spawn(self, first: Option<Peer>) -> Client {
        let shared = Arc::clone(&self.0.shared);
        if let Some(peer) = &first {
            shared.adopt(peer, 1);
        }
        tokio::spawn(self.0.keep(first));
        Client::new(shared)
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
