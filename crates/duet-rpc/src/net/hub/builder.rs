//! Builder of a hub.

use std::fmt;
use std::sync::Arc;

use duet_rpc_proto::Profile;
#[cfg(unix)]
use tokio::runtime::Handle;

use super::{Admission, Hub, HubState, OnConnect, RuntimeChoice};
use crate::connection::memory::Budget;
use crate::connection::worker_pool::WorkerPool;
use crate::peer::{Peer, Registry};
use crate::router::Router;

/// The default bound of connections.
pub(crate) const MOST: usize = 16 * 1024;

/// The default bound of bytes that wait to be sent on all connections.
const MOST_OUTGOING: usize = 64 * 1024 * 1024;

/// A [`Hub`] to be, made by [`Hub::builder`].
///
/// ```
/// use duet_rpc::{Hub, Profile, Router};
///
/// let hub = Hub::builder().profile(Profile::agent()).router(Router::new()).max_connections(100).build();
/// assert_eq!(hub.connections(), 0);
/// ```
#[must_use = "it serves nobody before `build`"]
pub struct HubBuilder {
    pub(crate) profile: Profile,
    pub(crate) router: Router,
    one_way: Option<Router>,
    pub(crate) most: Option<usize>,
    most_outgoing: usize,
    runtime: RuntimeChoice,
    workers: Option<Arc<WorkerPool>>,
    pub(crate) on_connect: Option<OnConnect>,
    pub(crate) registry: Arc<Registry>,
}

impl HubBuilder {
    pub(super) fn new() -> Self {
        HubBuilder {
            profile: Profile::agent(),
            router: Router::new(),
            one_way: None,
            most: None,
            most_outgoing: MOST_OUTGOING,
            runtime: RuntimeChoice::Here,
            workers: None,
            on_connect: None,
            registry: Arc::default(),
        }
    }

    /// Sets the profile of all connections. Default: [`Profile::agent`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the router that serves all connections. Default: no methods.
    pub fn router(mut self, router: Router) -> Self {
        self.router = router;
        self
    }

    /// How many connections there may be at the same time; 16,384 if nothing is said. One too many is
    /// told so, and closed.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    /// The budget for bytes that wait to be sent, over all connections; 64 MiB by default. Each
    /// connection also has the bound of its own,
    /// [`Limits::outgoing_bytes`](duet_rpc_proto::Limits::outgoing_bytes).
    ///
    /// While the budget is spent, no handler begins on the worker threads, other handlers begin only on
    /// connections on which nothing waits to be sent, and a connection whose remote reads nothing for
    /// five seconds is closed.
    ///
    /// The answers to batches that are under way have a budget of the same size to themselves. While that
    /// is spent, requests of batches are answered busy.
    pub fn max_outgoing_bytes(mut self, bytes: usize) -> Self {
        self.most_outgoing = bytes;
        self
    }

    /// Serves this router to those who can be answered but not called, as over HTTP: methods that call
    /// back or send events make no sense for them. Default: the [router](HubBuilder::router) of all.
    pub fn one_way(mut self, router: Router) -> Self {
        self.one_way = Some(router);
        self
    }

    /// Called with the [`Peer`] of each new connection, inside its runtime and before its first message is
    /// handled: to keep the peer, to spawn a task that calls the client, or to
    /// [close](Peer::close) the connection. It runs on the thread of the connection, so it must not block.
    ///
    /// A panic in it is logged, and closes this one connection. Over HTTP it is called for each connection
    /// too, but such a client cannot be called, and its [identity](Peer::identity) comes with each request.
    ///
    /// ```
    /// use duet_rpc::Hub;
    ///
    /// let hub = Hub::builder().on_connect(|peer| {
    ///     let peer = peer.clone();
    ///     tokio::spawn(async move { peer.notify("welcome", ["stranger"]).await });
    /// });
    /// # drop(hub.build());
    /// ```
    pub fn on_connect(mut self, on_connect: impl Fn(&Peer) + Send + Sync + 'static) -> Self {
        self.on_connect = Some(Arc::new(on_connect));
        self
    }

    /// Serves each connection on a runtime that is found for it, and handlers that may be slow on
    /// these threads.
    #[cfg(unix)]
    pub(crate) fn on_threads(
        mut self,
        find: Arc<dyn Fn() -> Option<Handle> + Send + Sync>,
        workers: Option<Arc<WorkerPool>>,
    ) -> Self {
        self.runtime = RuntimeChoice::Threads(find);
        self.workers = workers;
        self
    }

    /// Makes the hub. It serves nobody before [`Hub::serve`].
    pub fn build(self) -> Hub {
        Hub(Arc::new(HubState {
            profile: self.profile,
            one_way: self.one_way.unwrap_or_else(|| self.router.clone()),
            router: self.router,
            most: self.most.unwrap_or(MOST),
            admission: Admission::new(self.registry),
            runtime: self.runtime,
            workers: self.workers,
            budget: Budget::shared(self.most_outgoing),
            on_connect: self.on_connect,
        }))
    }
}

impl fmt::Debug for HubBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HubBuilder");
        shown.field("profile", &self.profile).field("most", &self.most).finish_non_exhaustive()
    }
}
