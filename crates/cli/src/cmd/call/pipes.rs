//! The pipes to a server, and what is known of what went through them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use duet_rpc::transport::{Child, Farewell, Inbox, Outbox, Received, Transport};
use tokio::sync::Notify;

/// The transport of a child that keeps an eye on the traffic.
pub(super) struct Pipes {
    child: Child,
    traffic: Arc<Traffic>,
}

/// What went through the pipes.
#[derive(Default)]
pub(super) struct Traffic {
    has_sent: AtomicBool,
    has_received: AtomicBool,
    news: Notify,
}

impl Pipes {
    pub(super) fn new(child: Child) -> (Pipes, Arc<Traffic>) {
        let traffic = Arc::<Traffic>::default();
        (Pipes { child, traffic: Arc::clone(&traffic) }, traffic)
    }
}

impl Traffic {
    /// Waits until all that was to be sent has gone into the pipe, or the pipes are closed; whether
    /// it was the former. A notification has no other sign that it got there.
    pub(super) async fn sent(&self) -> bool {
        self.news.notified().await;
        self.has_sent.load(Ordering::Acquire)
    }

    /// Whether the server has written anything to its stdout.
    pub(super) fn has_received(&self) -> bool {
        self.has_received.load(Ordering::Acquire)
    }
}

impl Transport for Pipes {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let received = self.child.poll_receive(cx, inbox);
        if let Poll::Ready(Ok(Received::Some | Received::All)) = received {
            self.traffic.has_received.store(true, Ordering::Release);
        }
        received
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let had_something = !outbox.is_empty();
        let sent = self.child.poll_send(cx, outbox);
        if had_something && matches!(sent, Poll::Ready(Ok(()))) {
            self.traffic.has_sent.store(true, Ordering::Release);
            self.traffic.news.notify_one();
        }
        sent
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.child.poll_gone(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        self.traffic.news.notify_one();
        self.child.poll_close(cx)
    }
}
