//! Builder of a peer, with its settings.

use std::fmt;
use std::sync::Arc;

use duet_rpc_proto::Profile;

use super::{Handle, Peer, Registry};
use crate::connection::memory::Budget;
use crate::connection::{Driver, Shared, SharedDriver};
use crate::error::Disconnect;
use crate::remote::Remote;
use crate::router::Router;
use crate::transport::Transport;

/// Builder of a [`Peer`], made by [`Peer::builder`].
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
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) profile: Profile,
    pub(crate) router: Router,
    pub(crate) remote: Remote,
    /// The budget for unsent bytes that the peer shares with other connections.
    pub(crate) budget: Option<Arc<Budget>>,
    /// The connections of the server to which the peer belongs. The peer must also [enter](Registry::enter) it.
    pub(crate) registry: Option<Arc<Registry>>,
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

    /// Sets the router that serves calls from the remote. Default: no methods.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// Sets the remote, for [`Peer::remote_addr`] and [`Peer::identity`]. Default: no address and no identity.
    pub fn remote(mut self, remote: Remote) -> Self {
        self.remote = remote;
        self
    }

    /// Makes the peer and its driver, the future that reads, writes and runs handlers. Spawn or await the driver
    /// inside a tokio runtime with I/O and time enabled: without it, nothing happens on the connection. The driver
    /// ends with the connection, and returns the reason.
    pub fn build(self) -> (Peer, impl Future<Output = Disconnect> + Send + Unpin + use<>) {
        self.build_driver()
    }

    /// The driver is boxed, because moving it costs more than the memory.
    pub(crate) fn build_driver(self) -> (Peer, Box<Driver>) {
        let PeerBuilder { transport, profile, router, remote, budget, registry } = self;
        let mut shared = Shared::new(&profile, transport.kind(), budget);
        (shared.remote, shared.registry) = (remote, registry);
        let shared = Arc::new(shared);
        let handle = Arc::new(Handle(Arc::clone(&shared)));
        let driver = Driver::new(transport, router, shared, Arc::downgrade(&handle));
        (Peer::from_handle(handle), Box::new(driver))
    }

    /// Makes the peer and spawns its driver on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(self) -> Peer {
        let sends_inline = self.transport.sends_inline();
        let (peer, driver) = self.build_driver();
        match sends_inline {
            true => drop(tokio::spawn(SharedDriver::new(driver, peer.shared()))),
            false => drop(tokio::spawn(driver)),
        }
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
