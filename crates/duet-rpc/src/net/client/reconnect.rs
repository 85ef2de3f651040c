//! Reconnect task: connects, waits, and reconnects.

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

/// The function that the application set with `on_connect`.
pub(super) type PrepareConnection =
    Box<dyn FnMut(Peer) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send>> + Send>;

/// The task of a client, with its settings.
pub(super) struct ReconnectTask {
    pub(super) shared: Arc<SharedState>,
    pub(super) connector: Box<dyn Connect>,
    pub(super) on_connect: Option<PrepareConnection>,
    /// The connection that `on_connect` prepares.
    pub(super) preparing: Option<Peer>,
    pub(super) profile: Profile,
    pub(super) router: Router,
    pub(super) backoff: Backoff,
    pub(super) most_failures: Option<u32>,
    pub(super) attempt_timeout: Duration,
    /// `true` if the client restarts a server that exited with status 0.
    pub(super) restarts_after_success: bool,
}

impl ReconnectTask {
    /// Makes one attempt to connect and to prepare the connection.
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
        // The exit status and stderr of a process are known only after the close.
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

    /// Closes the connection that `on_connect` did not finish, and waits for its end, because a client never has
    /// two connections at a time.
    async fn close_unprepared(&mut self) -> Option<Disconnect> {
        let closed = self.preparing.as_ref()?.close().await;
        self.preparing = None;
        Some(closed)
    }

    /// Reconnects until the client ends. The first connection may exist already.
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
            // Cannot fail: the peer keeps the sender alive.
            let _ = peer.watch().wait_for(|state| !state.is_open()).await;
            attempt = shared.note_broken().unwrap_or_else(|| next(attempt));
            // A client never has two connections at a time.
            let lost = peer.closed().await;
            shared.let_go();
            if shared.is_over() {
                return lost;
            }
            if !shared.reconnects() {
                tracing::info!("connection ended, not reconnecting: {lost}");
                return lost;
            }
            if self.is_final_exit(Some(&lost)) {
                tracing::info!("server exited with status 0, not restarting: {lost}");
                return lost;
            }
            if self.gives_up_after(attempt - 1) {
                tracing::warn!("connection broke, giving up after too many failures: {lost}");
                return lost;
            }
            tracing::warn!("connection broke, reconnecting: {lost}");
            cause = Some(lost);
        }
    }

    /// Returns `true` if too many attempts in a row have failed.
    fn gives_up_after(&self, failures: u32) -> bool {
        self.most_failures.is_some_and(|most| failures >= most)
    }

    /// Returns `true` if the server exited with status 0, and the client does not restart it.
    fn is_final_exit(&self, end: Option<&Disconnect>) -> bool {
        let exit = end.and_then(|end| end.exit_report().exit);
        exit.is_some_and(|exit| exit.success()) && !self.restarts_after_success
    }

    /// Connects, with retries; fails with the reason if the client ends.
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
                    // A delay of zero still yields to other tasks.
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
            // The connector wrote the error's text, which may contain secrets.
            let (kind, io_kind) = (error.kind(), io_cause(&error).map(io::Error::kind));
            tracing::warn!(attempt, ?kind, ?io_kind, "cannot connect");
            let is_last = self.gives_up_after(*attempt);
            let is_permanent = is_permanent(&error) || self.is_final_exit(end_of(&error));
            let failed = Disconnect::new(CloseReason::ConnectFailed, Some(error));
            if is_last || is_permanent {
                return Err(failed);
            }
            (*attempt, cause) = (next(*attempt), Some(failed));
        }
    }
}

impl Drop for ReconnectTask {
    /// Ends the client if its runtime drops the task, so that no caller waits for ever.
    fn drop(&mut self) {
        self.shared.finish(Disconnect::dropped());
    }
}

/// The number of the next attempt.
pub(super) fn next(number: u32) -> u32 {
    number.saturating_add(1)
}

async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, Error> {
    let done = tokio::time::timeout(time, work).await;
    done.map_err(|_| failed(io::Error::new(io::ErrorKind::TimedOut, "the attempt timed out")))
}

fn failed(error: io::Error) -> Error {
    Error::new(ErrorKind::Connect).caused_by(error)
}

fn io_cause(error: &Error) -> Option<&io::Error> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// The end of the connection, if it made `on_connect` fail.
fn end_of(error: &Error) -> Option<&Disconnect> {
    error.source().and_then(|cause| cause.downcast_ref())
}

/// Returns `true` if every further attempt would fail in the same way.
fn is_permanent(error: &Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};

    let is_final = |error: &io::Error| {
        let cannot_start = error.get_ref().and_then(|cause| cause.downcast_ref::<CannotStart>());
        cannot_start.is_some_and(CannotStart::is_permanent)
            || matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
    };
    error.kind() == ErrorKind::Panic || io_cause(error).is_some_and(is_final)
}
