//! Subscriptions: notifications that the application awaits (P5, P9).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duet_rpc::transport::memory;
use duet_rpc::{End, Ended, ErrorKind, Failure, Observer, Peer, Priority, Router};

/// The time after which a test counts as hanging. No test depends on it otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two ends of a connection; the first serves this router.
fn pair(router: Router) -> (Peer, Peer) {
    let (here, there) = memory::pair();
    (Peer::builder(here).router(router).spawn(), Peer::builder(there).spawn())
}

#[tokio::test]
async fn p9_notifications_come_in_order_with_or_without_a_handler() {
    for has_handler in [false, true] {
        let handled = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&handled);
        let router = match has_handler {
            false => Router::new(),
            true => Router::new().method("tick", move |(_number,): (u64,)| {
                count.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, Failure>(()) }
            }),
        };
        let (client, server) = pair(router);
        let mut ticks = client.subscribe::<(u64,)>("tick");
        let mut others = client.subscribe::<(u64,)>("tick");
        let mut silent = client.subscribe::<(u64,)>("tock");
        for number in 0..10 {
            server.notify("tick", [number]).await.expect("the notification is sent");
        }
        for subscription in [&mut ticks, &mut others] {
            for number in 0..10 {
                let next = tokio::time::timeout(PATIENCE, subscription.next()).await;
                assert_eq!(
                    next.expect("no hang")
                        .expect("a notification arrives")
                        .expect("the params fit")
                        .0,
                    number
                );
            }
        }
        server.close().await;
        for subscription in [&mut ticks, &mut others, &mut silent] {
            assert!(subscription.next().await.is_none(), "the connection is gone");
            assert_eq!(subscription.dropped(), 0);
        }
        assert_eq!(handled.load(Ordering::Relaxed), if has_handler { 10 } else { 0 });
    }
}

#[tokio::test]
async fn p5_subscription_delivers_earlier_notifications_and_ends_with_its_connection() {
    let (client, server) = pair(Router::new());
    let mut ticks = client.subscribe::<Vec<u64>>("tick");
    server.notify("tick", [7]).await.expect("the notification is sent");
    server.close().await;
    client.closed().await;
    assert_eq!(ticks.next().await.expect("a notification arrives").expect("the params fit"), [7]);
    assert!(ticks.next().await.is_none() && ticks.next().await.is_none());
    let mut late = client.subscribe::<()>("tick");
    assert!(late.next().await.is_none());
}

/// Like an event stream, a subscription is not a handle of the connection.
#[tokio::test]
async fn p5_a_subscription_does_not_keep_its_connection_open() {
    let (client, server) = pair(Router::new());
    let mut ticks = client.subscribe::<()>("tick");
    drop(client);
    let next = tokio::time::timeout(PATIENCE, ticks.next()).await;
    assert!(next.expect("no hang").is_none());
    server.closed().await;
}

#[tokio::test]
async fn p9_past_its_bound_a_subscription_drops_the_oldest_and_counts_them() {
    let (client, server) = pair(Router::new().method("ping", async || Ok::<_, Failure>(())));
    let mut few = client.subscribe::<(u64, String)>("tick").bounded(3, usize::MAX);
    let mut small = client.subscribe::<(u64, String)>("tick").bounded(1024, 500);
    for number in 0..10 {
        server.notify("tick", (number, "x".repeat(90))).await.expect("the notification is sent");
    }
    server.call::<()>("ping", ()).await.expect("all notifications have arrived");
    assert_eq!((few.dropped(), small.dropped()), (7, 5));
    assert_eq!(few.next().await.expect("a notification arrives").expect("the params fit").0, 7);
    assert_eq!(small.next().await.expect("a notification arrives").expect("the params fit").0, 5);
}

