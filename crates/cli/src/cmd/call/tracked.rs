//! A transport wrapper that reports when everything is sent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use tokio::sync::Notify;

/// A transport that tracks its own writes.
pub(super) struct TrackedTransport {
    transport: Box<dyn Transport>,
    progress: Arc<SendProgress>,
    /// True while bytes wait to be sent.
    is_sending: bool,
}

/// Progress of the writes, shared with the caller.
#[derive(Default)]
pub(super) struct SendProgress {
    has_sent: AtomicBool,
    changed: Notify,
}

impl TrackedTransport {
    pub(super) fn new(transport: Box<dyn Transport>) -> (TrackedTransport, Arc<SendProgress>) {
        let progress = Arc::<SendProgress>::default();
        (
            TrackedTransport { transport, progress: Arc::clone(&progress), is_sending: false },
            progress,
        )
    }
}

impl SendProgress {
    /// Waits until everything is sent, or the transport is closed. Returns true if everything was sent. A
    /// notification has no response, so this is the only sign that it left.
    pub(super) async fn sent(&self) -> bool {
        self.changed.notified().await;
        self.has_sent.load(Ordering::Acquire)
    }
}

impl Transport for TrackedTransport {
    fn kind(&self) -> TransportKind {
        self.transport.kind()
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        self.transport.poll_receive(cx, inbox)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        // A transport may take a message out of the outbox long before the message has left.
        self.is_sending |= !outbox.is_empty();
        let sent = self.transport.poll_send(cx, outbox);
        if matches!(sent, Poll::Ready(Ok(()))) && std::mem::take(&mut self.is_sending) {
            self.progress.has_sent.store(true, Ordering::Release);
            self.progress.changed.notify_one();
        }
        sent
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_remote_closed(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.progress.changed.notify_one();
        self.transport.poll_close(cx)
    }
}
