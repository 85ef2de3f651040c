//! Calls and notifications that wait for room to be sent (P2, P3, P5, P9).

mod links;

use std::pin::Pin;
use std::time::Duration;

use duet_rpc::transport::Stream;
use duet_rpc::{ErrorKind, Failure, Peer, Profile, Router, blocking};
use links::Link;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::time::Instant;

/// The remote end, which reads only on request.
struct Remote(Lines<BufReader<DuplexStream>>);

impl Remote {
    /// The method of the next message, or of the request that it cancels.
    async fn next(&mut self) -> Option<String> {
        let line = tokio::time::timeout(Duration::from_secs(5), self.0.next_line()).await;
        let line = line.expect("a line or the end arrives").expect("the stream can be read")?;
        let message: Value = serde_json::from_str(&line).expect("JSON");
        Some(message["method"].as_str().expect("a method").to_owned())
    }

    async fn all(mut self) -> Vec<String> {
        let mut methods = Vec::new();
        while let Some(method) = self.next().await {
            methods.push(method);
        }
        methods
    }

    async fn send(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.0.get_mut().get_mut().write_all(line.as_bytes()).await.expect("the remote reads");
    }
}

/// A peer without room: a large notification called `fill` waits to be read.
async fn full_peer(router: Router) -> (Peer, Remote) {
    let profile = Profile::agent().with(|it| {
        it.limits.outgoing_bytes = 100;
        it.call_timeout = Some(Duration::from_secs(6));
    });
    let (here, there) = tokio::io::duplex(64);
    let peer = Peer::builder(Stream::from_io(here)).profile(profile).router(router).spawn();
    peer.notify("fill", ["x".repeat(4000)]).await.expect("there was room");
    (peer, Remote(BufReader::new(there).lines()))
}

/// Polls a future once, and leaves it alone.
async fn poll_once<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    tokio::select! {
        biased;
        _ = &mut future => panic!("the future should wait"),
        () = std::future::ready(()) => {}
    }
    future
}

#[tokio::test(start_paused = true)]
async fn p2_p5_was_sent_is_false_only_for_messages_that_never_left() {
    let sent = |error: duet_rpc::Error| (error.kind(), error.was_sent());
    let (peer, remote) = full_peer(Router::new()).await;
    let late = peer.call::<Value>("late", ()).timeout(Duration::from_secs(1));
    let late = late.await.expect_err("there is no room");
    assert_eq!(sent(late), (ErrorKind::Timeout, false));
    let note = peer.notify("late", ()).await.expect_err("there is no room");
    assert_eq!(sent(note), (ErrorKind::Timeout, false));
    let queued = [(); 3].map(|()| tokio::spawn(peer.call::<Value>("queued", ())));
    let note = poll_once(peer.notify("queued", ())).await;
    drop(remote);
    for call in queued {
        let error = call.await.expect("no panic").expect_err("the remote is gone");
        assert_eq!(sent(error), (ErrorKind::Disconnected, false));
    }
    let note = note.await.expect_err("the remote is gone");
    assert_eq!(sent(note), (ErrorKind::Disconnected, false));
    let after = peer.call::<Value>("after", ()).await.expect_err("the remote is gone");
    assert_eq!(sent(after), (ErrorKind::Disconnected, false));
    let wrong = peer.call::<Value>("wrong", 7).await.expect_err("a number is not params");
    assert_eq!(sent(wrong), (ErrorKind::Params, false));

    let (here, there) = tokio::io::duplex(4000);
    let peer = Peer::builder(Stream::from_io(here)).spawn();
    let mut remote = Remote(BufReader::new(there).lines());
    let late = peer.call::<Value>("late", ()).timeout(Duration::from_secs(1));
    let late = late.await.expect_err("nobody answers");
    assert_eq!(sent(late), (ErrorKind::Timeout, true));
    let pending = tokio::spawn(peer.call::<Value>("pending", ()));
    while remote.next().await.as_deref() != Some("pending") {}
    drop(remote);
    let pending = pending.await.expect("no panic").expect_err("the remote is gone");
    assert_eq!(sent(pending), (ErrorKind::Disconnected, true));
}

