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
///
/// All connections means all: those that have not logged in too, and those whose every call a
/// [guard](crate::Router::guard) refuses. [`filter`](Peers::filter) leaves connections out.
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
    pub(crate) fn of(registry: &Arc<Registry>) -> Self {
        Peers { members: Members::All(Arc::clone(registry)), keep: None }
    }

    pub(super) fn one(peer: Peer) -> Self {
        Peers { members: Members::One(peer), keep: None }
    }

    /// The connections that are open, the oldest first. The handles are cheap. A server that stops closes their
    /// connections all the same.
    pub fn iter(&self) -> std::vec::IntoIter<Peer> {
        let mut peers: Vec<_> = match &self.members {
            Members::One(peer) if peer.shared().gone.initialized() => Vec::new(),
            Members::One(peer) => vec![peer.clone()],
            Members::All(registry) => lock(&registry.0).peers.values().cloned().collect(),
        };
        // The condition is the application's, so it is asked without the lock.
        if let Some(keep) = &self.keep {
            peers.retain(|peer| keep(peer));
        }
        peers.into_iter()
    }

    /// The connections for which this returns `true`: to list them, to notify them, and for a typed client of them.
    /// It is asked each time, so the result always shows the connections of the moment too.
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

    /// The number of connections that are open.
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

    /// Sends a notification to all connections, and never waits for one: a connection that has too much to
    /// send already is skipped, and misses this notification. So is one that has anything to send while the
    /// [budget](crate::HubBuilder::max_outgoing_bytes) of all is spent. HTTP connections are left out, because
    /// nothing but answers can go there.
    ///
    /// It reaches connections that have not logged in: a [guard](crate::Router::guard) refuses what clients send,
    /// and does not hold back what they are sent. Use [`filter`](Peers::filter) for notifications that are not public.
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
    pub(crate) fn enter(self: &Arc<Self>, peer: Peer, is_stopping: impl FnOnce() -> bool) -> Entry {
        let mut entries = lock(&self.0);
        if is_stopping() {
            peer.begin_close(None);
        }
        let key = entries.next_key;
        entries.next_key += 1;
        entries.peers.insert(key, peer);
        Entry { registry: Arc::clone(self), key }
    }
}

/// A place in a registry. The connection leaves with it.
pub(crate) struct Entry {
    registry: Arc<Registry>,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let peer = lock(&self.registry.0).peers.remove(&self.key);
        // What belongs to a connection may be the application's: it goes without the lock.
        drop(peer);
    }
}
