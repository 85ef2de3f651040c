//! Connection registry of a hub.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::peer::Peer;
use crate::sync::lock;

/// What all clones share.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) open: watch::Sender<usize>,
    pub(super) refusals: AtomicUsize,
    pub(super) is_stopping: watch::Sender<bool>,
    /// Set before the connections hear that it stops, so that they can say so.
    pub(super) going_away: Arc<AtomicBool>,
    /// Those that are open.
    peers: Mutex<HashMap<u64, Peer>>,
    last_key: AtomicU64,
}

/// A connection among those that are closed when the hub stops. It goes with this.
pub(super) struct Entry {
    counts: Arc<Counts>,
    key: u64,
}

impl Entry {
    pub(super) fn add(counts: &Arc<Counts>, peer: Peer) -> Self {
        let key = counts.last_key.fetch_add(1, Ordering::Relaxed);
        let mut peers = counts.peers();
        // Whoever stops the hub either finds it among the others, or has said so already.
        if *counts.is_stopping.borrow() {
            peer.begin_close(None);
        }
        peers.insert(key, peer);
        Entry { counts: Arc::clone(counts), key }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let peer = self.counts.peers().remove(&self.key);
        // What belongs to a connection may be the application's: it goes without the lock.
        drop(peer);
    }
}

impl Counts {
    /// Tells all connections that it is over. Those that are being opened see it for themselves.
    pub(super) fn stop(&self) {
        self.going_away.store(true, Ordering::Relaxed);
        if !self.is_stopping.send_replace(true) {
            for peer in self.peers().values() {
                peer.begin_close(None);
            }
        }
    }

    /// The connections that are open, the oldest first.
    pub(super) fn open_peers(&self) -> Vec<Peer> {
        let peers = self.peers();
        let mut peers: Vec<_> = peers.iter().map(|(key, peer)| (*key, peer.clone())).collect();
        peers.sort_unstable_by_key(|(key, _)| *key);
        peers.into_iter().map(|(_, peer)| peer).collect()
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<u64, Peer>> {
        lock(&self.peers)
    }
}

/// A place among the connections that there may be.
pub(super) struct Permit(Arc<Counts>);

impl Permit {
    /// Takes one, if there are not as many connections already.
    pub(super) fn take(counts: &Arc<Counts>, most: usize) -> Option<Permit> {
        let is_taken = counts.open.send_if_modified(|open| {
            let has_room = *open < most;
            *open += usize::from(has_room);
            has_room
        });
        is_taken.then(|| Permit(Arc::clone(counts)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}
