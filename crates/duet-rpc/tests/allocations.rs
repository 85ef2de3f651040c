//! What a message costs in allocations (S3).
//!
//! The server alone is driven and counted: a hand-made transport gives it the same request again
//! and again, already in memory, and throws its answers away.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport};
use duet_rpc::{Failure, Peer, Profile, Router};
use serde::Deserialize;

/// Gives out the same bytes again when it is told to.
struct Loop {
    request: &'static [u8],
    left: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Transport for Loop {
    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        use std::sync::atomic::Ordering::SeqCst;
        if self.left.load(SeqCst) == 0 {
            return Poll::Pending;
        }
        self.left.fetch_sub(1, SeqCst);
        inbox.space()?.extend_from_slice(self.request);
        Poll::Ready(Ok(Received::Data))
    }

    fn poll_send(&mut self, _: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        outbox.consume(outbox.len());
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

#[derive(Deserialize)]
struct Range {
    from: i64,
    to: i64,
}

/// The allocations for each message, once all buffers have their size.
fn allocations_of(request: &'static [u8]) -> u64 {
    const COUNT: usize = 1000;
    let router = Router::new()
        .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
        .method("length", async |range: Range| Ok::<_, Failure>(range.to - range.from))
        .method("ping", async || Ok::<_, Failure>("pong"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _inside = runtime.enter();
    let left = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(COUNT));
    let transport = Loop { request, left: std::sync::Arc::clone(&left) };
    let (_peer, driver) = Peer::builder(transport).profile(Profile::agent()).router(router).build();
    let mut driver = pin!(driver);
    let mut poll_all = || {
        while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
            assert!(driver.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    };
    poll_all();
    left.store(COUNT, std::sync::atomic::Ordering::SeqCst);
    let counted = allocation_counter::measure(poll_all);
    // One or two for the whole run do not count, one for each message does.
    (counted.count_total + COUNT as u64 / 2) / COUNT as u64
}

#[test]
fn s3_a_handler_that_is_ready_at_once_costs_no_allocation() {
    for request in [
        &b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n"[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"method\":\"ping\",\"params\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"add\",\"params\":[1,2]}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"length\",\"params\":{\"from\":1,\"to\":2}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[1,2]}\n",
    ] {
        assert_eq!(allocations_of(request), 0, "{}", String::from_utf8_lossy(request));
    }
}
