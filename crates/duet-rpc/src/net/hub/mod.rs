//! Hub: many connections, one router (P8).

mod admission;
mod builder;

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::{Framing, FramingChoice, write_frame};
use duet_rpc_proto::message::{ErrorObject, Id, write_error};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use self::admission::{Admission, Permit};
pub use self::builder::HubBuilder;
#[cfg(unix)]
pub(crate) use self::builder::MOST as MOST_CONNECTIONS;
use crate::connection::memory::Budget;
use crate::connection::worker_pool::WorkerPool;
use crate::error::Logged;
use crate::log_limit::LogLimiter;
#[cfg(unix)]
use crate::net::Reserve;
use crate::net::{Incoming, Listener};
use crate::panic_guard;
use crate::peer::{Peer, PeerBuilder, Peers};
use crate::router::Router;
use crate::transport::TransportKind;

/// Number of refused connections that stay open for a moment, so that their remotes receive the reason.
/// Those beyond are told the reason, too, and closed immediately.
const MOST_REFUSALS: usize = 64;

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves everyone who connects, with one router, until it is told to stop.
///
/// Each connection is a [`Peer`] of its own: what one does is not seen by another, and what handlers
/// want to keep for one of them they keep in [`Peer::extension`]. Over HTTP that belongs to one request.
///
/// ```
/// use duet_rpc::{Hub, Profile, Router, transport::Listener};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
/// let hub = Hub::builder().profile(Profile::agent()).router(router).max_connections(1000).build();
/// let listener = Listener::bind("tcp://127.0.0.1:0")?;
/// println!("listening on {}", listener.address());
/// let serving = tokio::spawn(hub.clone().serve(listener));
///
/// // Later: those who are connected get the answers to what runs, and are told good-bye.
/// hub.stop().await;
/// serving.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Hub(Arc<HubState>);

struct HubState {
    profile: Profile,
    router: Router,
    /// Serves those who cannot be called back.
    one_way: Router,
    most: usize,
    admission: Arc<Admission>,
    runtime: RuntimeChoice,
    workers: Option<Arc<WorkerPool>>,
    budget: Arc<Budget>,
    on_connect: Option<OnConnect>,
}

/// Called with each new connection.
type OnConnect = Arc<dyn Fn(&Peer) + Send + Sync>;

/// Threads that serve connections.
enum RuntimeChoice {
    /// On the runtime that accepts them.
    Here,
    /// On one that this finds for each.
    #[cfg(unix)]
    Threads(Arc<dyn Fn() -> Option<Handle> + Send + Sync>),
}

impl Hub {
    /// Begins a hub: set what it needs, then [`build`](HubBuilder::build) it.
    pub fn builder() -> HubBuilder {
        HubBuilder::new()
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        *self.0.admission.open.borrow()
    }

    /// The connections that are open, to list them or to notify all of them: a handle that can be taken before
    /// the hub serves.
    ///
    /// ```
    /// use duet_rpc::{Error, Hub};
    ///
    /// fn announce(hub: &Hub, version: u64) -> Result<(), Error> {
    ///     let told = hub.peers().broadcast("changed", [version])?;
    ///     println!("{} were told, {} are too slow", told.sent, told.skipped);
    ///     Ok(())
    /// }
    /// ```
    pub fn peers(&self) -> Peers {
        Peers::from_registry(&self.0.admission.registry)
    }

