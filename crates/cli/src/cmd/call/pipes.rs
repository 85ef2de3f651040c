//! The pipes to a server, and whether what was to be sent is in them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use duet_rpc::transport::{Child, Farewell, Inbox, Outbox, Received, Transport};
use tokio::sync::Notify;

/// The transport of a child that keeps an eye on what is sent.
pub(super) struct Pipes {
    child: Child,
    traffic: Arc<Traffic>,
}

/// What became of what was to be sent.
#[derive(Default)]
pub(super) struct Traffic {
    has_sent: AtomicBool,
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
}

impl Transport for Pipes {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        self.child.poll_receive(cx, inbox)
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
