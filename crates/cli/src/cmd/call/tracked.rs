//! A transport wrapper that reports when everything is sent, and when the server speaks another framing.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use duet_rpc::proto::frame::Framing;
use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use tokio::sync::Notify;

use super::other_framing::FramingCheck;

/// A transport that tracks its own writes, and looks at the first bytes that it reads.
pub(super) struct TrackedTransport {
    transport: Box<dyn Transport>,
    progress: Arc<TransportProgress>,
    /// True while bytes wait to be sent.
    is_sending: bool,
    /// `None` when the framing is settled.
    check: Option<FramingCheck>,
}

/// Observations, shared with the caller.
#[derive(Default)]
pub(super) struct TransportProgress {
    /// Counts how often everything was sent.
    flushes: AtomicU64,
    is_closed: AtomicBool,
    changed: Notify,
    other_framing: OnceLock<Framing>,
    framing_changed: Notify,
}

impl TrackedTransport {
    /// A transport to a server that is expected to speak this framing, if it carries bytes.
    pub(super) fn new(
        transport: Box<dyn Transport>,
        framing: Framing,
    ) -> (TrackedTransport, Arc<TransportProgress>) {
        let progress = Arc::<TransportProgress>::default();
        let has_framing = transport.kind() == TransportKind::Bytes;
        let check = has_framing.then(|| FramingCheck::new(framing));
        let shared = Arc::clone(&progress);
        (TrackedTransport { transport, progress: shared, is_sending: false, check }, progress)
    }

    /// Looks at the bytes that were added to the inbox.
    fn check_framing(&mut self, inbox: &mut Inbox, before: usize) -> io::Result<()> {
        let Some(check) = &mut self.check else { return Ok(()) };
        let found = check.handle_bytes(inbox.space()?.get(before..).unwrap_or_default());
        if check.is_done() {
            self.check = None;
        }
        if let Some(framing) = found
            && self.progress.other_framing.set(framing).is_ok()
        {
            self.progress.framing_changed.notify_one();
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

    /// Waits until the first bytes show that the server speaks this other framing.
    pub(super) async fn other_framing(&self) -> Framing {
        loop {
            if let Some(framing) = self.other_framing.get() {
                return *framing;
            }
            self.framing_changed.notified().await;
        }
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
        if self.check.is_none() {
            return self.transport.poll_receive(cx, inbox);
        }
        let before = inbox.space()?.len();
        let received = self.transport.poll_receive(cx, inbox);
        self.check_framing(inbox, before)?;
        received
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        // A transport may take a message out of the outbox long before the message has left.
        self.is_sending |= !outbox.is_empty();
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
