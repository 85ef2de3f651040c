//! Published state of a connection. The channel for waiting on it is made on demand: most connections need none, and
//! over HTTP each request is a connection.

use std::sync::{Mutex, OnceLock};

use tokio::sync::watch;

use crate::error::ConnectionState;
use crate::sync::lock;
use crate::transport::TransportKind;

pub(crate) struct PublishedState {
    current: Mutex<ConnectionState>,
    /// Made by the first receiver, while `current` is locked.
    channel: OnceLock<watch::Sender<ConnectionState>>,
}

impl PublishedState {
    pub(super) fn new(kind: TransportKind) -> Self {
        // An exchange has its message already.
        let state = match kind.is_exchange() {
            true => ConnectionState::Connected,
            false => ConnectionState::Connecting,
        };
        PublishedState { current: Mutex::new(state), channel: OnceLock::new() }
    }

    pub(crate) fn get(&self) -> ConnectionState {
        lock(&self.current).clone()
    }

    pub(crate) fn is_open(&self) -> bool {
        lock(&self.current).is_open()
    }

    pub(super) fn set(&self, state: ConnectionState) {
        let mut current = lock(&self.current);
        *current = state.clone();
        // A receiver that comes later reads the new state.
        let channel = self.channel.get();
        drop(current);
        if let Some(channel) = channel {
            channel.send_replace(state);
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<ConnectionState> {
        let current = lock(&self.current);
        self.channel.get_or_init(|| watch::Sender::new(current.clone())).subscribe()
    }
}
