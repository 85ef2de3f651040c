//! Reconnect task: connects, waits, and connects again.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::Backoff;
use super::connect::Connect;
use super::state::SharedState;
use crate::error::{CloseReason, Disconnect};
use crate::error::{Error, ErrorKind};
use crate::net::CannotStart;
use crate::panic_guard;
use crate::peer::{Peer, PeerBuilder};
use crate::random;
use crate::router::Router;

/// Prepares a connection.
pub(super) type PrepareConnection =
    Box<dyn FnMut(Peer) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send>;

pub(super) struct ReconnectTask {
    pub(super) shared: Arc<SharedState>,
    pub(super) connector: Box<dyn Connect>,
    pub(super) on_connect: Option<PrepareConnection>,
    /// The connection that `on_connect` works on.
    pub(super) preparing: Option<Peer>,
    pub(super) profile: Profile,
    pub(super) router: Router,
    pub(super) backoff: Backoff,
    pub(super) most_failures: Option<u32>,
    pub(super) attempt_timeout: Duration,
    /// `true` if a server that exited with status 0 is started again.
    pub(super) restarts_after_success: bool,
}

impl ReconnectTask {
    /// Connects once.
    pub(super) async fn attempt(&mut self) -> Result<Peer, Error> {
        let connecting = panic_guard::catch(|| self.connector.connect(self.profile))?;
        let connecting = panic_guard::catch_future(connecting);
        let transport = within(self.attempt_timeout, connecting).await??.map_err(failed)?;
        let peer = PeerBuilder::boxed(transport).profile(self.profile);
        let (peer, driver) = peer.router(self.router.clone()).build();
        self.shared.subscriptions.attach(peer.shared());
        tokio::spawn(driver);
        self.preparing = Some(peer.clone());
        let Err(error) = self.prepare(peer.clone()).await else {
            self.preparing = None;
            return Ok(peer);
        };
        // How a process has ended, and what it said, is known only when it is closed.
        match (error.kind(), self.close_unprepared().await) {
            (ErrorKind::Disconnected, Some(end)) => Err(end.to_error()),
            _ => Err(error),
        }
    }

    async fn prepare(&mut self, peer: Peer) -> Result<(), Error> {
        let Some(on_connect) = &mut self.on_connect else { return Ok(()) };
        let preparing = panic_guard::catch_future(panic_guard::catch(|| on_connect(peer))?);
        within(self.attempt_timeout, preparing).await??
    }

    /// Closes the connection that is not prepared, if there is one. However long that takes: there are
    /// never two connections at a time.
    async fn close_unprepared(&mut self) -> Option<Disconnect> {
        let closed = self.preparing.as_ref()?.close().await;
        self.preparing = None;
        Some(closed)
    }

    /// Keeps the connection until it is over, beginning with one that is adopted already, if there
    /// is one.
    pub(super) async fn keep(mut self, first: Option<Peer>) {
        let end = self.run(first).await;
        self.shared.finish(end);
    }

    async fn run(&mut self, mut first: Option<Peer>) -> Disconnect {
        let shared = Arc::clone(&self.shared);
        let (mut attempt, mut cause) = (1, None);
        loop {
            let peer = match first.take() {
                Some(peer) => peer,
                None => match self.connect(&mut attempt, cause).await {
                    Ok(peer) => {
                        shared.adopt(&peer, attempt);
                        peer
                    }
                    Err(end) => return end,
                },
            };
            tracing::info!(attempt, "connected");
            // Its sender is kept by the peer.
            let _ = peer.watch().wait_for(|state| !state.is_open()).await;
            attempt = shared.note_broken().unwrap_or_else(|| next(attempt));
            // There are never two connections at a time.
            let lost = peer.closed().await;
            shared.let_go();
            if shared.is_over() {
                return lost;
            }
            if !shared.reconnects() {
                tracing::info!("the connection ended ({lost}), and no other is made");
                return lost;
            }
            if self.is_wanted_end(Some(&lost)) {
                tracing::info!("the server exited by itself ({lost}), and is not started again");
                return lost;
            }
            if self.is_enough(attempt - 1) {
                tracing::warn!(
                    "the connection broke ({lost}), and too many before it: no other is made"
                );
                return lost;
            }
            tracing::warn!("the connection broke ({lost}), and is made anew");
            cause = Some(lost);
        }
    }

    /// Returns `true` if too many attempts in a row have failed.
    fn is_enough(&self, failures: u32) -> bool {
        self.most_failures.is_some_and(|most| failures >= most)
    }

    /// Returns `true` if the server has left in good order, and is not to be started again.
    fn is_wanted_end(&self, end: Option<&Disconnect>) -> bool {
        let exit = end.and_then(|end| end.exit_report().exit);
        exit.is_some_and(|exit| exit.success()) && !self.restarts_after_success
    }

    /// Connects, as often as it takes; or says why there will be no connection.
    async fn connect(
        &mut self,
        attempt: &mut u32,
        mut cause: Option<Disconnect>,
    ) -> Result<Peer, Disconnect> {
        let shared = Arc::clone(&self.shared);
        loop {
            shared.publish_connecting(*attempt, cause);
            let failed_before = *attempt - 1;
            let work = async {
                if failed_before > 0 {
                    // Also if it is no time at all: others have their turn.
                    tokio::time::sleep(self.backoff.delay(failed_before, random::number())).await;
                }
                self.attempt().await
            };
            let error = match shared.unless_over(work).await {
                None => {
                    let closed = self.close_unprepared().await;
                    return Err(
                        closed.unwrap_or_else(|| Disconnect::new(CloseReason::Closed, None))
                    );
                }
                Some(Ok(peer)) => return Ok(peer),
                Some(Err(error)) => error,
            };
            // What the error says is the connector's, and may hold anything.
            let (what, why) = (error.kind(), io_cause(&error).map(io::Error::kind));
            tracing::warn!(attempt, ?what, ?why, "cannot connect");
            let is_last = self.is_enough(*attempt);
            let is_permanent = is_permanent(&error) || self.is_wanted_end(end_of(&error));
            let failed = Disconnect::new(CloseReason::ConnectFailed, Some(error));
            if is_last || is_permanent {
                return Err(failed);
            }
            (*attempt, cause) = (next(*attempt), Some(failed));
        }
    }
}

impl Drop for ReconnectTask {
    /// One that is dropped half-way, with its runtime, leaves nobody waiting.
    fn drop(&mut self) {
        self.shared.finish(Disconnect::dropped());
    }
}

/// The number of the attempt behind this one.
pub(super) fn next(number: u32) -> u32 {
    number.saturating_add(1)
}

async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    let done = tokio::time::timeout(time, work).await;
    done.map_err(|_| failed(io::Error::new(io::ErrorKind::TimedOut, "it took too long")))
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Connect).caused_by(error)
}

fn io_cause(error: &Error) -> Option<&io::Error> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// The end of the connection, if that is why `on_connect` failed.
fn end_of(error: &Error) -> Option<&Disconnect> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// Returns `true` if the next attempt would fail in the same way.
fn is_permanent(error: &Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};

    let is_final = |error: &io::Error| {
        let cannot_start = error.get_ref().and_then(|cause| cause.downcast_ref::<CannotStart>());
        cannot_start.is_some_and(CannotStart::is_permanent)
            || matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
    };
    error.kind() == ErrorKind::Panic || io_cause(error).is_some_and(is_final)
}
