//! Peers: the open connections of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::{Peer, notification};
use crate::error::Error;
use crate::sync::lock;

/// The open connections of a server: to list them, and to notify all of them.
///
/// A handler asks its [`Context`](crate::Context::peers), and code outside of handlers asks the
/// [`Server`](crate::Server::peers) or the [`Hub`](crate::Hub::peers), even before they run. On stdin and stdout,
/// and for a [`Peer`] on its own, it is that one connection, so the same handlers work there.
///
/// It is a handle that is cheap to clone, and always shows the connections of the moment.
///
/// ```
/// use duet_rpc::{Context, Error, Router};
///
/// let router = Router::new().method("say", |(text,): (String,), cx: Context| -> Result<(), Error> {
///     cx.peers().broadcast("said", [text])?;
///     Ok(())
/// });
/// ```
///
/// A [typed client](mod@crate::service) of these peers notifies all of them too: `UiClient::new(cx.peers())`.
#[derive(Clone)]
pub struct Peers(Members);

#[derive(Clone)]
enum Members {
    /// A connection on its own.
    One(Peer),
    /// The connections of a hub or a server.
    All(Arc<Registry>),
}

/// The outcome of [`Peers::broadcast`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcast {
    /// The number of connections that the notification is on its way to.
    pub sent: usize,
    /// The number of connections that were skipped, because too much waits to be sent there.
    pub skipped: usize,
}

impl Peers {
    pub(crate) fn from_registry(registry: &Arc<Registry>) -> Self {
        Peers(Members::All(Arc::clone(registry)))
    }

    pub(super) fn one(peer: Peer) -> Self {
        Peers(Members::One(peer))
    }

    /// The connections that are open, the oldest first. The handles are cheap. A server that stops closes their
    /// connections all the same.
    pub fn iter(&self) -> std::vec::IntoIter<Peer> {
        let peers: Vec<_> = match &self.0 {
            Members::One(peer) if peer.shared().gone.initialized() => Vec::new(),
            Members::One(peer) => vec![peer.clone()],
            Members::All(registry) => lock(&registry.0).peers.values().cloned().collect(),
        };
        peers.into_iter()
    }

    /// The number of connections that are open.
    pub fn len(&self) -> usize {
        match &self.0 {
            Members::One(_) => self.iter().len(),
            Members::All(registry) => lock(&registry.0).peers.len(),
        }
    }

    /// Returns `true` if no connection is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends a notification to all connections, and never waits for one: a connection that has too much to
    /// send already is skipped, and misses this notification. So is one that has anything to send while the
    /// [budget](crate::HubBuilder::max_outgoing_bytes) of all is spent. HTTP connections are left out, because
    /// nothing but answers can go there.
    ///
    /// It is written as JSON once. An error means that the params cannot be, and nothing was sent. For
    /// clients that have to know what they missed, use [`Peer::events`].
    ///
    /// ```
    /// use duet_rpc::{Error, Peers};
    ///
    /// fn announce(peers: &Peers, version: u64) -> Result<(), Error> {
    ///     let told = peers.broadcast("changed", [version])?;
    ///     println!("{} were told, {} are too slow", told.sent, told.skipped);
    ///     Ok(())
    /// }
    /// ```
    pub fn broadcast(&self, method: &str, params: impl Serialize) -> Result<Broadcast, Error> {
        let message = notification(method, &params)?;
        let mut told = Broadcast::default();
        for peer in self {
            match peer.shared().try_notify(&message) {
                Some(true) => told.sent += 1,
                Some(false) => told.skipped += 1,
                None => {}
            }
        }
        Ok(told)
    }
}

impl IntoIterator for &Peers {
    type Item = Peer;
    type IntoIter = std::vec::IntoIter<Peer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Peers {
    type Item = Peer;
    type IntoIter = std::vec::IntoIter<Peer>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The connections of a hub or a server. A connection leaves it when it ends, so that the two, which hold each
/// other, are freed.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// By age.
    peers: BTreeMap<u64, Peer>,
    next_key: u64,
}

impl Registry {
    /// Adds a connection, which is closed if the server stops already. Whoever stops the server sets that before
    /// it looks here, so it either finds the connection here or has set it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: Peer,
        is_stopping: impl FnOnce() -> bool,
    ) -> Registration {
        let mut entries = lock(&self.0);
        if is_stopping() {
            peer.begin_close(None);
        }
        let key = entries.next_key;
        entries.next_key += 1;
        entries.peers.insert(key, peer);
        Registration { registry: Arc::clone(self), key }
    }
}

/// A place in a registry. The connection leaves with it.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let peer = lock(&self.registry.0).peers.remove(&self.key);
        // What belongs to a connection may be the application's: it goes without the lock.
        drop(peer);
    }
}
