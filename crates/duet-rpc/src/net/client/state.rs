//! Shared state of a client: its handles and its reconnect task use it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use duet_rpc_proto::Profile;
use tokio::sync::{SetOnce, watch};
use tokio::time::Instant;

use super::ClientState;
use super::reconnect::next;
use crate::connection::ClientSubscriptions;
use crate::error::Disconnect;
use crate::error::{Error, ErrorKind};
use crate::peer::Peer;
use crate::sync::lock;

/// The state of a client and its current connection.
pub(super) struct SharedState {
    pub(super) state: watch::Sender<ClientState>,
    /// The current connection, from its adoption until it is closed.
    current: Mutex<Option<Current>>,
    pub(super) subscriptions: Arc<ClientSubscriptions>,
    /// A connection that lasted less counts as a failed attempt. Otherwise the client would hammer a remote that
    /// accepts connections and closes them immediately.
    long_enough: Duration,
    /// Set when the client ends.
    over: SetOnce<()>,
    /// `true` if the current connection is the last.
    is_last: AtomicBool,
}

struct Current {
    peer: Peer,
    /// The number of the attempt that made the connection.
    attempt: u32,
    begun: Instant,
    /// The number of the next attempt, once the connection is known to be broken.
    next_attempt: Option<u32>,
}

impl SharedState {
    pub(super) fn new(profile: &Profile, long_enough: Duration) -> Self {
        let state = ClientState::Connecting { attempt: 1, cause: None };
        let message_bytes = profile.limits.message_bytes;
        SharedState {
            state: watch::Sender::new(state),
            current: Mutex::default(),
            subscriptions: Arc::new(ClientSubscriptions::new(message_bytes)),
            long_enough,
            over: SetOnce::new(),
            is_last: AtomicBool::new(false),
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        lock(&self.current)
    }

    fn current_peer(&self) -> Option<Peer> {
        self.current().as_ref().map(|current| current.peer.clone())
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.initialized()
    }

    /// Returns `true` if the client reconnects when the current connection ends.
    pub(super) fn reconnects(&self) -> bool {
        !self.is_over() && !self.is_last.load(Ordering::SeqCst)
    }

    /// Makes the current connection the last. Without a connection the client ends.
    pub(super) fn stop_reconnecting(&self) {
        self.is_last.store(true, Ordering::SeqCst);
        // No race: if `adopt` runs after this check, it sees that the client has ended.
        let is_none = self.current().is_none();
        if is_none {
            self.end();
        }
    }

    /// The current connection if it is open, or the reason why not.
    pub(super) fn peer(&self) -> Result<Peer, Error> {
        if self.is_over() {
            return Err(match &*self.state.borrow() {
                ClientState::Disconnected(disconnect) => disconnect.to_error(),
                _ => Error::new(ErrorKind::Disconnected).caused_by("the client is closing"),
            });
        }
        let error = match self.current_peer() {
            Some(peer) if peer.shared().state.is_open() => return Ok(peer),
            Some(peer) => peer.shared().closed_error(),
            None => match &*self.state.borrow() {
                ClientState::Connecting { cause: Some(cause), .. }
                | ClientState::Disconnected(cause) => cause.to_error(),
                _ => Error::new(ErrorKind::Disconnected)
                    .caused_by("the first connection is not ready"),
            },
        };
        Err(self.to_client_error(error))
    }

    /// Converts an error of a connection into an error of the client, which may reconnect.
    pub(super) fn to_client_error(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Disconnected || !self.reconnects() {
            return error;
        }
        // A caller that sees the error must not see the state `Connected` of the broken connection. The task may
        // be a moment behind.
        self.note_broken();
        error.interrupted()
    }

    /// Publishes that the current connection is broken, if it is and the client reconnects. The first caller that
    /// notices the break does this. Returns the number of the next attempt.
    pub(super) fn note_broken(&self) -> Option<u32> {
        let mut current = self.current();
        let Current { peer, attempt, begun, next_attempt } = current.as_mut()?;
        if peer.shared().state.is_open() {
            return None;
        }
        let attempt =
            *next_attempt.get_or_insert_with(|| match begun.elapsed() >= self.long_enough {
                true => 1,
                false => next(*attempt),
            });
        if self.reconnects() {
            self.state.send_if_modified(|state| {
                let breaks = state.is_connected();
                if breaks {
                    *state = ClientState::Connecting { attempt, cause: None };
                }
                breaks
            });
        }
        Some(attempt)
    }

    /// Ends the client.
    pub(super) fn end(&self) {
        let _ = self.over.set(());
        // No race: if `adopt` runs after this check, it sees that the client has ended.
        if let Some(peer) = self.current_peer() {
            peer.begin_close(None);
        }
    }

    // ---- for the task

    /// Waits for a future; `None` if the client ends first.
    pub(super) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut over, mut work) = (pin!(self.over.wait()), pin!(work));
        poll_fn(|cx| match over.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// Makes this the current connection. `attempt` is the number of the attempt that made it.
    pub(super) fn adopt(&self, peer: &Peer, attempt: u32) {
        let (peer, begun) = (peer.clone(), Instant::now());
        let mut current = self.current();
        let current = current.insert(Current { peer, attempt, begun, next_attempt: None });
        if self.is_over() {
            return current.peer.begin_close(None);
        }
        self.state.send_replace(ClientState::Connected);
    }

    /// Forgets the current connection, which is closed.
    pub(super) fn let_go(&self) {
        let current = self.current().take();
        drop(current);
    }

    pub(super) fn publish_connecting(&self, attempt: u32, cause: Option<Disconnect>) {
        self.state.send_replace(ClientState::Connecting { attempt, cause });
    }

    /// Publishes the end of the client.
    pub(super) fn finish(&self, disconnect: Disconnect) {
        self.end();
        self.let_go();
        self.state.send_if_modified(|state| {
            let ends = !state.is_disconnected();
            if ends {
                *state = ClientState::Disconnected(disconnect);
            }
            ends
        });
        self.subscriptions.end();
    }
}
