//! What seeds have found, each alone and in few lines.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc::proto::Limits;
use duet_rpc::transport::Stream;
use duet_rpc::{ErrorKind, Peer, Profile, Reason, Router};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// A remote that says nothing. Who asks it for ever is stopped.
#[derive(Default)]
struct Silent(AtomicUsize);

impl AsyncRead for Silent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < 10_000, "it spins");
        Poll::Pending
    }
}

/// A remote that takes all, or nothing, or breaks.
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

/// A remote that cannot be written to may go on to answer for a while, but not beyond the time that a
/// closing has; the driver even spun from then on.
#[tokio::test(start_paused = true)]
async fn p5_a_closing_ends_in_time_although_the_remote_cannot_be_written_to() {
    let taker = Taker::default();
    let profile = Profile { drain_timeout: TENTH, ..Profile::agent() };
    let stream = Stream::new(Silent::default(), taker.clone());
    let (peer, driver) = Peer::new(stream, &profile, Router::new());
    let driver = tokio::spawn(driver);
    let pending = tokio::spawn(peer.call::<()>("never", ()));
    tokio::task::yield_now().await;
    let begun = Instant::now();
    let closing = peer.close();
    taker.is_broken.store(true, Ordering::Relaxed);
    peer.notify("last", ()).await.expect("it is still taken");
    assert_eq!(closing.await.reason(), Reason::WriteFailed);
    assert_eq!(begun.elapsed(), TENTH);
    driver.await.expect("it did not spin");
    let error = pending.await.expect("no panic").expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
}

/// A call that waits for room does not do so beyond its total.
#[tokio::test(start_paused = true)]
async fn p2_the_time_for_room_counts_for_the_total() {
    let taker = Taker::default();
    taker.is_stuck.store(true, Ordering::Relaxed);
    let limits = Limits { outgoing_bytes: 1, ..Limits::default() };
    let profile = Profile { limits, ..Profile::agent() };
    let peer = Peer::spawn(Stream::new(Silent::default(), taker), &profile, Router::new());
    peer.notify("first", ()).await.expect("there is room");
    let begun = Instant::now();
    let call = peer.call::<()>("second", ()).timeout(10 * TENTH).restart_on_progress(1, TENTH);
    assert_eq!(call.await.expect_err("there is none").kind(), ErrorKind::Timeout);
    assert_eq!(begun.elapsed(), TENTH);
}

/// Those who wait for answers hear of the end in the order in which they called, each time.
#[tokio::test(start_paused = true)]
async fn p5_callers_hear_of_the_end_in_their_order() {
    let stream = Stream::new(Silent::default(), Taker::default());
    let profile = Profile { drain_timeout: TENTH, ..Profile::agent() };
    let (peer, driver) = Peer::new(stream, &profile, Router::new());
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
