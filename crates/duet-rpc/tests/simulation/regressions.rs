//! Regressions: a short test for each defect that a seed has found.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc::proto::policy::Order;
use duet_rpc::transport::Stream;
use duet_rpc::{CloseReason, ErrorKind, Failure, Peer, Profile, Router, blocking};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A remote that sends nothing. It fails a peer that polls it endlessly.
#[derive(Default)]
struct Silent(AtomicUsize);

impl AsyncRead for Silent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 10_000, "the peer spins");
        Poll::Pending
    }
}

/// A remote that takes everything, or nothing, or breaks.
#[derive(Clone, Default)]
struct Taker {
    is_stuck: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
}

impl AsyncWrite for Taker {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match (self.is_broken.load(Ordering::Relaxed), self.is_stuck.load(Ordering::Relaxed)) {
            (true, _) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            (false, true) => Poll::Pending,
            (false, false) => Poll::Ready(Ok(bytes.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const TENTH: Duration = Duration::from_millis(100);

/// Seeds that fail if a defect returns, each with its defect. They belong to the current `world`: after a
/// change there, undo each fix and look for new seeds.
const SEEDS: [(u64, &str); 5] = [
    (14, "D27: events after a large message are not sent until other traffic comes"),
    (27, "D27: events after a large message are lost at a graceful close"),
    (1240, "D28: a call that is polled only once starves other senders"),
    (2, "D29: a context that outlives its handler is not cancelled at the end"),
    (184, "D30: progress after a wait for room restarts less than the whole timeout"),
];

#[test]
fn p9_seeds_that_found_a_defect_pass() {
    for (seed, defect) in SEEDS {
        if let Err(failure) = crate::simulate(seed) {
            panic!("{failure}\n{defect}");
        }
    }
}

/// After a failed write, the peer reads answers for a while, but not longer than a close takes. The defect:
/// the driver spun from then on.
#[tokio::test(start_paused = true)]
async fn p5_close_ends_in_time_after_a_failed_write() {
    let taker = Taker::default();
    let profile = Profile::agent().with(|it| it.drain_timeout = TENTH);
    let stream = Stream::new(Silent::default(), taker.clone());
    let (peer, driver) = Peer::builder(stream).profile(profile).router(Router::new()).build();
    let driver = tokio::spawn(driver);
    let pending = tokio::spawn(peer.call::<()>("never", ()));
    tokio::task::yield_now().await;
    let begun = Instant::now();
    let closing = peer.close();
    taker.is_broken.store(true, Ordering::Relaxed);
    peer.notify("last", ()).await.expect("the notification is sent");
    assert_eq!(closing.await.reason(), CloseReason::WriteFailed);
    assert_eq!(begun.elapsed(), TENTH);
    driver.await.expect("the driver does not spin");
    let error = pending.await.expect("no panic").expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

/// A call waits for room at most for its total time.
#[tokio::test(start_paused = true)]
async fn p2_the_time_for_room_counts_for_the_total() {
    let taker = Taker::default();
    taker.is_stuck.store(true, Ordering::Relaxed);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 1);
    let peer = Peer::builder(Stream::new(Silent::default(), taker))
        .profile(profile)
        .router(Router::new())
        .spawn();
    peer.notify("first", ()).await.expect("there is room");
    let begun = Instant::now();
    let call = peer.call::<()>("second", ()).timeout(10 * TENTH).restart_on_progress(1, TENTH);
    assert_eq!(call.await.expect_err("there is no room").kind(), ErrorKind::Timeout);
    assert_eq!(begun.elapsed(), TENTH);
}

/// Progress restarts the whole timeout of a call that had to wait for room, and not only the remaining time.
#[tokio::test(start_paused = true)]
async fn p2_progress_restarts_the_whole_timeout_after_a_wait_for_room() {
    let (mut remote, there) = tokio::io::duplex(100);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 1);
    let peer = Peer::builder(Stream::from_io(there)).profile(profile).router(Router::new()).spawn();
    peer.notify("first", ["x".repeat(200)]).await.expect("there is room");
    let call = peer.call::<u64>("second", ()).timeout(10 * TENTH);
    let id = call.id().as_raw().to_owned();
    let call = tokio::spawn(call.restart_on_progress("token", 100 * TENTH));
    tokio::time::sleep(9 * TENTH).await;
    let mut remote = BufReader::new(&mut remote);
    for method in ["first", "second"] {
        let mut line = String::new();
        remote.read_line(&mut line).await.expect("the connection is open");
        assert!(line.contains(method), "{line}");
    }
    let progress =
        "{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":{\"token\":\"token\"}}\n";
    remote.write_all(progress.as_bytes()).await.expect("the remote reads");
    tokio::time::sleep(9 * TENTH).await;
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":7}}\n");
    remote.write_all(answer.as_bytes()).await.expect("the remote reads");
    assert_eq!(call.await.expect("no panic").expect("the call is answered"), 7);
}

/// Calls always fail in the order in which they were made.
#[tokio::test(start_paused = true)]
async fn p5_pending_calls_fail_in_the_order_of_the_calls() {
    let stream = Stream::new(Silent::default(), Taker::default());
    let profile = Profile::agent().with(|it| it.drain_timeout = TENTH);
    let (peer, driver) = Peer::builder(stream).profile(profile).router(Router::new()).build();
    let driver = tokio::spawn(driver);
    let ended = Arc::new(Mutex::new(Vec::new()));
    for n in 0..50 {
        let (call, ended) = (peer.call::<()>("never", ()), Arc::clone(&ended));
        tokio::spawn(async move {
            call.await.expect_err("nobody answers");
            ended.lock().expect("no panic").push(n);
        });
    }
    tokio::task::yield_now().await;
    driver.abort();
    peer.closed().await;
    while ended.lock().expect("no panic").len() < 50 {
        tokio::task::yield_now().await;
    }
    assert!(ended.lock().expect("no panic").is_sorted(), "{ended:?}");
}

/// Reading stops when too many messages wait. It continues when there is room, even if all messages that were
/// read are handled. The defect: the driver kept sleeping, because nothing woke it for the next bytes.
#[tokio::test(start_paused = true)]
async fn l8_reading_resumes_immediately_when_there_is_room_again() {
    let (here, there) = tokio::io::duplex(1024);
    let go_on = Arc::new(Notify::new());
    let release = Arc::clone(&go_on);
    let router = Router::new().method("wait", move || {
        let release = Arc::clone(&release);
        async move {
            release.notified().await;
            Ok::<_, Failure>(())
        }
    });
    let profile = Profile::agent().with(|it| {
        it.order = Order::Sequential;
        it.limits.waiting = 1;
    });
    let peer = Peer::builder(Stream::from_io(there)).profile(profile).router(router).spawn();
    let mut remote = BufReader::new(here);
    let request = |id: u64| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"wait\"}}\n");
    // The first request runs, the second waits, and the others are not read.
    remote.write_all((request(1) + &request(2)).as_bytes()).await.expect("there is room");
    while peer.stats().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{\"id\":2}}\n";
    remote.write_all(cancel.as_bytes()).await.expect("there is room");
    let begun = Instant::now();
    go_on.notify_one();
    for expected in ["\"id\":1,\"result\":null", "\"id\":2,\"error\":{\"code\":-32800"] {
        let mut answer = String::new();
        remote.read_line(&mut answer).await.expect("the connection is open");
        assert!(answer.contains(expected), "{answer}");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// A writer that passes bytes on only at a flush, and not at the first attempt.
#[derive(Clone, Default)]
struct Reluctant {
    held: Arc<Mutex<Vec<u8>>>,
    passed_on: Arc<Mutex<Vec<u8>>>,
    has_refused: bool,
}

impl AsyncWrite for Reluctant {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.held.lock().expect("no panic").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_refused, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut held = self.held.lock().expect("no panic");
        self.passed_on.lock().expect("no panic").append(&mut held);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Answers that are sent before a slow handler begins are also flushed, even if the flush takes long.
#[tokio::test(start_paused = true)]
async fn f5_an_answer_that_leaves_before_a_slow_handler_begins_is_flushed() {
    let (mut remote, there) = tokio::io::duplex(1024);
    let router = Router::new()
        .method("now", async || Ok::<_, Failure>(()))
        .method("never", blocking(async || std::future::pending::<()>().await));
    let writer = Reluctant::default();
    let passed_on = Arc::clone(&writer.passed_on);
    let peer =
        Peer::builder(Stream::new(there, writer)).profile(Profile::agent()).router(router).spawn();
    let requests = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"now\"}\n\
                    {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"never\"}\n";
    remote.write_all(requests.as_bytes()).await.expect("there is room");
    tokio::time::sleep(TENTH).await;
    let answer = String::from_utf8(passed_on.lock().expect("no panic").clone()).expect("text");
    assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}\n", "{peer:?}");
}
