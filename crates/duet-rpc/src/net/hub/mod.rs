//! Hub: serves many connections with one router (P8).

mod admission;
mod builder;
mod served;

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use duet_rpc_proto::Profile;
use duet_rpc_proto::frame::{Framing, FramingChoice, write_frame};
use duet_rpc_proto::message::{ErrorObject, Id, Reason, write_error};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::sleep;

use self::admission::Admission;
pub(in crate::net) use self::admission::Permit;
pub use self::builder::HubBuilder;
pub(crate) use self::builder::MOST as MOST_CONNECTIONS;
#[cfg(feature = "http")]
pub(in crate::net) use self::served::HubExchange;
use crate::connection::memory::Budget;
use crate::connection::worker_pool::WorkerPool;
use crate::log_limit::LogLimiter;
use crate::net::{Incoming, Listener, RefusedUsers};
use crate::peer::{Peer, Peers};
use crate::remote::Remote;
use crate::router::Router;
use crate::sys::Reserve;
use crate::transport::Transport;

/// Maximum number of refused connections that stay open for a moment, so that their remotes can read the reason.
/// The hub sends the reason to further connections, too, but closes them immediately.
const MOST_REFUSALS: usize = 64;

/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves many connections with one router, until it is stopped.
///
/// Each connection is a separate [`Peer`], and over HTTP each request is a connection of its own. Handlers keep values
/// of one connection in [`Peer::extension`].
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
/// // Later: running handlers finish and are answered, then the connections are closed.
/// hub.stop().await;
/// serving.await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Hub(Arc<HubState>);

#[cfg_attr(feature = "http", derive(Clone))]
struct HubState {
    profile: Profile,
    router: Router,
    /// The router for clients that cannot be called.
    one_way: Router,
    most: usize,
    admission: Arc<Admission>,
    runtime: RuntimeChoice,
    workers: Option<Arc<WorkerPool>>,
    budget: Arc<Budget>,
    on_connect: Option<OnConnect>,
    serve_with: Option<ServeWith>,
}

/// The function that the application set with `on_connect`.
type OnConnect = Arc<dyn Fn(&Peer) + Send + Sync>;

/// The function that the application set with `serve_with`.
type ServeWith = Arc<dyn Fn(Box<dyn Transport>, Remote) -> ServedElsewhere + Send + Sync>;

/// A connection that the application serves by itself.
type ServedElsewhere = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime that serves a connection.
#[cfg_attr(feature = "http", derive(Clone))]
enum RuntimeChoice {
    /// The runtime that accepts the connection.
    Here,
    /// The runtime that this function returns; `None` means the accepting runtime.
    Threads(Arc<dyn Fn() -> Option<Handle> + Send + Sync>),
}

impl Hub {
    /// Returns a builder; finish it with [`build`](HubBuilder::build).
    pub fn builder() -> HubBuilder {
        HubBuilder::new()
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.0.admission.open()
    }

    /// The open connections, to list them or to notify all of them. The handle works even before the hub serves.
    ///
    /// ```
    /// use duet_rpc::{Error, Hub};
    ///
    /// fn announce(hub: &Hub, version: u64) -> Result<(), Error> {
    ///     let broadcast = hub.peers().broadcast("changed", [version])?;
    ///     println!("sent to {}, skipped {}", broadcast.sent, broadcast.skipped);
    ///     Ok(())
    /// }
    /// ```
    pub fn peers(&self) -> Peers {
        Peers::from_registry(&self.0.admission.registry)
    }

