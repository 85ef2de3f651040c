//! The state that the handles of a client share with its reconnect task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Poll;

use tokio::sync::{SetOnce, watch};

use super::ClientState;
use crate::error::Disconnect;
use crate::error::{Error, ErrorKind};
use crate::peer::Peer;
use crate::sync::lock;

pub(super) struct Line {
    pub(super) state: watch::Sender<ClientState>,
    /// The connection, from when it is made until it is closed.
    peer: Mutex<Option<Peer>>,
    /// Set when no further connection is to be made.
    over: SetOnce<()>,
    /// Set when the connection of the moment is to be the last one.
    is_last: AtomicBool,
}

impl Line {
    pub(super) fn new() -> Self {
        let state = ClientState::Connecting { attempt: 1, cause: None };
        Line {
            state: watch::Sender::new(state),
            peer: Mutex::default(),
            over: SetOnce::new(),
            is_last: AtomicBool::new(false),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Peer>> {
        lock(&self.peer)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.initialized()
    }

    /// Whether another connection is made when this one ends.
    pub(super) fn reconnects(&self) -> bool {
        !self.is_over() && !self.is_last.load(Ordering::SeqCst)
    }

    /// The connection of the moment is the last one; without one it is over.
    pub(super) fn stop_reconnecting(&self) {
        self.is_last.store(true, Ordering::SeqCst);
        // Either there is a connection here, or whoever adopts one sees that it is over.
        let is_none = self.slot().is_none();
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
        let peer = self.slot().clone();
        let error = match peer {
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
        let comes_back = error.kind() == ErrorKind::Disconnected && self.reconnects();
        if comes_back { error.interrupted() } else { error }
    }

    /// Makes an end for good, whatever is under way.
    pub(super) fn end(&self) {
        let _ = self.over.set(());
        // Either the connection is seen here, or whoever adopts it sees that it is over.
        let peer = self.slot().clone();
        if let Some(peer) = peer {
            peer.begin_close(None);
        }
    }

    // ---- for the task

    /// What a future comes to; `None` if it is over before.
    pub(super) async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut over, mut work) = (pin!(self.over.wait()), pin!(work));
        poll_fn(|cx| match over.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => work.as_mut().poll(cx).map(Some),
        })
        .await
    }

    /// This is the connection from here on.
    pub(super) fn adopt(&self, peer: &Peer) {
        *self.slot() = Some(peer.clone());
        if self.is_over() {
            return peer.begin_close(None);
        }
        self.state.send_replace(ClientState::Connected);
    }

    /// The connection is closed.
    pub(super) fn let_go(&self) {
        let peer = self.slot().take();
        drop(peer);
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
    }
}
