//! Event streams to a remote that reads too slowly (P9).

use std::time::Duration;

use duet_rpc::transport::Stream;
use duet_rpc::{
    CloseReason, Context, ErrorKind, EventStream, Failure, Peer, Priority, Profile, Router,
};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::Instant;

/// A peer, and the raw other end of its connection.
fn peer() -> (Peer, BufReader<DuplexStream>) {
    let (here, there) = tokio::io::duplex(1024);
    (
        Peer::builder(Stream::from_io(here))
            .profile(Profile::agent())
            .router(Router::new())
            .spawn(),
        BufReader::new(there),
    )
}

async fn next(remote: &mut BufReader<DuplexStream>) -> Value {
    let mut line = String::new();
    remote.read_line(&mut line).await.expect("the connection is open");
    let mut message: Value = serde_json::from_str(&line).expect("a message");
    assert_eq!(message["method"], "event");
    assert_eq!(message["params"]["topic"], "log");
    message["params"].take()
}

#[tokio::test]
async fn p9_events_come_in_order_with_their_sequence() {
    let (peer, mut remote) = peer();
    let events = peer.events("event", "log");
    for number in 1..=100 {
        events.send(Priority::Low, &number).expect("a number is JSON");
    }
    for number in 1..=100 {
        let event = next(&mut remote).await;
        assert_eq!((&event["sequence"], &event["data"]), (&number.into(), &number.into()));
        assert_eq!(event.get("dropped"), None);
    }
    assert_eq!(events.dropped(), 0);
}

#[tokio::test]
async fn p9_a_full_stream_drops_the_oldest_of_low_priority_and_says_how_many() {
    let (peer, mut remote) = peer();
    let events = peer.events("event", "log").bounded(100, 1024 * 1024);
    let text = "x".repeat(1000);
    // More than all buffers hold, while nobody reads: sending neither waits nor fails.
    let offered = 20_000;
    for number in 1..=offered {
        let priority = if number % 1000 == 0 { Priority::High } else { Priority::Low };
        events.send(priority, &(number, &text)).expect("the data is JSON");
        if number % 50 == 0 {
            // The driver fills all buffers.
            tokio::task::yield_now().await;
        }
    }
    assert!(events.dropped() > 10_000, "{}", events.dropped());
    let (mut seen, mut dropped, mut last, mut high) = (0, 0, 0, 0);
    while last < offered {
        let event = next(&mut remote).await;
        let sequence = event["sequence"].as_u64().expect("a number");
        let gap = event["dropped"].as_u64().unwrap_or(0);
        assert_eq!(
            sequence,
            last + 1 + gap,
            "the first event after a gap has the number of missing events"
        );
        seen += 1;
        dropped += gap;
        high += u64::from(sequence % 1000 == 0);
        last = sequence;
    }
    assert_eq!(seen + dropped, offered, "every event was sent or counted");
    assert_eq!(dropped, events.dropped());
    assert_eq!(high, 20, "all events of high priority arrived");
}

#[tokio::test]
async fn p9_other_bounds_and_a_close_keep_the_sequence_and_the_count_of_dropped_events() {
    let (peer, mut remote) = peer();
    let events = peer.events("event", "log");
    let send =
        |events: &EventStream| events.send(Priority::High, "data").expect("the data is JSON");
    (0..5).for_each(|_| send(&events));
    let events = events.bounded(2, 1000);
    assert_eq!(events.dropped(), 3);
    for (sequence, dropped) in [(4, Some(3)), (5, None)] {
        let event = next(&mut remote).await;
        let told = event.get("dropped").and_then(Value::as_u64);
        assert_eq!((event["sequence"].as_u64(), told), (Some(sequence), dropped));
    }
    send(&events);
    events.close();
    assert_eq!(events.dropped(), 4);
    send(&events);
    assert_eq!(events.dropped(), 5);
}

#[tokio::test]
async fn p5_sending_an_event_after_the_end_fails() {
    let (peer, remote) = peer();
    let events = peer.events("event", "log").bounded(10, 1000);
    drop(remote);
    peer.closed().await;
    for stream in [events, peer.events("event", "log")] {
        let error = stream.send(Priority::High, &1).expect_err("the connection is closed");
        assert_eq!(error.kind(), ErrorKind::Disconnected);
        assert_eq!(stream.dropped(), 0, "an event that was never taken is not a dropped one");
    }
}