    /// Accepts and serves the connections of a listener, until the hub is stopped. A hub can serve several
    /// listeners at the same time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn serve(self, mut listener: Listener) {
        listener.leave_with(&self.0.admission.going_away);
        let mut stopping = self.0.admission.is_stopping.subscribe();
        let (log_limit, refused_users) = (LogLimiter::new(1), RefusedUsers::default());
        let mut reserve = Reserve::new();
        loop {
            match until(&mut stopping, listener.accept()).await {
                None => break,
                Some(Ok(incoming)) => self.admit(incoming, &log_limit, &refused_users),
                Some(Err(error)) if Reserve::is_needed(&error) => {
                    if self.refuse_one(&mut listener, &mut reserve, &log_limit).await.is_err() {
                        // Another thread has taken the reserve. An immediate retry would spin.
                        let _ = until(&mut stopping, sleep(PAUSE)).await;
                    }
                }
                Some(Err(error)) => {
                    log_limit.log("connections not accepted", || {
                        tracing::warn!(%error, "cannot accept a connection");
                    });
                    // An immediate retry could spin.
                    let _ = until(&mut stopping, sleep(PAUSE)).await;
                }
            }
        }
    }

    fn admit(&self, incoming: Incoming, log_limit: &LogLimiter, refused_users: &RefusedUsers) {
        if let Err(error) = incoming.check_user() {
            refused_users.log(&incoming.remote(), &error);
            let error = ErrorObject::invalid_request_because(Reason::UserNotAllowed);
            return self.refuse(incoming, &frame(&self.0.profile, &error));
        }
        let Some(permit) = Permit::take(&self.0.admission, self.0.most) else {
            let limit = self.0.most;
            log_limit.log("connections refused", || {
                tracing::warn!(limit, "connection refused: too many connections");
            });
            return self.refuse(incoming, &busy(&self.0.profile, limit));
        };
        let hub = self.clone();
        #[cfg(feature = "http")]
        if incoming.is_http() {
            return self.spawn(async move {
                let _permit = permit;
                incoming.serve_http(hub).await;
            });
        }
        // Boxed, so that the memory for opening is freed while the connection is open.
        let opening = Box::pin(async move { incoming.open(&hub.0.profile).await });
        self.spawn(serve_connection(self.clone(), opening, permit));
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let elsewhere: Option<Handle> = match &self.0.runtime {
            RuntimeChoice::Here => None,
            RuntimeChoice::Threads(find) => find(),
        };
        match elsewhere {
            Some(runtime) => drop(runtime.spawn(work)),
            None => drop(tokio::spawn(work)),
        }
    }

    fn refuse(&self, incoming: Incoming, reason: &[u8]) {
        let refused = incoming.refuse(reason);
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

    /// Refuses the next waiting connection, if there is one, because no file descriptor is left to serve it.
    async fn refuse_one(
        &self,
        listener: &mut Listener,
        reserve: &mut Reserve,
        log_limit: &LogLimiter,
    ) -> io::Result<()> {
        let refuse = |incoming: Incoming| {
            let connections = self.connections();
            log_limit.log("connections refused", || {
                tracing::warn!(connections, "connection refused: too many open files");
            });
            incoming.refuse(&busy(&self.0.profile, connections)).close();
        };
        let refused =
            poll_fn(|cx| Poll::Ready(reserve.lend(|| listener.poll_accept(cx).map_ok(refuse))));
        let refused = refused.await;
        match refused {
            Poll::Ready(refused) => refused,
            // No connection waits.
            Poll::Pending => Ok(()),
        }
    }

    /// Begins to [stop](Hub::stop).
    pub(crate) fn begin_stop(&self) {
        self.0.admission.stop();
    }

    /// Stops the hub: it accepts no further connection, lets running handlers finish within the profile's
    /// [`drain_timeout`](Profile::drain_timeout), sends their answers, and closes each connection. Stopping begins
    /// immediately, even if the returned future is dropped; the future waits for the last connection.
    pub fn stop(&self) -> impl Future<Output = ()> + Send + 'static {
        self.begin_stop();
        let admission = Arc::clone(&self.0.admission);
        async move { admission.wait_for_last().await }
    }

    /// Waits until the hub begins to [stop](Hub::stop). Then it takes no further connection.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut is_stopping = self.0.admission.is_stopping.subscribe();
        async move {
            let _ = is_stopping.wait_for(|is_stopping| *is_stopping).await;
        }
    }
}

/// The opening of an accepted connection.
type Opening = Pin<Box<dyn Future<Output = io::Result<(Box<dyn Transport>, Remote)>> + Send>>;

/// Serves one connection from the first byte to the end.
async fn serve_connection(hub: Hub, opening: Opening, _permit: Permit) {
    let mut stopping = hub.0.admission.is_stopping.subscribe();
    match until(&mut stopping, opening).await {
        Some(Ok((transport, remote))) => {
            hub.connect(transport, remote).await;
        }
        Some(Err(error)) => tracing::debug!(%error, "cannot open a connection"),
        None => {}
    }
}

/// Waits for a future; `None` if the hub stops first.
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

/// The frame with the error for a connection over the limit.
fn busy(profile: &Profile, limit: usize) -> Vec<u8> {
    frame(profile, &ErrorObject::server_busy(profile.busy_code, limit as u64))
}

/// The frame with an error that answers no message.
fn frame(profile: &Profile, error: &ErrorObject) -> Vec<u8> {
    let framing = match profile.framing {
        FramingChoice::Fixed(framing) => framing,
        FramingChoice::Auto => Framing::Lsp,
    };
    let mut frame = Vec::new();
    let Ok(()) = write_frame(framing, &mut frame, |out| {
        write_error(out, &Id::NULL, error);
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
    use super::serve_connection;

    fn size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// The future takes most of the memory of a connection. Without this test its growth would go unnoticed.
    #[test]
    fn p8_a_connection_is_small() {
        assert!(size(serve_connection) <= 2048, "{}", size(serve_connection));
    }
}
