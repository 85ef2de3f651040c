//! Connections of one request each, and callers that send by themselves (P2, P8).

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind, memory};
use duet_rpc::{ErrorKind, Hub, Peer, Remote, Router};
use tokio::sync::Notify;

/// The time after which a test counts as hanging. No test depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test and the transport of one request have in common.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<WireState>>);

#[derive(Default)]
struct WireState {
    arriving: VecDeque<&'static str>,
    sent: Vec<String>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Wire {
    fn with<T>(&self, change: impl FnOnce(&mut WireState) -> T) -> T {
        change(&mut self.0.lock().expect("not poisoned"))
    }

    fn push(&self, message: &'static str) {
        let waker = self.with(|wire| {
            wire.arriving.push_back(message);
            wire.waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }

    fn sent(&self) -> Vec<String> {
        self.with(|wire| wire.sent.clone())
    }

    /// Waits for this many messages.
    async fn wait_for(&self, count: usize) -> Vec<String> {
        let sent = async {
            while self.sent().len() < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, sent).await.expect("in time");
        self.sent()
    }
}

struct OneRequest(Wire, TransportKind);

impl Transport for OneRequest {
    fn kind(&self) -> TransportKind {
        self.1
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        self.0.with(|wire| match wire.arriving.pop_front() {
            Some(message) => {
                inbox.push(message.as_bytes())?;
                Poll::Ready(Ok(Received::Data))
            }
            None => {
                wire.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    }

    fn poll_send(&mut self, _: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        self.0.with(|wire| {
            while let Some(message) = outbox.message() {
                wire.sent.push(String::from_utf8_lossy(message).into_owned());
                outbox.pop();
            }
        });
        outbox.take_settled();
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

impl Drop for OneRequest {
    fn drop(&mut self) {
        self.0.with(|wire| wire.is_closed = true);
    }
}

fn request(hub: &Hub, message: &'static str, kind: TransportKind) -> (Wire, Option<Peer>) {
    let wire = Wire::default();
    wire.push(message);
    let peer = hub.attach_here(OneRequest(wire.clone(), kind), Remote::new()).expect("room");
    (wire, peer)
}

#[tokio::test]
async fn p8_a_request_whose_handler_does_not_wait_is_answered_without_a_task() {
    let hub =
        Hub::builder().router(Router::new().method("add", |(a, b): (i64, i64)| a + b)).build();
    for kind in [TransportKind::Exchange, TransportKind::ExchangeTwoWay] {
        for (message, answers) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
                &[r#"{"jsonrpc":"2.0","id":1,"result":3}"#][..],
            ),
            (r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#, &[]),
        ] {
            let (wire, peer) = request(&hub, message, kind);
            assert!(peer.is_none(), "{kind:?}");
            assert_eq!(wire.sent(), answers);
            assert!(wire.with(|wire| wire.is_closed));
            assert_eq!((hub.connections(), hub.peers().len()), (0, 0));
        }
    }
}

#[tokio::test]
async fn p8_a_request_whose_handler_waits_is_served_by_a_task() {
    let released = Arc::new(Notify::new());
    let entered = Arc::clone(&released);
    let router = Router::new().method("wait", move || {
        let released = Arc::clone(&entered);
        async move { released.notified().await }
    });
    let hub = Hub::builder().router(router).max_connections(1).build();
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#;
    let (wire, peer) = request(&hub, message, TransportKind::ExchangeTwoWay);
    assert!(peer.is_some() && wire.sent().is_empty());
    drop(peer);
    assert_eq!(hub.connections(), 1);
    let second =
        hub.attach_here(OneRequest(Wire::default(), TransportKind::Exchange), Remote::new());
    assert_eq!(second.expect_err("no room").kind(), ErrorKind::Capacity);
    released.notify_one();
    assert_eq!(wire.wait_for(1).await, [r#"{"jsonrpc":"2.0","id":1,"result":null}"#]);
    // It waits for the last connection.
    tokio::time::timeout(PATIENCE, hub.stop()).await.expect("in time");
    assert!(wire.with(|wire| wire.is_closed));
    assert_eq!(hub.connections(), 0);
    let late = hub.attach_here(OneRequest(Wire::default(), TransportKind::Exchange), Remote::new());
    assert_eq!(late.expect_err("it has stopped").kind(), ErrorKind::Capacity);
}

#[tokio::test]
async fn p8_the_handler_of_a_two_way_exchange_calls_its_caller() {
    let router = Router::new().method("ask", async |cx: duet_rpc::Context| {
        match cx.peer().call::<String>("name", ()).await {
            Ok(name) => name,
            Err(error) => format!("{:?}", error.kind()),
        }
    });
    let hub = Hub::builder().router(router).build();
    let message = r#"{"jsonrpc":"2.0","id":7,"method":"ask"}"#;
    let (wire, _peer) = request(&hub, message, TransportKind::ExchangeTwoWay);
    assert_eq!(wire.wait_for(1).await, [r#"{"jsonrpc":"2.0","id":1,"method":"name"}"#]);
    wire.push(r#"{"jsonrpc":"2.0","id":1,"result":"Ada"}"#);
    assert_eq!(wire.wait_for(2).await[1], r#"{"jsonrpc":"2.0","id":7,"result":"Ada"}"#);
    // A client over HTTP cannot be called.
    let (wire, _peer) = request(&hub, message, TransportKind::Exchange);
    assert_eq!(wire.wait_for(1).await, [r#"{"jsonrpc":"2.0","id":7,"result":"OneWay"}"#]);
}

/// Counts the messages of another transport.
struct Counted<T> {
    transport: T,
    sent: Arc<AtomicUsize>,
    sends_inline: bool,
}

impl<T: Transport> Transport for Counted<T> {
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
        self.sent.fetch_add(usize::from(!outbox.is_empty()), Ordering::Relaxed);
        self.transport.poll_send(cx, outbox)
    }

    fn sends_inline(&self) -> bool {
        self.sends_inline
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.transport.poll_close(cx)
    }
}

#[tokio::test]
async fn p2_a_caller_sends_its_call_itself_if_the_transport_allows_it() {
    for sends_inline in [false, true] {
        let (here, there) = memory::pair();
        let router = Router::new().method("add", |(a, b): (i64, i64)| a + b);
        let _server = Peer::builder(there).router(router).spawn();
        let sent = Arc::new(AtomicUsize::new(0));
        let transport = Counted { transport: here, sent: Arc::clone(&sent), sends_inline };
        let client = Peer::builder(transport).spawn();
        // The connection begins, and sleeps.
        assert_eq!(client.call::<i64>("add", (1, 1)).await.expect("an answer"), 2);
        for n in 0..10 {
            tokio::task::yield_now().await;
            let before = sent.load(Ordering::Relaxed);
            let mut call = pin!(client.call::<i64>("add", (n, 1)));
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            // No other task has run since.
            let after = sent.load(Ordering::Relaxed);
            assert_eq!(after - before, usize::from(sends_inline));
            assert_eq!(call.await.expect("an answer"), n + 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p2_calls_of_many_callers_that_send_themselves_are_all_answered() {
    let (here, there) = memory::pair();
    let router = Router::new().method("add", |(a, b): (u64, u64)| a + b);
    let _server = Peer::builder(there).router(router).spawn();
    let sent = Arc::new(AtomicUsize::new(0));
    let client = Peer::builder(Counted { transport: here, sent, sends_inline: true }).spawn();
    for callers in [1, 2, 3, 5, 64] {
        let calls: Vec<_> = (0..callers)
            .map(|caller: u64| {
                let client = client.clone();
                tokio::spawn(async move {
                    for n in 0..2000 {
                        let sum = client.call::<u64>("add", (caller, n)).await.expect("an answer");
                        assert_eq!(sum, caller + n);
                    }
                })
            })
            .collect();
        for call in calls {
            tokio::time::timeout(PATIENCE, call).await.expect("it hangs").expect("no panic");
        }
    }
    assert_eq!(client.stats().pending_calls, 0);
    // Dropped calls are cancelled, and the connection closes.
    for _ in 0..100 {
        let mut call = pin!(client.call::<u64>("add", (1, 2)));
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    tokio::time::timeout(PATIENCE, client.close()).await.expect("it closes");
}
