//! Tests of event streams.

use std::sync::Arc;

use duet_rpc_proto::Profile;
use duet_rpc_proto::session::Priority;

use super::{EventStream, Shared};
use crate::sync::lock;
use crate::transport::TransportKind;

/// Takes the commands; returns their number.
fn take(shared: &Shared) -> usize {
    let mut commands = Vec::new();
    shared.mailbox.take(&mut commands);
    commands.len()
}

/// Nothing takes the commands here, as if the driver were never polled.
#[test]
fn p9_events_leave_one_command_however_many_are_sent() {
    let kinds: [fn(EventStream) -> EventStream; 4] = [
        |events| events,
        |events| events.bounded(10, 4),
        |events| events.bounded(0, 0),
        |events| {
            events.close();
            events
        },
    ];
    for (row, kind) in kinds.into_iter().enumerate() {
        let shared = Arc::new(Shared::new(&Profile::agent(), TransportKind::Bytes, None));
        for _ in 0..3 {
            let events = kind(EventStream::new(Arc::clone(&shared), "event", "topic"));
            for _ in 0..1000 {
                events.send(Priority::Low, "longer than 4").expect("a text is JSON");
            }
        }
        assert_eq!(take(&shared), usize::from(row == 0), "row {row}");
        EventStream::new(Arc::clone(&shared), "event", "topic")
            .send(Priority::Low, &1)
            .expect("a number is JSON");
        assert_eq!(take(&shared), 1, "row {row}: the next event posts a command");
    }
}

#[test]
fn p9_streams_that_were_dropped_do_not_gather() {
    let shared = Arc::new(Shared::new(&Profile::agent(), TransportKind::Bytes, None));
    let kept = EventStream::new(Arc::clone(&shared), "event", "kept");
    for _ in 0..10_000 {
        drop(EventStream::new(Arc::clone(&shared), "event", "dropped"));
    }
    assert!(lock(&shared.streams.0).streams.len() < 16);
    assert_eq!(shared.streams.in_use().len(), 1, "{kept:?}");
    for _ in 0..1000 {
        let events = EventStream::new(Arc::clone(&shared), "event", "ended");
        events.send(Priority::High, &"x".repeat(100_000)).expect("a text is JSON");
    }
    let ended = shared.streams.in_use().len() - 1;
    assert!((20..=42).contains(&ended), "{ended} ended streams are kept");
    shared.streams.close();
    let late = EventStream::new(Arc::clone(&shared), "event", "late");
    assert_eq!(shared.streams.in_use().len(), 0, "{late:?}");
}
