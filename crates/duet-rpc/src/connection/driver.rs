//! Driver: the future that does the work of a connection, from its first poll to its end.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use super::worker_pool::WorkerPool;
use super::{Connection, Shared};
use crate::error::Disconnect;
use crate::peer::Handle;
use crate::router::Router;
use crate::transport::{Inbox, Transport};

/// Does the work of a [`Peer`](crate::Peer): a future that ends with the connection, and returns the reason.
#[must_use = "nothing happens on a connection whose driver is not polled"]
pub(crate) struct Driver {
    /// The connection borrows frames from it while it handles them.
    pub(super) inbox: Inbox,
    pub(super) connection: Connection,
}

impl Driver {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        router: Router,
        shared: Arc<Shared>,
        handle: Weak<Handle>,
    ) -> Self {
        let inbox = Inbox::new(transport.kind(), &shared.profile);
        let framing = inbox.framing();
        Driver { inbox, connection: Connection::new(transport, router, shared, handle, framing) }
    }

    /// The span of the connection, for the log.
    pub(crate) fn span(&self) -> &tracing::Span {
        &self.connection.shared.span
    }

    /// Shares the thread, and its large buffers, with other connections.
    pub(crate) fn share_thread(&mut self) {
        self.connection.shares_thread = true;
    }

    /// Runs handlers that may block on these workers.
    pub(crate) fn use_pool(&mut self, pool: Option<Arc<WorkerPool>>) {
        self.connection.dispatch.pool = pool;
    }

    /// Returns `true` if the runtime is not needed: no handler runs, and nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Returns `true` if this is an exchange that is over.
    pub(crate) fn is_answered(&self) -> bool {
        self.connection.is_answered()
    }

    /// Returns `true` while a method runs for the first time, which measures its pace.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.connection.dispatch.trial_ends.is_some()
    }

    /// The number of messages so far.
    pub(crate) fn messages(&self) -> u64 {
        self.connection.shared.counts.messages.load(Ordering::Relaxed)
    }
}

impl Future for Driver {
    type Output = Disconnect;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let Driver { inbox, connection } = &mut *self;
        // A disabled span is not cloned.
        let span = &connection.shared.span;
        let _inside = (!span.is_disabled()).then(|| span.clone().entered());
        if connection.stage.is_open() {
            connection.begin();
            match connection.run(inbox, cx) {
                Ok(()) => {
                    inbox.give_buffer_back();
                    if connection.shares_thread {
                        inbox.recycle_buffer();
                        connection.outbox.recycle_buffer();
                    }
                    return Poll::Pending;
                }
                Err(disconnect) => connection.abandon(disconnect),
            }
        }
        connection.poll_close(cx)
    }
}

impl Drop for Driver {
    /// Ends the connection, so that nobody waits for a dropped driver.
    fn drop(&mut self) {
        self.connection.drop_stage();
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = &self.connection.session;
        f.debug_struct("Driver").field("session", session).finish_non_exhaustive()
    }
}
