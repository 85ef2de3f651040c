//! The waits of a client between attempts, and the point at which it gives up.

use std::io;
use std::time::Duration;

use duet_rpc::{Backoff, CloseReason, Error, ErrorKind, Router};
use tokio::time::Instant;

use crate::links::until;
use crate::{Does, LONG, MS, PLAIN, SECOND, World, assert_over, assert_works, echo};

const REFUSED: Does = Does::Fail(io::ErrorKind::ConnectionRefused);

#[tokio::test(start_paused = true)]
async fn p6_attempts_follow_the_back_off() {
    let world = World::new(echo());
    world.next([REFUSED; 7]);
    let client = world.client(Router::new()).start();
    client.connected().await.expect("at last");
    assert_eq!(world.pauses(), [0, 100, 200, 400, 800, 1000, 1000, 1000]);
    assert_works(&client).await;
}

#[tokio::test(start_paused = true)]
async fn p6_a_part_of_each_wait_is_random() {
    let world = World::new(echo());
    world.next([REFUSED; 40]);
    let backoff = Backoff { first: LONG, most: LONG, jitter: 0.5, ..PLAIN };
    let client = world.client(Router::new()).backoff(backoff).start();
    client.connected().await.expect("at last");
    let pauses = world.pauses();
    assert_eq!(pauses.len(), 41);
    assert!(pauses[1..].iter().all(|pause| (30_000..=60_001).contains(pause)), "{pauses:?}");
    // Forty equal values of thirty thousand do not happen by chance.
    assert!(pauses[2..].iter().any(|pause| *pause != pauses[1]), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn p6_back_off_restarts_only_after_a_connection_that_lasted() {
    // The setting, the number of refusals, the lifetime of the connection, and the pauses before and after it.
    let rows: [(Option<Duration>, usize, Duration, &[u64]); 4] = [
        (None, 3, SECOND, &[0, 100, 200, 400, 1000, 100, 200, 400]),
        // A short connection counts as one more failure.
        (None, 2, SECOND - MS(1), &[0, 100, 200, 999 + 400, 800, 1000]),
        (Some(MS(50)), 2, MS(50), &[0, 100, 200, 50, 100, 200]),
        (Some(2 * SECOND), 2, SECOND, &[0, 100, 200, 1000 + 400, 800, 1000]),
    ];
    for (good_after, refusals, stands, pauses) in rows {
        let world = World::new(echo());
        world.next(vec![REFUSED; refusals]);
        let backoff = Backoff { good_after, ..PLAIN };
        let client = world.client(Router::new()).backoff(backoff).start();
        client.connected().await.expect("at last");
        assert_works(&client).await;
        world.next(vec![REFUSED; refusals]);
        tokio::time::advance(stands).await;
        world.break_off(&client).await;
        client.connected().await.expect("at last");
        assert_eq!(world.pauses(), pauses);
    }
}

#[tokio::test(start_paused = true)]
async fn p6_a_server_that_accepts_and_drops_is_not_hammered() {
    let world = World::new(echo());
    world.always(Does::Drop);
    let client = world.client(Router::new()).start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    let pauses = world.pauses();
    assert_eq!(pauses[..7], [0, 100, 200, 400, 800, 1000, 1000]);
    assert!(pauses.len() < 110, "{}", pauses.len());
    world.always(Does::Serve);
    tokio::time::sleep(2 * SECOND).await;
    assert_works(&client).await;
}

#[tokio::test(start_paused = true)]
async fn p6_attempts_without_a_pause_let_others_run() {
    let world = World::new(echo());
    world.always(REFUSED);
    let backoff = Backoff { first: Duration::ZERO, ..PLAIN };
    let client = world.client(Router::new()).backoff(backoff).start();
    until(|| world.attempts() > 1000).await;
    client.close().await;
    assert_over(&client, CloseReason::Closed).await;
}

#[tokio::test(start_paused = true)]
async fn p6_first_connection_is_tried_once_unless_configured_otherwise() {
    let world = World::new(echo());
    world.always(REFUSED);
    let error = world.client(Router::new()).connect().await.expect_err("the connection fails");
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(world.pauses(), [0]);
    world.always(Does::Hang);
    let since = Instant::now();
    let error = world.client(Router::new()).connect().await.expect_err("the connection fails");
    assert_eq!(format!("{error:#}"), "cannot connect: the attempt timed out");
    assert_eq!(since.elapsed().as_secs(), 10);
    world.always(Does::Panic);
    let error = world.client(Router::new()).connect().await.expect_err("the connection fails");
    assert_eq!(error.kind(), ErrorKind::Panic);
    assert!(!format!("{error:#} {error:?}").contains("CANARY"));
}

#[tokio::test(start_paused = true)]
async fn p6_a_connector_that_hangs_is_given_up_and_asked_again() {
    let world = World::new(echo());
    world.next([Does::Hang, Does::Hang]);
    let client = world.client(Router::new()).attempt_timeout(MS(300)).start();
    client.connected().await.expect("at last");
    assert_eq!(world.pauses(), [0, 300 + 100, 300 + 200]);
    assert_works(&client).await;
}

#[tokio::test(start_paused = true)]
async fn p6_client_gives_up_immediately_after_permanent_connect_errors() {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};

    for does in [InvalidInput, PermissionDenied, Unsupported].map(Does::Fail) {
        let world = World::new(echo());
        let client = world.connected().await;
        tokio::time::advance(LONG).await;
        world.always(does);
        world.server().close().await;
        let end = client.closed().await;
        assert_eq!(end.failure().map(Error::kind), Some(ErrorKind::Connect));
        assert_over(&client, CloseReason::ConnectFailed).await;
        assert_eq!(world.attempts(), 2);
    }
    let world = World::new(echo());
    world.always(Does::Panic);
    let client = world.client(Router::new()).start();
    assert_eq!(client.closed().await.failure().map(Error::kind), Some(ErrorKind::Panic));
    assert_over(&client, CloseReason::ConnectFailed).await;
}

#[tokio::test(start_paused = true)]
async fn p6_client_gives_up_a_server_that_always_accepts_and_disconnects() {
    let world = World::new(echo());
    world.always(Does::Drop);
    let client = world.client(Router::new()).give_up_after(3).start();
    let end = client.closed().await;
    assert_eq!((world.attempts(), end.reason()), (3, CloseReason::RemoteClosed));
    // Both kinds of failure count.
    let world = World::new(echo());
    world.next([Does::Drop, REFUSED, Does::Drop]);
    let client = world.client(Router::new()).give_up_after(3).start();
    client.closed().await;
    assert_eq!(world.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn p6_client_gives_up_after_the_configured_number_of_failures() {
    let world = World::new(echo());
    world.next([REFUSED; 2]);
    let client = world.client(Router::new()).give_up_after(3).start();
    client.connected().await.expect("two were too few");
    tokio::time::advance(LONG).await;
    world.next([REFUSED; 2]);
    world.break_off(&client).await;
    client.connected().await.expect("the count starts again");
    tokio::time::advance(LONG).await;
    world.always(Does::Fail(io::ErrorKind::NotFound));
    world.server().close().await;
    client.closed().await;
    assert_over(&client, CloseReason::ConnectFailed).await;
    assert_eq!(world.attempts(), 3 + 3 + 3);
}
