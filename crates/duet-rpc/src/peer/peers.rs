//! Peers: the open connections of a server.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::{Peer, notification};
use crate::error::Error;
use crate::sync::lock;

/// The open connections of a server, to list them and to notify all of them.
///
/// A handler gets them from its [`Context`](crate::Context::peers). Other code gets them from the
/// [`Server`](crate::Server::peers) or the [`Hub`](crate::Hub::peers), even before these run. On stdin and stdout,
/// and for a [`Peer`] without a server, it is that one connection, so the same handlers work there.
///
/// It is a handle that always shows the current connections. Cloning is cheap.
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
/// A [typed client](mod@crate::service) can also notify all of them: `UiClient::new(cx.peers())`.
///
/// These are all connections, including clients that have not logged in and clients whose calls a
/// [guard](crate::Router::guard) refuses. Use [`filter`](Peers::filter) to leave connections out.
#[derive(Clone)]
pub struct Peers {
    members: Members,
    /// Set by [`Peers::filter`].
    keep: Option<Keep>,
}

/// The condition of a filter.
type Keep = Arc<dyn Fn(&Peer) -> bool + Send + Sync>;

#[derive(Clone)]
enum Members {
    /// One connection without a server.
    One(Peer),
    /// The connections of a hub or a server.
    All(Arc<Registry>),
}

/// The outcome of [`Peers::broadcast`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcast {
    /// The number of connections whose send queue took the notification.
    pub sent: usize,
    /// The number of connections that were skipped because their send queue was full.
    pub skipped: usize,
}

impl Peers {
    pub(crate) fn from_registry(registry: &Arc<Registry>) -> Self {
        Peers { members: Members::All(Arc::clone(registry)), keep: None }
    }

    pub(super) fn one(peer: Peer) -> Self {
        Peers { members: Members::One(peer), keep: None }
    }

    /// The open connections, the oldest first. Holding these handles does not keep a connection open when its
    /// server stops.
    pub fn iter(&self) -> std::vec::IntoIter<Peer> {
        let mut peers: Vec<_> = match &self.members {
            Members::One(peer) if peer.shared().gone.initialized() => Vec::new(),
            Members::One(peer) => vec![peer.clone()],
            Members::All(registry) => lock(&registry.0).peers.values().cloned().collect(),
        };
        // The condition is code of the application, so it runs without the lock.
        if let Some(keep) = &self.keep {
            peers.retain(|peer| keep(peer));
        }
        peers.into_iter()
    }

    /// The connections for which the condition returns `true`: to list them, to notify them, or to make a
    /// typed client for them. The condition is evaluated at each use, so the result always shows the current
    /// connections.
    ///
    /// This notifies the clients that have logged in, and no others:
    ///
    /// ```
    /// use std::sync::OnceLock;
    /// use duet_rpc::{Context, Error, Failure, Peers, Router};
    ///
    /// /// The user who has logged in on a connection.
    /// #[derive(Default)]
    /// struct Session(OnceLock<String>);
    ///
    /// fn members(peers: &Peers) -> Peers {
    ///     peers.filter(|peer| peer.extension::<Session>().0.get().is_some())
    /// }
    ///
    /// let router = Router::new()
    ///     .method("login", |(name, password): (String, String), cx: Context| {
    ///         if password != "sesame" {
    ///             return Err(Failure::new(1001, "wrong password"));
    ///         }
    ///         let session = cx.peer().extension::<Session>();
    ///         session.0.set(name).map_err(|_| Failure::new(1002, "already logged in"))
    ///     })
    ///     .method("say", |(text,): (String,), cx: Context| -> Result<usize, Error> {
    ///         Ok(members(&cx.peers()).broadcast("said", [text])?.sent)
    ///     });
    /// ```
    #[must_use]
    pub fn filter(&self, keep: impl Fn(&Peer) -> bool + Send + Sync + 'static) -> Self {
        let keep: Keep = match self.keep.clone() {
            None => Arc::new(keep),
            Some(before) => Arc::new(move |peer| before(peer) && keep(peer)),
        };
        Peers { members: self.members.clone(), keep: Some(keep) }
    }

    /// The number of open connections.
    pub fn len(&self) -> usize {
        match (&self.members, &self.keep) {
            (Members::All(registry), None) => lock(&registry.0).peers.len(),
            _ => self.iter().len(),
        }
    }

    /// Returns `true` if no connection is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends a notification to all connections without waiting. It skips a connection whose send queue is full,
    /// which then misses the notification. While the shared [budget](crate::HubBuilder::max_outgoing_bytes) is
    /// spent, it skips every connection with unsent bytes. It leaves out HTTP connections, because they carry only
    /// answers.
    ///
    /// It reaches connections that have not logged in: a [guard](crate::Router::guard) sees only messages from
    /// clients, not messages to them. Use [`filter`](Peers::filter) for notifications that are not public.
    ///
    /// The params are written as JSON once. An error means that serde cannot write them, and nothing was sent. If
    /// clients must know which notifications they missed, use [`Peer::events`].
    ///
    /// ```
    /// use duet_rpc::{Error, Peers};
    ///
    /// fn announce(peers: &Peers, version: u64) -> Result<(), Error> {
    ///     let broadcast = peers.broadcast("changed", [version])?;
    ///     println!("sent to {}, skipped {}", broadcast.sent, broadcast.skipped);
    ///     Ok(())
    /// }
    /// ```
    pub fn broadcast(&self, method: &str, params: impl Serialize) -> Result<Broadcast, Error> {
        let message = notification(method, &params)?;
        let mut broadcast = Broadcast::default();
        for peer in self {
            match peer.shared().try_notify(&message) {
                Some(true) => broadcast.sent += 1,
                Some(false) => broadcast.skipped += 1,
                None => {}
            }
        }
        Ok(broadcast)
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

/// The connections of a hub or a server. Registry and connection hold each other, so a connection leaves the
/// registry when it ends, and both can be freed.
#[derive(Default)]
pub(crate) struct Registry(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The connections by age.
    peers: BTreeMap<u64, Peer>,
    next_key: u64,
}

impl Registry {
    /// Adds a connection, and closes it if the server is stopping. A stopping server sets its flag before it walks
    /// the registry, so no connection escapes: it is in the registry, or it sees the flag here.
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

/// The registration of a connection. Dropping it removes the connection from the registry.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let peer = lock(&self.registry.0).peers.remove(&self.key);
        // Dropping a connection can run code of the application, so the lock is released first.
        drop(peer);
    }
}
