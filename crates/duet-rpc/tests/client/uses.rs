//! Handlers, subscriptions, cancellation, timeouts and `on_connect`, across reconnects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use duet_rpc::{Context, ErrorKind, Failure, Peer, Router, Subscription};
use tokio::time::Instant;

use crate::links::until;
use crate::{LONG, MS, World, assert_works, echo};

#[tokio::test(start_paused = true)]
async fn p6_a_router_is_served_on_every_connection_with_values_of_its_own() {
    #[derive(Default)]
    struct Visits(AtomicU64);

    let visit = async |cx: Context| {
        Ok::<_, Failure>(cx.peer().extension::<Visits>().0.fetch_add(1, Ordering::Relaxed) + 1)
    };
    let world = World::new(echo());
    let client = world.client(Router::new().method("visit", visit));
    let client = client.connect().await.expect("the client connects");
    for _ in 0..3 {
        let server = world.server();
        for visit in 1..=3 {
            assert_eq!(server.call::<u64>("visit", ()).await.expect("the call is answered"), visit);
        }
        world.break_off(&client).await;
        client.connected().await.expect("the client reconnects");
        assert_works(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn p6_p9_subscription_of_a_client_reports_new_connections_and_ends_with_the_client() {
    let world = World::new(echo());
    // A subscription that was made before the first connection misses nothing.
    let client = world.client(Router::new()).start();
    let mut ticks = client.subscribe::<(u64,)>("tick");
    let dropped = client.subscribe::<(u64,)>("tick");
    client.connected().await.expect("the client connects");
    drop(dropped);
    for number in 0..3 {
        if number > 0 {
            assert_gap(&mut ticks).await;
        }
        let of_one = client.peer().expect("the client is connected");
        let mut of_one = of_one.subscribe::<(u64,)>("tick");
        world.server().notify("tick", [number]).await.expect("the notification is sent");
        assert_eq!(
            ticks.next().await.expect("a notification arrives").expect("the params fit").0,
            number
        );
        assert_eq!(
            of_one.next().await.expect("a notification arrives").expect("the params fit").0,
            number
        );
        world.break_off(&client).await;
        assert!(of_one.next().await.is_none(), "this one belongs to a connection");
        client.connected().await.expect("the client reconnects");
    }
    let mut late = client.subscribe::<(u64,)>("tick");
    world.server().notify("tick", [9]).await.expect("the notification is sent");
    assert_works(&client).await;
    client.close().await;
    assert_eq!(late.next().await.expect("a notification arrives").expect("there is no gap").0, 9);
    assert_gap(&mut ticks).await;
    assert_eq!(ticks.next().await.expect("a notification arrives").expect("the params fit").0, 9);
    assert!(ticks.next().await.is_none());
    assert!(client.subscribe::<()>("tick").next().await.is_none());
}

/// The next item says that the connection was replaced.
async fn assert_gap(ticks: &mut Subscription<(u64,)>) {
    let error = ticks.next().await.expect("a notification arrives").expect_err("there is a gap");
    assert_eq!((error.kind(), error.is_recoverable()), (ErrorKind::Interrupted, true));
    assert_eq!(
        format!("{error:#}"),
        "the connection broke: another one was made, and notifications in between are lost"
    );
}

#[tokio::test(start_paused = true)]
async fn p6_p9_unread_gaps_are_merged_and_not_dropped_with_old_notifications() {
    let world = World::new(echo());
    let client = world.connected().await;
    let mut ticks = client.subscribe::<(u64,)>("tick").bounded(2, usize::MAX);
    world.server().notify("tick", [1]).await.expect("the notification is sent");
    assert_works(&client).await;
    for _ in 0..5 {
        world.break_off(&client).await;
        client.connected().await.expect("the client reconnects");
    }
    for number in 2..5 {
        world.server().notify("tick", [number]).await.expect("the notification is sent");
    }
    assert_works(&client).await;
    assert_gap(&mut ticks).await;
    assert_eq!(ticks.next().await.expect("a notification arrives").expect("the params fit").0, 4);
    assert_eq!(ticks.dropped(), 3);
}

#[tokio::test(start_paused = true)]
async fn p5_p6_call_on_the_peer_of_a_handler_fails_after_a_break() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let ask = move |cx: Context| {
        let tell = tell.clone();
        let peer = cx.peer().clone();
        // The call runs outside the handler, because the handler is stopped when its connection is gone.
        tokio::spawn(async move {
            let pending = peer.call::<()>("never", ()).await.expect_err("it breaks");
            let late = peer.call::<()>("never", ()).await.expect_err("it broke");
            let _ = tell.send((pending, late));
        });
        async move {
            cx.cancelled().await;
            Ok::<_, Failure>(())
        }
    };
    let world = World::new(echo());
    let client = world.client(Router::new().method("ask", ask));
    let client = client.connect().await.expect("the client connects");
    let server = world.server();
    let asking = tokio::spawn(server.call::<()>("ask", ()));
    until(|| server.stats().running == 1).await;
    server.close().await;
    let (pending, late) = told.recv().await.expect("the task reports both errors");
    for error in [pending, late] {
        // The peer of a handler belongs to one connection, which does not come back.
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{error:#}");
        assert!(!error.is_recoverable());
    }
    assert!(asking.await.expect("no panic").is_err());
    client.connected().await.expect("the client reconnects");
    assert_works(&client).await;
}

#[tokio::test(start_paused = true)]
async fn p2_p3_calls_of_a_client_time_out_and_are_cancelled_as_all_others() {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stopped);
    let router = echo().method("watched", move |cx: Context| {
        let flag = Arc::clone(&flag);
        tokio::spawn(async move {
            cx.cancelled().await;
            flag.store(true, Ordering::SeqCst);
        });
        std::future::pending::<Result<(), Failure>>()
    });
    let world = World::new(router);
    let client = world.connected().await;
    let since = Instant::now();
    let error = client.call::<()>("never", ()).timeout(MS(70)).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(since.elapsed() >= MS(70) && since.elapsed() < MS(75), "{:?}", since.elapsed());
    let call = tokio::spawn(client.call::<()>("watched", ()));
    until(|| world.server().stats().running == 1).await;
    call.abort();
    until(|| stopped.load(Ordering::SeqCst)).await;
    assert_works(&client).await;
    assert_eq!(world.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn p6_on_connect_prepares_every_connection_before_it_is_used() {
    #[derive(Default)]
    struct Login(AtomicBool);

    let login = async |cx: Context| {
        cx.peer().extension::<Login>().0.store(true, Ordering::SeqCst);
        Ok::<_, Failure>(())
    };
    let work = async |cx: Context| {
        Ok::<_, Failure>(cx.peer().extension::<Login>().0.load(Ordering::SeqCst))
    };
    let world = World::new(Router::new().method("login", login).method("work", work));
    let fails = Arc::new(AtomicUsize::new(0));
    let failing = Arc::clone(&fails);
    let client = world.client(Router::new()).on_connect(move |peer: Peer| {
        let failing = Arc::clone(&failing);
        async move {
            if failing
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
                .is_ok()
            {
                return peer.call("no such method", ()).await;
            }
            peer.call("login", ()).await
        }
    });
    let client = client.connect().await.expect("the client connects");
    assert!(client.call::<bool>("work", ()).await.expect("the call is answered"));
    fails.store(2, Ordering::SeqCst);
    tokio::time::advance(LONG).await;
    world.break_off(&client).await;
    client.connected().await.expect("the client reconnects");
    assert!(client.call::<bool>("work", ()).await.expect("the call is answered"));
    assert_eq!(world.pauses()[2..], [100, 200], "a failed `on_connect` counts as a failed attempt");
    for server in &world.servers()[..3] {
        server.closed().await;
    }
}
