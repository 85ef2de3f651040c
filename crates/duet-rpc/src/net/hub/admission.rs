//! Admission of connections to a hub: their number, the refusals, and the stop flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::peer::{Peers, Registry};

/// The admission state that all clones of a hub share.
#[derive(Default)]
pub(super) struct Admission {
    pub(super) open: watch::Sender<usize>,
    pub(super) refusals: AtomicUsize,
    pub(super) is_stopping: watch::Sender<bool>,
    /// Set before the connections close, so that they can tell their remotes that the server stops.
    pub(super) going_away: Arc<AtomicBool>,
    pub(super) registry: Arc<Registry>,
}

impl Admission {
    pub(super) fn new(registry: Arc<Registry>) -> Arc<Self> {
        Arc::new(Admission { registry, ..Admission::default() })
    }

    /// Closes all open connections. A connection that is still being opened watches `is_stopping`.
    pub(super) fn stop(&self) {
        self.going_away.store(true, Ordering::Relaxed);
        if !self.is_stopping.send_replace(true) {
            for peer in Peers::from_registry(&self.registry) {
                peer.begin_close(None);
            }
        }
    }
}

/// The permit of one connection. The number of permits is the number of connections.
pub(in crate::net) struct Permit(Arc<Admission>);

impl Permit {
    /// Takes a permit; `None` if there are `most` connections already.
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