/// The methods that the remote reads after a last notification, up to the end of the connection.
async fn read_out(peer: &Peer, remote: Remote) -> Vec<String> {
    let reader = tokio::spawn(remote.all());
    peer.notify("last", ()).await.expect("the notification is sent");
    peer.close().await;
    reader.await.expect("no panic")
}

#[tokio::test(start_paused = true)]
async fn p9_waiting_call_that_is_not_polled_does_not_block_other_senders() {
    let (peer, remote) = full_peer(Router::new()).await;
    let _parked = poll_once(peer.call::<Value>("parked", ())).await;
    let notification = poll_once(peer.notify("also_parked", ())).await;
    let others = [(); 5].map(|()| {
        let peer = peer.clone();
        tokio::spawn(async move { peer.notify("other", ()).await })
    });
    let reader = tokio::spawn(remote.all());
    for other in others {
        other.await.expect("no panic").expect("the notification is sent");
    }
    peer.close().await;
    let read = reader.await.expect("no panic");
    assert_eq!(read[..3], ["fill", "parked", "also_parked"]);
    assert_eq!(read[3..], ["other"; 5]);
    notification.await.expect("the notification is sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_waiting_call_that_is_not_polled_does_not_block_handlers() {
    let slow = blocking(async |(n,): (u32,)| n);
    let (peer, mut remote) = full_peer(Router::new().method("slow", slow)).await;
    let _parked = poll_once(peer.call::<Value>("parked", ())).await;
    for id in 0..8 {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"slow","params":[1]}}"#);
        remote.send(&request).await;
    }
    assert_eq!(remote.next().await.as_deref(), Some("fill"));
    assert_eq!(remote.next().await.as_deref(), Some("parked"));
    for _ in 0..8 {
        let answer = tokio::time::timeout(Duration::from_secs(5), remote.0.next_line()).await;
        let answer = answer.expect("an answer").expect("readable").expect("not the end");
        assert!(answer.contains(r#""result":1"#), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p9_calls_from_many_threads_that_wait_for_room_are_all_sent() {
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
    let router = Router::new().method("same", async |(n,): (u32,)| Ok::<_, Failure>(n));
    let (client, _server) = Link::Pipe(256).join(&profile, Router::new(), router);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..5000_u32 {
        let call = client.call::<u32>("same", (n,));
        calls.spawn(async move { (n, call.await) });
    }
    for (n, answer) in calls.join_all().await {
        // The server may be busy. A call that never reaches it would time out.
        match answer {
            Ok(same) => assert_eq!(same, n),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Remote, "{error:#}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_waiting_messages_are_sent_in_call_order() {
    let (peer, remote) = full_peer(Router::new()).await;
    let _call = poll_once(peer.call::<Value>("first", ())).await;
    let mut sent = Vec::new();
    for method in ["second", "third", "fourth"] {
        sent.push(poll_once(peer.notify(method, ())).await);
    }
    let reader = tokio::spawn(remote.all());
    // Awaited in reverse order, but sent in order.
    for notification in sent.into_iter().rev() {
        notification.await.expect("the notification is sent");
    }
    peer.close().await;
    assert_eq!(reader.await.expect("no panic"), ["fill", "first", "second", "third", "fourth"]);
}

#[tokio::test(start_paused = true)]
async fn p3_message_dropped_in_the_queue_is_neither_sent_nor_cancelled() {
    let (peer, remote) = full_peer(Router::new()).await;
    let call = poll_once(peer.call::<Value>("dropped", ())).await;
    let notification = poll_once(peer.notify("dropped_too", ())).await;
    drop((call, notification));
    assert_eq!(peer.stats().waiting, 0);
    assert_eq!(read_out(&peer, remote).await, ["fill", "last"]);
}

#[tokio::test(start_paused = true)]
async fn p9_calls_that_are_given_up_before_the_driver_runs_do_not_gather() {
    let profile = Profile::agent().with(|it| it.limits.pending_calls = 100);
    let (here, there) = tokio::io::duplex(1024);
    let (peer, driver) =
        Peer::builder(Stream::from_io(here)).profile(profile).router(Router::new()).build();
    for _ in 0..100 {
        drop(poll_once(peer.call::<Value>("given up", ())).await);
    }
    let one_too_many = peer.call::<Value>("one too many", ());
    let answer = tokio::time::timeout(Duration::from_secs(1), one_too_many).await;
    let error =
        answer.expect("the call fails immediately").expect_err("too many calls are pending");
    assert_eq!(error.kind(), ErrorKind::Capacity);
    tokio::spawn(driver);
    let mut remote = Remote(BufReader::new(there).lines());
    remote.next().await;
    let _call = poll_once(peer.call::<Value>("next", ())).await;
    while remote.next().await.as_deref() != Some("next") {}
}

#[tokio::test(start_paused = true)]
async fn p2_message_that_times_out_while_waiting_for_room_is_not_sent() {
    let (peer, remote) = full_peer(Router::new()).await;
    let begun = Instant::now();
    let short = Duration::from_secs(2);
    let call = peer.call::<Value>("late", ()).timeout(short);
    let (call, notified) =
        tokio::join!(async { (call.await.expect_err("no room"), begun.elapsed()) }, async {
            (peer.notify("late_too", ()).await.expect_err("no room"), begun.elapsed())
        },);
    for ((error, took), expected) in [(call, short), (notified, Duration::from_secs(6))] {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(format!("{error:#}").contains("the remote reads nothing"), "{error:#}");
        assert!(took >= expected && took < expected + Duration::from_millis(50), "{took:?}");
    }
    assert_eq!(peer.stats().pending_calls, 0);
    assert_eq!(read_out(&peer, remote).await, ["fill", "last"]);
}

#[tokio::test(start_paused = true)]
async fn p5_messages_waiting_for_room_fail_when_the_connection_ends() {
    let (peer, remote) = full_peer(Router::new()).await;
    let call = poll_once(peer.call::<Value>("a", ())).await;
    let notification = poll_once(peer.notify("b", ())).await;
    drop(remote);
    assert!(!call.await.expect_err("the connection is gone").is_recoverable());
    assert!(!notification.await.expect_err("the connection is gone").is_recoverable());
}

#[tokio::test(start_paused = true)]
async fn p5_a_close_sends_the_notifications_that_wait_and_ends_the_calls() {
    let (peer, remote) = full_peer(Router::new()).await;
    let call = poll_once(peer.call::<Value>("never_sent", ())).await;
    let notification = poll_once(peer.notify("waits", ())).await;
    let closing = peer.close();
    let reader = tokio::spawn(remote.all());
    closing.await;
    assert_eq!(call.await.expect_err("the connection is closing").kind(), ErrorKind::Disconnected);
    notification.await.expect("the notification is sent");
    assert_eq!(reader.await.expect("no panic"), ["fill", "waits"]);
}

#[test]
fn p9_waiting_for_room_works_in_a_runtime_without_a_timer() {
    let driving = links::current_thread();
    let (peer, remote) = driving.block_on(full_peer(Router::new()));
    let (waits, both_wait) = std::sync::mpsc::channel();
    let sending = std::thread::spawn(move || {
        let without = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        without.block_on(async {
            let call =
                poll_once(peer.call::<Value>("call", ()).timeout(Duration::from_millis(1))).await;
            let notification = poll_once(peer.notify("notify", ())).await;
            waits.send(()).expect("the receiver exists");
            let (call, notified) = tokio::join!(call, notification);
            peer.close().await;
            (call.expect_err("nobody answers").kind(), notified.is_ok())
        })
    });
    both_wait.recv().expect("both wait for room");
    let read = driving.block_on(remote.all());
    let (call, notified) = sending.join().expect("no panic");
    assert!(notified);
    assert!(matches!(call, ErrorKind::Timeout | ErrorKind::Disconnected), "{call:?}");
    assert!(read.iter().any(|method| method == "notify"), "{read:?}");
}
