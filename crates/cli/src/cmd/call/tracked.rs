//! A transport wrapper that reports when everything is sent, and when the first bytes show that no answer will come.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use tokio::sync::Notify;

use super::first_bytes::{FirstBytes, FirstSign};

/// A transport that tracks its own writes, and looks at the first bytes that it reads.
pub(super) struct TrackedTransport {
    transport: Box<dyn Transport>,
    progress: Arc<TransportProgress>,
    /// True while bytes wait to be sent.
    is_sending: bool,
    /// `None` when the first bytes have told enough.
    first: Option<FirstBytes>,
}

/// Observations, shared with the caller.
#[derive(Default)]
pub(super) struct TransportProgress {
    /// Counts how often everything was sent.
    flushes: AtomicU64,
    is_closed: AtomicBool,
    changed: Notify,
    sign: OnceLock<FirstSign>,
    has_sign: Notify,
    first_line: Mutex<String>,
}

impl TrackedTransport {
    /// A transport to a server that is expected to speak this framing, if it carries bytes.
    pub(super) fn new(
        transport: Box<dyn Transport>,
        framing: Framing,
    ) -> (TrackedTransport, Arc<TransportProgress>) {
        let progress = Arc::<TransportProgress>::default();
        let has_framing = transport.kind() == TransportKind::Bytes;
        let first = has_framing.then(|| FirstBytes::new(framing));
        let shared = Arc::clone(&progress);
        (TrackedTransport { transport, progress: shared, is_sending: false, first }, progress)
    }

    /// Looks at the bytes that were added to the inbox.
    fn look_at(&mut self, inbox: &mut Inbox, before: usize) -> io::Result<()> {
        let Some(first) = &mut self.first else { return Ok(()) };
        let received = inbox.space()?;
        let found = first.handle_received(received.get(before..).unwrap_or_default());
        let line = &mut *self.progress.first_line.lock().unwrap_or_else(PoisonError::into_inner);
        *line = first.first_line();
        if found == Some(FirstSign::Echo) {
            // Our own request is not a request of the server.
            received.truncate(before);
        }
        if first.is_done() {
            self.first = None;
        }
        if let Some(found) = found
            && self.progress.sign.set(found).is_ok()
        {
            self.progress.has_sign.notify_one();
        }
        Ok(())
    }
}

impl TransportProgress {
    pub(super) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Acquire)
    }

    /// Waits until everything is sent once more than `before`, or the transport is closed. Returns true if everything
    /// was sent. A notification has no response, so this is the only sign that it left.
    pub(super) async fn sent_after(&self, before: u64) -> bool {
        loop {
            if self.flushes() > before {
                return true;
            }
            if self.is_closed.load(Ordering::Acquire) {
                return false;
            }
            self.changed.notified().await;
        }
    }

    /// Waits until the first bytes show that no answer will come.
    pub(super) async fn sign(&self) -> FirstSign {
        loop {
            if let Some(sign) = self.sign.get() {
                return *sign;
            }
            self.has_sign.notified().await;
        }
    }

    /// The beginning of the first line that the server wrote.
    pub(super) fn first_line(&self) -> String {
        self.first_line.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
        if self.first.is_none() {
            return self.transport.poll_receive(cx, inbox);
        }
        let before = inbox.space()?.len();
        let received = self.transport.poll_receive(cx, inbox);
        self.look_at(inbox, before)?;
        received
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        // A transport may take a message out of the outbox long before the message has left.
        self.is_sending |= !outbox.is_empty();
        if let Some(first) = &mut self.first {
            first.handle_sent(outbox.bytes());
        }
        let sent = self.transport.poll_send(cx, outbox);
        if matches!(sent, Poll::Ready(Ok(()))) && std::mem::take(&mut self.is_sending) {
            self.progress.flushes.fetch_add(1, Ordering::Release);
            self.progress.changed.notify_one();
        }
        sent
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.transport.poll_remote_closed(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.progress.is_closed.store(true, Ordering::Release);
        self.progress.changed.notify_one();
        self.transport.poll_close(cx)
    }
}