/// The limit for unsent bytes, and the length of a text that exceeds it.
const OUTGOING: usize = 1000;
const LARGE: usize = 5 * OUTGOING;
/// Capacities of two links: one takes a large message in one write, the other does not.
const LINKS: [usize; 2] = [10 * OUTGOING, OUTGOING];

/// A peer with little room, which answers `large` with three events and a large result, on a link that
/// holds this many unread bytes.
fn peer_with_little_room(link: usize) -> (Peer, BufReader<DuplexStream>) {
    let router = Router::new().method("large", async |cx: Context| {
        tokio::task::yield_now().await;
        send_three(cx.peer());
        Ok::<_, Failure>("x".repeat(LARGE))
    });
    let (here, there) = tokio::io::duplex(link);
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = OUTGOING);
    (
        Peer::builder(Stream::from_io(here)).profile(profile).router(router).spawn(),
        BufReader::new(there),
    )
}

fn send_three(peer: &Peer) {
    let events = peer.events("event", "log");
    for number in 1..=3 {
        events.send(Priority::High, &number).expect("a number is JSON");
    }
}

/// Reads a large message and the data of the events after it, up to the end. The clock moves only when no
/// task can run, so a message that does not come within a second never does.
async fn events_behind_large(remote: &mut BufReader<DuplexStream>) -> Vec<Value> {
    let mut line = String::new();
    remote.read_line(&mut line).await.expect("the connection is open");
    assert!(line.len() > LARGE, "{line}");
    let mut data = Vec::new();
    loop {
        line.clear();
        let read = tokio::time::timeout(Duration::from_secs(1), remote.read_line(&mut line)).await;
        if !matches!(read, Ok(Ok(1..))) {
            return data;
        }
        let event: Value = serde_json::from_str(&line).expect("a message");
        data.push(event["params"]["data"].clone());
    }
}

#[tokio::test(start_paused = true)]
async fn p9_event_behind_a_large_result_is_sent_without_other_traffic() {
    for link in LINKS {
        let (_peer, mut remote) = peer_with_little_room(link);
        let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"large\"}\n";
        remote.write_all(request).await.expect("there is room");
        assert_eq!(events_behind_large(&mut remote).await, [1, 2, 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn p9_events_and_notifications_that_never_end_both_get_through() {
    let (peer, mut remote) = peer_with_little_room(OUTGOING);
    for _ in 0..3 {
        let sender = peer.clone();
        tokio::spawn(async move {
            while sender.notify("steady", ["x".repeat(OUTGOING)]).await.is_ok() {}
        });
        let peer = peer.clone();
        tokio::spawn(async move {
            let events = peer.events("event", "log");
            while events.send(Priority::Low, &"x".repeat(OUTGOING)).is_ok() {
                tokio::task::yield_now().await;
            }
        });
    }
    let (mut events, mut notifications, mut line) = (0, 0, String::new());
    for _ in 0..300 {
        line.clear();
        remote.read_line(&mut line).await.expect("the connection is open");
        match line.contains(r#""method":"event""#) {
            true => events += 1,
            false => notifications += 1,
        }
    }
    assert!(events > 50 && notifications > 50, "{events} events, {notifications} notifications");
}

#[tokio::test(start_paused = true)]
async fn p9_events_behind_a_large_notification_are_sent_without_traffic_and_at_every_end() {
    let ends = [None, Some(CloseReason::Closed), Some(CloseReason::RemoteClosed)];
    for (link, end) in LINKS.into_iter().flat_map(|link| ends.map(|end| (link, end))) {
        let (peer, mut remote) = peer_with_little_room(link);
        peer.notify("large", ["x".repeat(LARGE)]).await.expect("there is room");
        send_three(&peer);
        match end {
            Some(CloseReason::Closed) => drop(peer.close()),
            Some(_) => remote.shutdown().await.expect("the connection is open"),
            None => {}
        }
        assert_eq!(events_behind_large(&mut remote).await, [1, 2, 3], "{end:?}");
        if let Some(reason) = end {
            assert_eq!(peer.closed().await.reason(), reason);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p9_events_that_nobody_reads_delay_the_end_by_the_drain_timeout_at_most() {
    let (peer, _remote) = peer_with_little_room(OUTGOING);
    peer.notify("large", ["x".repeat(LARGE)]).await.expect("there is room");
    send_three(&peer);
    let begun = Instant::now();
    assert_eq!(peer.close().await.reason(), CloseReason::Closed);
    assert_eq!(begun.elapsed(), Profile::agent().drain_timeout);
}