#[tokio::test]
async fn p6_params_of_another_type_are_an_error_and_do_not_end_the_subscription() {
    let (client, server) = pair(Router::new());
    let mut ticks = client.subscribe::<(u64,)>("tick");
    server.notify("tick", ["secret"]).await.expect("the notification is sent");
    server.notify("tick", ()).await.expect("the notification is sent");
    server.notify("tick", [1]).await.expect("the notification is sent");
    for _ in 0..2 {
        let error = ticks.next().await.expect("a notification arrives").expect_err("another type");
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(!format!("{error:?} {error:#}").contains("secret"));
    }
    assert_eq!(ticks.next().await.expect("a notification arrives").expect("the params fit").0, 1);
}

#[tokio::test]
async fn p7_requests_and_dropped_subscriptions_leave_the_router_as_it_was() {
    let (client, server) = pair(Router::new());
    let mut ticks = client.subscribe::<()>("tick");
    let error = server.call::<()>("tick", ()).await.expect_err("nobody serves it");
    assert_eq!(error.remote().map(|remote| remote.code), Some(-32601));
    drop(client.subscribe::<()>("tick"));
    server.notify("tick", ()).await.expect("the notification is sent");
    ticks.next().await.expect("the other subscription continues").expect("the params fit");
    drop(ticks);
    server.notify("tick", ()).await.expect("the notification is sent");
    assert!(server.call::<()>("tick", ()).await.is_err());
    assert!(client.state().is_open());
}

/// Counts the messages that it sees, and records their outcomes.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<(String, End)>>>);

impl Observer for Ends {
    fn ended(&self, message: &Ended<'_>) {
        self.0.lock().expect("no panic").push((message.method().to_owned(), message.end()));
    }
}

#[tokio::test]
async fn p7_guards_filter_subscriptions_and_observers_see_every_notification() {
    let ends = Ends::default();
    let router = Router::new()
        .method("known", |(number,): (u64,)| number)
        .method("ping", || 1)
        .observe(ends.clone())
        .guard(|message| match message.params().parse::<(u64,)>() {
            Ok((13,)) => Err(Failure::new(13, "Refused")),
            Ok((14,)) => panic!("a guard that panics refuses"),
            _ => Ok(()),
        });
    let (client, server) = pair(router);
    let mut known = client.subscribe::<(u64,)>("known");
    let mut unknown = client.subscribe::<(u64,)>("unknown");
    for number in [13, 14, 15] {
        server.notify("known", [number]).await.expect("the notification is sent");
        server.notify("unknown", [number]).await.expect("the notification is sent");
    }
    server.call::<u64>("ping", ()).await.expect("the call is answered");
    server.close().await;
    for subscription in [&mut known, &mut unknown] {
        assert_eq!(
            subscription.next().await.expect("a notification arrives").expect("the params fit").0,
            15
        );
        assert!(subscription.next().await.is_none());
    }
    let all = [End::Refused(13), End::Refused(-32603), End::Result];
    let seen = ends.0.lock().expect("no panic").clone();
    for method in ["known", "unknown"] {
        let ends: Vec<_> = seen.iter().filter(|(name, _)| name == method).collect();
        assert_eq!(ends.iter().map(|(_, end)| *end).collect::<Vec<_>>(), all, "{method}");
    }
}

#[tokio::test]
async fn p7_a_fallback_sees_notifications_with_a_subscription_too() {
    let fallen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fallen);
    let fallback = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let (client, server) = pair(Router::new().fallback(fallback).method("ping", || 1));
    server.notify("tick", [1]).await.expect("the notification is sent");
    server.call::<u64>("ping", ()).await.expect("the call is answered");
    let mut ticks = client.subscribe::<(u64,)>("tick");
    server.notify("tick", [2]).await.expect("the notification is sent");
    assert_eq!(ticks.next().await.expect("a notification arrives").expect("the params fit").0, 2);
    server.call::<u64>("ping", ()).await.expect("the call is answered");
    assert_eq!(fallen.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn p5_event_stream_reports_that_its_connection_is_gone() {
    let (client, server) = pair(Router::new());
    let events = server.events("event", "clock");
    assert!(!events.is_closed());
    events.send(Priority::Low, "tick").expect("the connection is open");
    client.close().await;
    tokio::time::timeout(PATIENCE, events.closed()).await.expect("no hang");
    assert!(events.is_closed());
    assert!(events.send(Priority::Low, "tick").is_err());
}
