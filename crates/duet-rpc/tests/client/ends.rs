//! The end of a client.

use std::io;
use std::time::Duration;

use duet_rpc::{Backoff, ClientState, CloseReason, ErrorKind, Router};
use tokio::time::Instant;

use crate::links::{self, until};
use crate::{Does, LONG, MS, PLAIN, World, assert_over, assert_works, echo};

#[tokio::test(start_paused = true)]
async fn p5_closing_ends_a_connection_for_good_and_pending_calls_with_it() {
    let world = World::new(echo());
    let client = world.connected().await;
    let pending = tokio::spawn(client.call::<()>("never", ()).no_timeout());
    until(|| world.server().stats().running == 1).await;
    let closing = client.close();
    let error = client.call::<String>("echo", ["x"]).await.expect_err("it is closing");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert_eq!(closing.await.reason(), CloseReason::Closed);
    let error = pending.await.expect("no panic").expect_err("it was closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(!error.is_recoverable());
    assert_over(&client, CloseReason::Closed).await;
    assert_eq!(world.server().closed().await.reason(), CloseReason::RemoteClosed);
    tokio::time::sleep(LONG).await;
    assert_eq!(world.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn p5_close_immediately_ends_a_back_off_and_a_hanging_connector() {
    for does in [Does::Fail(io::ErrorKind::ConnectionRefused), Does::Hang] {
        let world = World::new(echo());
        world.always(does);
        let backoff = Backoff { first: LONG, most: LONG, ..PLAIN };
        let client = world.client(Router::new()).backoff(backoff).start();
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.connected().await }
        });
        until(|| world.attempts() == 1).await;
        let since = Instant::now();
        assert_eq!(client.close().await.reason(), CloseReason::Closed);
        assert_eq!(since.elapsed(), Duration::ZERO);
        let error = waiting.await.expect("no panic").expect_err("the client is closed");
        assert_eq!(error.kind(), ErrorKind::Disconnected);
        assert_over(&client, CloseReason::Closed).await;
        tokio::time::sleep(LONG * 2).await;
        assert_eq!(world.attempts(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn p5_close_during_a_break_or_a_reconnect_ends_the_client() {
    for turns in 0..40 {
        let world = World::new(echo());
        let client = world.connected().await;
        tokio::time::advance(LONG).await;
        drop(world.server().close());
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        client.close().await;
        let error = client.connected().await.expect_err("the client is closed");
        assert_eq!(error.kind(), ErrorKind::Disconnected, "{turns}");
        let connections = world.connections();
        for server in world.servers() {
            server.closed().await;
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(world.connections(), connections, "{turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn p5_dropping_the_last_handle_closes_the_client() {
    let world = World::new(echo());
    let before = links::alive_tasks();
    // With a connection, while it waits, and while it connects.
    let client = world.connected().await;
    drop(client.clone());
    assert_works(&client).await;
    let call = client.call::<String>("echo", ["x"]);
    drop(client);
    assert_eq!(call.await.expect("a call is a handle too"), "x");
    assert_eq!(world.server().closed().await.reason(), CloseReason::RemoteClosed);
    for does in [Does::Fail(io::ErrorKind::ConnectionRefused), Does::Hang] {
        world.always(does);
        let client = world.client(Router::new()).start();
        let attempts = world.attempts();
        until(|| world.attempts() > attempts).await;
        let mut watch = client.watch();
        drop(client);
        watch.wait_for(ClientState::is_disconnected).await.expect("the state changes");
    }
    until(|| links::alive_tasks() == before).await;
}

#[tokio::test(start_paused = true)]
async fn p5_dropping_the_future_that_connects_leaves_nothing_behind() {
    let world = World::new(echo());
    let before = links::alive_tasks();
    world.always(Does::Hang);
    let connecting = world.client(Router::new()).connect();
    assert!(tokio::time::timeout(MS(50), connecting).await.is_err());
    world.always(Does::Serve);
    let client = world.client(Router::new()).on_connect(|_| std::future::pending());
    assert!(tokio::time::timeout(MS(50), client.connect()).await.is_err());
    assert_eq!(world.server().closed().await.reason(), CloseReason::RemoteClosed);
    until(|| links::alive_tasks() == before).await;
}

#[test]
fn p5_a_runtime_that_goes_away_ends_the_client() {
    let runtime = links::current_thread();
    let client = runtime.block_on(async {
        let world = World::new(echo());
        let client = world.connected().await;
        assert_works(&client).await;
        client
    });
    runtime.shutdown_background();
    let rest = links::current_thread();
    let error =
        rest.block_on(client.call::<String>("echo", ["x"])).expect_err("the client is closed");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert_eq!(rest.block_on(client.closed()).reason(), CloseReason::Closed);
}
