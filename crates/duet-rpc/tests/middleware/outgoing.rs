//! Observers of sent messages: each call is reported once when it is sent and once when it ends.

use std::time::Duration;

use duet_rpc::{End, Error, Peer, Priority, Profile, Router, transport};

use super::notes::{Notes, Panicking, Sees};
use super::{fail, remote};

/// A router with an observer that panics and an observer that takes notes, and these notes.
fn observed() -> (Router, Notes) {
    let notes = Notes::new(Sees::Outgoing);
    (Router::new().observe(Panicking).observe(notes.clone()), notes)
}

fn pair(ours: Router, theirs: Router) -> (Peer, Peer) {
    let (here, there) = transport::memory::pair();
    (Peer::builder(here).router(ours).spawn(), Peer::builder(there).router(theirs).spawn())
}

#[tokio::test]
async fn p1_observers_see_each_call_sent_and_answered() {
    let rows =
        [("ok", End::Result), ("fail", End::Failure(-32077)), ("unknown", End::Failure(-32601))];
    let (router, notes) = observed();
    // Calls of the remote are not observed here. The observers of the remote would see them.
    let theirs = Router::new().method("ok", || 1).method("fail", fail);
    let (client, _server) = pair(router.method("ok", || 1), theirs);
    let mut expected = Vec::new();
    for (method, end) in rows {
        let called: Result<serde_json::Value, Error> = client.call(method, ()).await;
        assert_eq!(called.is_ok(), end == End::Result, "{method}");
        expected.extend([(method.to_owned(), None), (method.to_owned(), Some(end))]);
    }
    assert_eq!(notes.all(), expected, "the observers run before the caller continues");
}

#[tokio::test]
async fn p1_observers_see_notifications_and_events_that_are_sent() {
    let (router, notes) = observed();
    let (client, _server) = pair(router, Router::new());
    client.notify("note one", ()).await.expect("the notification is sent");
    let events = client.events("note two", "topic");
    events.send(Priority::Low, &1).expect("a number is JSON");
    let sent = notes.wait_for(2).await;
    assert_eq!(sent, [("note one".to_owned(), None), ("note two".to_owned(), None)]);
}

#[tokio::test]
async fn p2_observers_see_a_call_that_timed_out() {
    let (router, notes) = observed();
    let (client, _remote) = remote::serve(&Profile::agent(), router);
    let timeout = Duration::from_millis(10);
    assert!(client.call::<()>("slow", ()).timeout(timeout).await.is_err());
    assert_eq!(notes.all(), [("slow".to_owned(), None), ("slow".to_owned(), Some(End::Timeout))]);
}

#[tokio::test]
async fn p2_a_call_that_waits_for_room_is_observed_like_any_other() {
    let (router, notes) = observed();
    let profile = Profile::agent().with(|it| it.limits.outgoing_bytes = 100);
    let (here, _there) = tokio::io::duplex(10);
    let client =
        Peer::builder(transport::Stream::from_io(here)).profile(profile).router(router).spawn();
    client.notify("note", ["x".repeat(500)]).await.expect("there is room");
    let timeout = Duration::from_millis(10);
    assert!(client.call::<()>("queued", ()).timeout(timeout).await.is_err());
    let queued = |end| ("queued".to_owned(), end);
    assert_eq!(notes.all()[1..], [queued(None), queued(Some(End::Timeout))]);
}

#[tokio::test]
async fn p3_observers_distinguish_a_dropped_call_from_a_lost_connection() {
    for (method, end) in [("dropped", End::Cancelled), ("lost", End::Dropped)] {
        let (router, notes) = observed();
        let (client, remote) = remote::serve(&Profile::agent(), router);
        let call = tokio::spawn(client.call::<()>(method, ()));
        notes.wait_for(1).await;
        match end {
            End::Cancelled => call.abort(),
            _ => drop(remote),
        }
        let all = notes.wait_for(2).await;
        assert_eq!(all, [(method.to_owned(), None), (method.to_owned(), Some(end))]);
    }
}

#[tokio::test]
async fn p3_each_call_that_was_sent_ends_once_even_if_the_driver_is_dropped() {
    let (router, notes) = observed();
    let (here, _there) = transport::memory::pair();
    let (client, driver) = Peer::builder(here).router(router).build();
    let driver = tokio::spawn(driver);
    let calls: Vec<_> = (0..5).map(|_| tokio::spawn(client.call::<()>("hang", ()))).collect();
    notes.wait_for(5).await;
    driver.abort();
    let all = notes.wait_for(10).await;
    let lost = all.iter().filter(|(_, end)| *end == Some(End::Dropped));
    assert_eq!((all.len(), lost.count()), (10, 5), "{all:?}");
    for call in calls {
        assert!(call.await.expect("no panic").is_err());
    }
}
