//! The allocations of a message (S3).
//!
//! The test runs only a server and counts its allocations. A transport in memory gives it the same request
//! repeatedly, and drops its answers.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport};
use duet_rpc::{Arrival, Ended, Observer, Peer, Profile, Router, State};
use serde::Deserialize;

/// A transport that delivers the same bytes on request.
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

fn router() -> Router {
    Router::with_state(7_i64)
        .method("add", async |(a, b): (i64, i64)| a + b)
        .method("length", async |range: Range| range.to - range.from)
        .method("ping", async || "pong")
        .method("sync", |state: State<i64>, (a,): (i64,)| a + *state)
}

/// Reads everything that it can see without a copy.
struct Nosy;

impl Observer for Nosy {
    fn arrived(&self, message: &Arrival<'_>) {
        assert!(!message.method().is_empty() && message.peer().stats().faults == 0);
    }

    fn ended(&self, message: &Ended<'_>) {
        assert_eq!(message.end(), duet_rpc::End::Result);
    }
}

/// The number of allocations for each message, after all buffers have grown to their final size.
fn allocations_of(router: Router, request: &'static [u8]) -> u64 {
    const COUNT: usize = 1000;
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
    // One or two allocations for the whole run do not count; one for each message does.
    (counted.count_total + COUNT as u64 / 2) / COUNT as u64
}

const REQUESTS: [&[u8]; 6] = [
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"method\":\"ping\",\"params\":{}}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"add\",\"params\":[1,2]}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"length\",\"params\":{\"from\":1,\"to\":2}}\n",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[1,2]}\n",
    b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"sync\",\"params\":[1]}\n",
];

#[test]
fn s3_a_handler_that_is_ready_immediately_costs_no_allocation() {
    for request in REQUESTS {
        assert_eq!(allocations_of(router(), request), 0, "{}", String::from_utf8_lossy(request));
    }
}

#[test]
fn s3_a_guard_and_an_observer_cost_no_allocation() {
    let router = router().observe(Nosy).guard(|message| match message.method() {
        "" => Err(duet_rpc::Failure::new(-32001, "No name")),
        _ => Ok(()),
    });
    for request in REQUESTS {
        let allocations = allocations_of(router.clone(), request);
        assert_eq!(allocations, 0, "{}", String::from_utf8_lossy(request));
    }
}

/// A wrapper's future is polled in reused memory. Each wrapper boxes the future of an `async` handler inside it, and
/// copies the params. The result is written once, into memory that then shrinks: two allocations.
#[test]
fn s3_a_wrapper_costs_one_box_and_copies_of_params_and_result() {
    let wrapped = || router().wrap(async |request, next| next.run(request).await);
    let rows = [
        ("async, without params", REQUESTS[0], [3, 4]),
        ("async, with params", REQUESTS[2], [4, 6]),
        ("not async, with params", REQUESTS[5], [3, 5]),
    ];
    for (row, request, expected) in rows {
        let twice = wrapped().wrap(async |request, next| next.run(request).await);
        let counted = [allocations_of(wrapped(), request), allocations_of(twice, request)];
        assert_eq!(counted, expected, "{row}: one wrapper, two wrappers");
    }
}
