//! Calls at the end of a connection: their answers, and the state that their callers see (P5).

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use duet_rpc::transport::{
    ExitReport, Inbox, Outbox, Received, Stream, Transport, TransportKind, memory,
};
use duet_rpc::{Peer, Profile, Router, quick};
use tokio::io::AsyncWriteExt;

/// Records whether the connection is open when the caller is woken.
struct Look(Peer, Mutex<Vec<bool>>);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("no panic").push(self.0.state().is_open());
    }
}

#[tokio::test]
async fn p5_a_connection_is_not_open_any_more_when_its_calls_fail() {
    let (here, there) = memory::pair();
    let peer = Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn();
    let mut call = pin!(peer.call::<()>("any", ()));
    let look = Arc::new(Look(peer.clone(), Mutex::default()));
    let waker = Waker::from(Arc::clone(&look));
    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tokio::task::yield_now().await;
    drop(there);
    peer.closed().await;
    assert_eq!(*look.1.lock().expect("no panic"), [false]);
}

/// A remote that reads nothing, sends much, and closes.
#[derive(Clone, Default)]
struct Unreading(Arc<Mutex<Ends>>);

#[derive(Default)]
struct Ends {
    sent: usize,
    incoming: Vec<String>,
    is_gone: bool,
    waker: Option<Waker>,
}

impl Transport for Unreading {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let mut ends = self.0.lock().expect("no panic");
        if ends.incoming.is_empty() {
            ends.waker = Some(cx.waker().clone());
            return if ends.is_gone { Poll::Ready(Ok(Received::Eof)) } else { Poll::Pending };
        }
        inbox.push(ends.incoming.remove(0).as_bytes())?;
        Poll::Ready(Ok(Received::Data))
    }

    /// Takes one message.
    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let mut ends = self.0.lock().expect("no panic");
        while outbox.message().is_some() {
            if ends.is_gone {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if ends.sent == 1 {
                ends.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            ends.sent += 1;
            outbox.pop();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut ends = self.0.lock().expect("no panic");
        ends.waker = Some(cx.waker().clone());
        if ends.is_gone { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

#[tokio::test(start_paused = true)]
async fn p5_answer_behind_unread_requests_is_read_after_the_remote_has_gone() {
    let remote = Unreading::default();
    let profile = Profile::agent().with(|it| {
        it.limits.outgoing_bytes = 10;
        it.limits.waiting = 1;
        it.limits.pending_calls = 1;
    });
    let peer = Peer::builder(remote.clone()).profile(profile).router(Router::new()).spawn();
    let caller = peer.clone();
    let call = tokio::spawn(async move { caller.call::<u64>("ours", ()).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let wake = |ends: &mut Ends| ends.waker.take().expect("the connection waits").wake();
    {
        let mut ends = remote.0.lock().expect("no panic");
        // One is answered, one waits for room, two are refused: then reading stops.
        for id in 10..14 {
            ends.incoming.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"unknown"}}"#));
        }
        ends.incoming.push(r#"{"jsonrpc":"2.0","id":1,"result":7}"#.to_owned());
        wake(&mut ends);
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    {
        let mut ends = remote.0.lock().expect("no panic");
        assert_eq!(ends.incoming.len(), 1, "the answer is not read yet");
        ends.is_gone = true;
        wake(&mut ends);
    }
    assert_eq!(call.await.expect("no panic").expect("the answer was there"), 7);
}

#[tokio::test]
async fn l3_messages_before_a_failed_write_are_handled_by_known_and_new_methods() {
    for is_known in [true, false] {
        let (here, mut there) = tokio::io::duplex(1024);
        let (first, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let note = |count: &Arc<AtomicUsize>| {
            let count = Arc::clone(count);
            move || {
                count.fetch_add(1, Ordering::Relaxed);
                std::future::ready(())
            }
        };
        let router = Router::new();
        let router = match is_known {
            true => {
                router.method("first", quick(note(&first))).method("second", quick(note(&second)))
            }
            false => router.method("first", note(&first)).method("second", note(&second)),
        };
        let (peer, driver) =
            Peer::builder(Stream::from_io(here)).profile(Profile::agent()).router(router).build();
        let text = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"unknown\"}\n\
                    {\"jsonrpc\":\"2.0\",\"method\":\"first\"}\n\
                    {\"jsonrpc\":\"2.0\",\"method\":\"second\"}\n";
        there.write_all(text.as_bytes()).await.expect("there is room");
        drop(there);
        driver.await;
        drop(peer);
        let counts = [&first, &second].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1], "is known: {is_known}");
    }
}
