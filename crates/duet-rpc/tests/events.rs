//! Streams of events to a remote that is too slow for them (P9).

use duet_rpc::transport::Stream;
use duet_rpc::{Peer, Priority, Profile, Router};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};

/// A peer, and the raw other end of its connection.
fn peer() -> (Peer, BufReader<DuplexStream>) {
    let (here, there) = tokio::io::duplex(1024);
    (Peer::spawn(Stream::of(here), &Profile::agent(), Router::new()), BufReader::new(there))
}

async fn next(remote: &mut BufReader<DuplexStream>) -> Value {
    let mut line = String::new();
    remote.read_line(&mut line).await.expect("it is open");
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
    // More than all buffers hold, and nobody reads: sending neither waits nor fails.
    let offered = 20_000;
    for number in 1..=offered {
        let priority = if number % 1000 == 0 { Priority::High } else { Priority::Low };
        events.send(priority, &(number, &text)).expect("it is JSON");
        if number % 50 == 0 {
            // The driver fills what there is to be filled.
            tokio::task::yield_now().await;
        }
    }
    assert!(events.dropped() > 10_000, "{}", events.dropped());
    let (mut seen, mut dropped, mut last, mut high) = (0, 0, 0, 0);
    while last < offered {
        let event = next(&mut remote).await;
        let sequence = event["sequence"].as_u64().expect("a number");
        let gap = event["dropped"].as_u64().unwrap_or(0);
        assert!(sequence > last, "in order");
        assert!(sequence - last - 1 <= gap + dropped, "what is missing was told of");
        seen += 1;
        dropped += gap;
        high += u64::from(sequence % 1000 == 0);
        last = sequence;
    }
    assert_eq!(seen + dropped, offered, "every event was sent or counted");
    assert_eq!(dropped, events.dropped());
    assert_eq!(high, 20, "those of high priority all came");
}

#[tokio::test]
async fn p9_streams_of_a_closed_connection_take_events_and_forget_them() {
    let (peer, remote) = peer();
    let events = peer.events("event", "log").bounded(10, 1000);
    drop(remote);
    peer.closed().await;
    for number in 0..1000 {
        events.send(Priority::Low, &number).expect("a number is JSON");
    }
    assert!(events.dropped() >= 990);
}
