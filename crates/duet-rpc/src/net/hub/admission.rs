//! Admission of connections to a hub: their number, the refusals, and the stop flag.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use crate::peer::{Peers, Registry};

/// The admission state that all clones of a hub share.
#[derive(Default)]
pub(super) struct Admission {
    open: AtomicUsize,
    /// Notified when the last connection has ended.
    none_is_open: Notify,
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

    /// The number of open connections.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Waits until no connection is open.
    pub(super) async fn wait_for_last(&self) {
        loop {
            let mut none_is_open = pin!(self.none_is_open.notified());
            // This wait notices an end that comes from now on, and the check below notices one that came earlier.
            none_is_open.as_mut().enable();
            if self.open() == 0 {
                return;
            }
            none_is_open.await;
        }
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
        let one_more = |open: usize| (open < most).then_some(open + 1);
        let is_taken =
            admission.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok();
        is_taken.then(|| Permit(Arc::clone(admission)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_is_open.notify_waiters();
        }
    }
}
