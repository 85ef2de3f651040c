//! The counts of a hub: its connections, and whether it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::peer::{Peers, Registry};

/// State that all clones share.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) open: watch::Sender<usize>,
    pub(super) refusals: AtomicUsize,
    pub(super) is_stopping: watch::Sender<bool>,
    /// Set before the connections hear that it stops, so that they can say so.
    pub(super) going_away: Arc<AtomicBool>,
    pub(super) registry: Arc<Registry>,
}

impl Admission {
    pub(super) fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Admission { registry, ..Admission::default() })
    }

    /// Tells all connections that it is over. Those that are being opened see it for themselves.
    pub(super) fn stop(&self) {
        self.going_away.store(true, Ordering::Relaxed);
        if !self.is_stopping.send_replace(true) {
            for peer in Peers::from_registry(&self.registry) {
                peer.begin_close(None);
            }
        }
    }
}

/// A place among the connections that there may be.
pub(super) struct Permit(Arc<Admission>);

impl Permit {
    /// Takes one, if there are not as many connections already.
    pub(super) fn take(admission: &Arc<Admission>, most: usize) -> Option<Permit> {
        let is_taken = admission.open.send_if_modified(|open| {
            let has_room = *open < most;
            *open += usize::from(has_room);
            has_room
        });
        is_taken.then(|| Permit(Arc::clone(admission)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}
