//! Builder of a hub, with its settings.

use std::fmt;
use std::sync::Arc;

use duet_rpc_proto::Profile;
use tokio::runtime::Handle;

use super::{Admission, Hub, HubState, OnConnect, RuntimeChoice, ServeWith};
use crate::connection::memory::Budget;
use crate::connection::worker_pool::WorkerPool;
use crate::peer::{Peer, Registry};
use crate::remote::Remote;
use crate::router::Router;
use crate::transport::Transport;

/// Default maximum number of connections.
pub(crate) const MOST: usize = 16 * 1024;

/// Default budget for unsent bytes of all connections.
const MOST_OUTGOING: usize = 64 * 1024 * 1024;

/// Builder of a [`Hub`], made by [`Hub::builder`].
///
/// ```
/// use duet_rpc::{Hub, Profile, Router};
///
/// let hub = Hub::builder().profile(Profile::agent()).router(Router::new()).max_connections(100).build();
/// assert_eq!(hub.connections(), 0);
/// ```
#[must_use = "nothing happens before `build`"]
pub struct HubBuilder {
    pub(crate) profile: Profile,
    pub(crate) router: Router,
    one_way: Option<Router>,
    pub(crate) most: Option<usize>,
    most_outgoing: usize,
    runtime: RuntimeChoice,
    workers: Option<Arc<WorkerPool>>,
    pub(crate) on_connect: Option<OnConnect>,
    serve_with: Option<ServeWith>,
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
            serve_with: None,
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

    /// Sets the maximum number of connections at the same time. Default: 16,384. A connection over the limit
    /// receives an error, and is closed.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    /// Sets the budget for unsent bytes of all connections together. Default: 64 MiB. Each connection also has its
    /// own limit, [`Limits::outgoing_bytes`](duet_rpc_proto::Limits::outgoing_bytes).
    ///
    /// While the budget is used up:
    ///
    /// - handlers do not start on worker threads;
    /// - other handlers start only on connections without unsent bytes;
    /// - the hub closes a connection with unsent bytes whose remote has read nothing for five seconds.
    ///
    /// The answers to pending batches have a separate budget of the same size. While that budget is spent,
    /// requests in batches get the answer `Server busy`.
    pub fn max_outgoing_bytes(mut self, bytes: usize) -> Self {
        self.most_outgoing = bytes;
        self
    }

    /// Sets the router for clients that can be answered but not called, such as HTTP clients. Leave out methods
    /// that call back or send events. Default: the [router](HubBuilder::router) for all connections.
    pub fn one_way(mut self, router: Router) -> Self {
        self.one_way = Some(router);
        self
    }

    /// Sets a function that is called with the [`Peer`] of each new connection, before the first message is
    /// handled. It can keep the peer, spawn a task that calls the client, or [close](Peer::close) the connection.
    /// It runs on the thread of the connection, inside its runtime, so it must not block.
    ///
    /// If the function panics, the hub logs the panic and closes this one connection. The function also runs for
    /// each HTTP request, which is a connection of its own. Such a peer cannot call its client.
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

    /// Serves each connection with this function, instead of with a router: for programs that pass messages on, and
    /// have no methods of their own. The hub still accepts connections, makes the handshakes of TLS and WebSocket,
    /// checks tokens and origins, and counts connections. The connection ends when the future ends.
    ///
    /// Over HTTP, each request is a connection. Its transport is of the kind
    /// [`Exchange`](crate::transport::TransportKind::Exchange) or `ExchangeStream`: it delivers one message. Send the
    /// answer, and then [settle](crate::transport::MessagePipe::settle) it.
    ///
    /// [`Hub::stop`] does not end these futures, but waits for them.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use duet_rpc::{Hub, Profile};
    /// use duet_rpc::transport::{MessagePipe, PipeEvent};
    ///
    /// // Sends each message back.
    /// let hub = Hub::builder().serve_with(|transport, _remote| async move {
    ///     let mut pipe = MessagePipe::new(transport, &Profile::agent());
    ///     loop {
    ///         let mut back = Vec::new();
    ///         let received = poll_fn(|cx| pipe.poll_receive(cx, |event| {
    ///             if let PipeEvent::Message(text) = event {
    ///                 back.push(text.as_str().as_bytes().to_vec());
    ///             }
    ///         }));
    ///         let is_open = received.await.unwrap_or(false);
    ///         back.iter().for_each(|message| pipe.send(message));
    ///         if poll_fn(|cx| pipe.poll_flush(cx)).await.is_err() || !is_open {
    ///             break;
    ///         }
    ///     }
    /// });
    /// # drop(hub.build());
    /// ```
    pub fn serve_with<F, W>(mut self, serve: F) -> Self
    where
        F: Fn(Box<dyn Transport>, Remote) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let serve = move |transport, remote| Box::pin(serve(transport, remote)) as _;
        self.serve_with = Some(Arc::new(serve));
        self
    }

    /// Serves each connection on the runtime that `find` returns, and runs slow handlers on the worker threads.
    pub(crate) fn on_threads(
        mut self,
        find: Arc<dyn Fn() -> Option<Handle> + Send + Sync>,
        workers: Option<Arc<WorkerPool>>,
    ) -> Self {
        self.runtime = RuntimeChoice::Threads(find);
        self.workers = workers;
        self
    }

    /// Makes the hub. It accepts connections from [`Hub::serve`] on.
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
            serve_with: self.serve_with,
        }))
    }
}

impl fmt::Debug for HubBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HubBuilder");
        shown.field("profile", &self.profile).field("most", &self.most).finish_non_exhaustive()
    }
}
