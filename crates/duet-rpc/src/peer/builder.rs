//! Builder of a peer.

use std::fmt;
use std::sync::Arc;

use duet_rpc_proto::Profile;

use super::{Handle, Peer, Registry};
use crate::connection::memory::Budget;
use crate::connection::{Driver, Shared};
use crate::error::Disconnect;
use crate::remote::Remote;
use crate::router::Router;
use crate::transport::{Transport, TransportKind};

/// A [`Peer`] to be, made by [`Peer::builder`].
///
/// ```
/// use duet_rpc::{Error, Peer, Profile, Router, transport::memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
/// let (here, there) = memory::pair();
/// let server = Peer::builder(there).profile(Profile::agent()).router(router).spawn();
/// let client = Peer::builder(here).spawn();
/// assert_eq!(client.call::<i64>("add", (1, 2)).await?, 3);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before `spawn` or `build`"]
pub struct PeerBuilder {
    transport: Box<dyn Transport>,
    profile: Profile,
    router: Router,
    remote: Remote,
    /// The budget that it shares with other connections.
    budget: Option<Arc<Budget>>,
    /// The connections of the server that it belongs to.
    registry: Option<Arc<Registry>>,
}

impl PeerBuilder {
    pub(crate) fn boxed(transport: Box<dyn Transport>) -> Self {
        let (profile, router) = (Profile::agent(), Router::new());
        let remote = Remote::new();
        PeerBuilder { transport, profile, router, remote, budget: None, registry: None }
    }

    /// Sets the profile. Default: [`Profile::agent`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the router, which serves the methods that the remote calls. Default: no methods.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// Sets the remote, for [`Peer::remote_addr`] and [`Peer::identity`]. Default: nothing is known.
    pub fn remote(mut self, remote: Remote) -> Self {
        self.remote = remote;
        self
    }

    /// Shares the budget for bytes that wait to be sent with other connections.
    pub(crate) fn budget(mut self, budget: &Arc<Budget>) -> Self {
        self.budget = Some(Arc::clone(budget));
        self
    }

    /// Makes it one of the connections of a server. It has to [enter](Registry::enter) the registry too.
    pub(crate) fn registry(mut self, registry: &Arc<Registry>) -> Self {
        self.registry = Some(Arc::clone(registry));
        self
    }

    /// Makes the peer, and the driver that does its work: a future to be spawned or awaited, inside a tokio
    /// runtime with I/O and time enabled. It ends when the connection does, and tells the reason. Nothing happens
    /// on a connection whose driver is not polled.
    pub fn build(self) -> (Peer, impl Future<Output = Disconnect> + Send + Unpin + use<>) {
        self.build_driver()
    }

    pub(crate) fn build_driver(self) -> (Peer, Driver) {
        let PeerBuilder { transport, profile, router, remote, budget, registry } = self;
        let is_exchange = transport.kind() == TransportKind::Exchange;
        let mut shared = Shared::new(&profile, is_exchange, budget);
        shared.remote = remote;
        shared.registry = registry;
        let shared = Arc::new(shared);
        let handle = Arc::new(Handle(Arc::clone(&shared)));
        let driver = Driver::new(transport, router, shared, Arc::downgrade(&handle));
        (Peer { handle, exchange: None }, driver)
    }

    /// Makes the peer, and spawns its driver on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(self) -> Peer {
        let (peer, driver) = self.build();
        tokio::spawn(driver);
        peer
    }
}

impl fmt::Debug for PeerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PeerBuilder");
        shown.field("profile", &self.profile).field("remote", &self.remote);
        shown.finish_non_exhaustive()
    }
}