    /// Serves those who connect here, until the hub is stopped. Several listeners can be served at the
    /// same time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn serve(self, mut listener: Listener) {
        listener.leave_with(&self.0.admission.going_away);
        let mut stopping = self.0.admission.is_stopping.subscribe();
        let complaints = LogLimiter::new(1);
        #[cfg(unix)]
        let mut reserve = Reserve::new();
        loop {
            match until(&mut stopping, listener.accept()).await {
                None => break,
                Some(Ok(incoming)) => self.admit(incoming, &complaints),
                #[cfg(unix)]
                Some(Err(error)) if Reserve::is_needed(&error) => {
                    if self.refuse_one(&mut listener, &mut reserve, &complaints).await.is_err() {
                        // Another thread has taken the reserve. To try again immediately would only spin.
                        let _ = until(&mut stopping, sleep(PAUSE)).await;
                    }
                }
                Some(Err(error)) => {
                    complaints.log("connections were not accepted", || {
                        tracing::warn!(%error, "a connection was not accepted");
                    });
                    // To try again immediately might only spin.
                    let _ = until(&mut stopping, sleep(PAUSE)).await;
                }
            }
        }
    }

    fn admit(&self, incoming: Incoming, complaints: &LogLimiter) {
        let Some(permit) = Permit::take(&self.0.admission, self.0.most) else {
            let limit = self.0.most;
            complaints.log("connections were refused", || {
                tracing::warn!(limit, "too many connections, one was refused");
            });
            return self.refuse(incoming);
        };
        let work = converse(Arc::clone(&self.0), incoming, permit);
        let elsewhere: Option<Handle> = match &self.0.runtime {
            RuntimeChoice::Here => None,
            #[cfg(unix)]
            RuntimeChoice::Threads(find) => find(),
        };
        match elsewhere {
            Some(runtime) => drop(runtime.spawn(work)),
            None => drop(tokio::spawn(work)),
        }
    }

    fn refuse(&self, incoming: Incoming) {
        let refused = incoming.refuse(&busy(&self.0.profile, self.0.most));
        let admission = Arc::clone(&self.0.admission);
        if admission.refusals.fetch_add(1, Ordering::Relaxed) >= MOST_REFUSALS {
            admission.refusals.fetch_sub(1, Ordering::Relaxed);
            return refused.close();
        }
        tokio::spawn(async move {
            let _ = refused.linger().await;
            admission.refusals.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Refuses the next that waits to connect, if there is one, because there is no descriptor to serve it
    /// with.
    #[cfg(unix)]
    async fn refuse_one(
        &self,
        listener: &mut Listener,
        reserve: &mut Reserve,
        complaints: &LogLimiter,
    ) -> std::io::Result<()> {
        let refuse = |incoming: Incoming| {
            let connections = self.connections();
            complaints.log("connections were refused", || {
                tracing::warn!(connections, "too many open files, a connection was refused");
            });
            incoming.refuse(&busy(&self.0.profile, connections)).close();
        };
        let refused = poll_fn(|cx| Poll::Ready(reserve.poll_refuse(cx, listener, refuse))).await;
        match refused {
            Poll::Ready(refused) => refused,
            // Nobody waits.
            Poll::Pending => Ok(()),
        }
    }

    /// Begins to [stop](Hub::stop).
    pub(crate) fn begin_stop(&self) {
        self.0.admission.stop();
    }

    /// Stops: no further connection is accepted, what runs is finished and answered, within the
    /// profile's [`drain_timeout`](Profile::drain_timeout), and each connection is closed. It begins
    /// at once, also if the future is dropped, which waits for the last.
    pub fn stop(&self) -> impl Future<Output = ()> + Send + 'static {
        self.begin_stop();
        let mut open = self.0.admission.open.subscribe();
        async move {
            // It cannot fail as long as there are connections, as each keeps the sender.
            let _ = open.wait_for(|open| *open == 0).await;
        }
    }

    /// Waits until it is told to stop.
    #[cfg(unix)]
    pub(crate) async fn stopping(&self) {
        let _ = self.0.admission.is_stopping.subscribe().wait_for(|is_stopping| *is_stopping).await;
    }
}

/// Serves one connection, from its first byte to its end.
async fn converse(hub: Arc<HubState>, incoming: Incoming, _permit: Permit) {
    let mut stopping = hub.admission.is_stopping.subscribe();
    // What it takes to open a connection is not kept as long as it stands.
    let opening = Box::pin(incoming.open(&hub.profile));
    let (transport, remote) = match until(&mut stopping, opening).await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => {
            tracing::debug!(%error, "a connection was not opened");
            return;
        }
        None => return,
    };
    let router = match transport.kind() {
        TransportKind::Exchange => hub.one_way.clone(),
        _ => hub.router.clone(),
    };
    let peer = PeerBuilder::boxed(transport).profile(hub.profile).router(router).remote(remote);
    let registry = &hub.admission.registry;
    let (peer, mut driver) = peer.budget(&hub.budget).registry(registry).build_driver();
    driver.share_thread();
    driver.use_pool(hub.workers.clone());
    let shared = Arc::clone(peer.shared());
    shared.span.in_scope(|| tracing::debug!("a connection was opened"));
    if let Some(on_connect) = &hub.on_connect
        && let Err(error) = panic_guard::catch(|| shared.span.in_scope(|| on_connect(&peer)))
    {
        // It is closed as by a handle: the remote is told, and nothing that it sends is begun.
        shared.span.in_scope(|| tracing::error!(error = %Logged(&error), "on_connect failed"));
        peer.begin_close(None);
    }
    let _entry = registry.enter(peer, || *hub.admission.is_stopping.borrow());
    let end = (&mut driver).await;
    shared.span.in_scope(|| tracing::debug!("a connection has ended: {end}"));
}

/// Waits for this, but only until it is to stop.
async fn until<T>(
    stopping: &mut watch::Receiver<bool>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    let mut stop = pin!(stopping.wait_for(|is_stopping| *is_stopping));
    poll_fn(|cx| match stop.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}

/// The error for a connection over the limit, on transports that carry frames.
fn busy(profile: &Profile, limit: usize) -> Vec<u8> {
    let framing = match profile.framing {
        FramingChoice::Fixed(framing) => framing,
        FramingChoice::Auto => Framing::Lsp,
    };
    let error = ErrorObject::server_busy(profile.busy_code, limit as u64);
    let mut frame = Vec::new();
    let Ok(()) = write_frame(framing, &mut frame, |out| {
        write_error(out, &Id::NULL, &error);
        Ok::<_, Infallible>(())
    });
    frame
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Hub");
        shown.field("connections", &self.connections()).field("most", &self.0.most);
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::converse;

    fn size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// This is most of the cost of a connection, and would grow unnoticed otherwise.
    #[test]
    fn p8_a_connection_is_small() {
        assert!(size(converse) <= 2048, "{}", size(converse));
    }
}
