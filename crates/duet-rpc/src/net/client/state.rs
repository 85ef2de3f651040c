//! The state that the handles of a client share with its reconnect task.

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

pub(super) struct SharedState {
    pub(super) state: watch::Sender<ClientState>,
    /// The connection, from when it is made until it is closed.
    current: Mutex<Option<Current>>,
    pub(super) subscriptions: Arc<ClientSubscriptions>,
    /// A connection that stood for less was an attempt that came to nothing: a remote that takes every connection
    /// and drops it must not be hurried.
    long_enough: Duration,
    /// Set when no further connection is to be made.
    over: SetOnce<()>,
    /// Set when the connection of the moment is to be the last one.
    is_last: AtomicBool,
}

struct Current {
    peer: Peer,
    /// The number of the attempt that made it.
    attempt: u32,
    begun: Instant,
    /// The number of the next attempt; set when the connection is found broken.
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

    /// Returns `true` if another connection follows when this one ends.
    pub(super) fn reconnects(&self) -> bool {
        !self.is_over() && !self.is_last.load(Ordering::SeqCst)
    }

    /// The connection of the moment is the last one; without one it is over.
    pub(super) fn stop_reconnecting(&self) {
        self.is_last.store(true, Ordering::SeqCst);
        // Either there is a connection here, or whoever adopts one sees that it is over.
        let is_none = self.current().is_none();
        if is_none {
            self.end();
        }
    }

    /// The connection, if messages come and go on it, or why there is none.
    pub(super) fn peer(&self) -> Result<Peer, Error> {
        if self.is_over() {
            return Err(match &*self.state.borrow() {
                ClientState::Disconnected(disconnect) => disconnect.to_error(),
                _ => Error::new(ErrorKind::Disconnected).caused_by("it is closing"),
            });
        }
        let error = match self.current_peer() {
            Some(peer) if peer.shared().state.borrow().is_open() => return Ok(peer),
            Some(peer) => peer.shared().closed_error(),
            None => match &*self.state.borrow() {
                ClientState::Connecting { cause: Some(cause), .. }
                | ClientState::Disconnected(cause) => cause.to_error(),
                _ => Error::new(ErrorKind::Disconnected).caused_by("it is being made"),
            },
        };
        Err(self.judge(error))
    }

    /// An error of a connection: that one is gone, but the client may make another.
    pub(super) fn judge(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Disconnected || !self.reconnects() {
            return error;
        }
        // Whoever sees the error must not find the broken connection in the state. The task may be a moment behind.
        self.note_broken();
        error.interrupted()
    }

    /// Shows in the state that the connection of the moment is broken, if it is and another is to come; whoever
    /// finds out first does. Returns the number of the next attempt.
    pub(super) fn note_broken(&self) -> Option<u32> {
        let mut current = self.current();
        let Current { peer, attempt, begun, next_attempt } = current.as_mut()?;
        if peer.shared().state.borrow().is_open() {
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

    /// Makes an end for good, whatever is under way.
    pub(super) fn end(&self) {
        let _ = self.over.set(());
        // Either the connection is seen here, or whoever adopts it sees that it is over.
        if let Some(peer) = self.current_peer() {
            peer.begin_close(None);
        }
    }

    // ---- for the task

    /// The output of a future; `None` if the client ends before.
    pub(super) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut over, mut work) = (pin!(self.over.wait()), pin!(work));
        poll_fn(|cx| match over.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// This is the connection from here on, made by the attempt of this number.
    pub(super) fn adopt(&self, peer: &Peer, attempt: u32) {
        let (peer, begun) = (peer.clone(), Instant::now());
        let mut current = self.current();
        let current = current.insert(Current { peer, attempt, begun, next_attempt: None });
        if self.is_over() {
            return current.peer.begin_close(None);
        }
        self.state.send_replace(ClientState::Connected);
    }

    /// The connection is closed.
    pub(super) fn let_go(&self) {
        let current = self.current().take();
        drop(current);
    }

    pub(super) fn publish_connecting(&self, attempt: u32, cause: Option<Disconnect>) {
        self.state.send_replace(ClientState::Connecting { attempt, cause });
    }

    /// Nothing more happens.
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
