//! Many calls at the same time leave nothing behind (P2, P3, P5, S4).

mod links;

use std::sync::Arc;
use std::time::Duration;

use duet_rpc::{ErrorKind, Failure, Peer, Profile, Router};
use links::{Link, alive_tasks, current_thread, is_quiet, stopped_clock, until};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// A hundred thousand, if the build is optimised.
const MANY: usize = if cfg!(debug_assertions) { 20_000 } else { 100_000 };

/// A profile with room for all calls.
fn roomy() -> Profile {
    Profile::agent().max_in_flight(MANY).with(|it| it.limits.pending_calls = MANY)
}

/// `wait` ends when it gets a permit, `never` never ends.
fn gated() -> (Router, Arc<Semaphore>) {
    let router = Router::new()
        .method("same", async |(number,): (usize,)| Ok::<_, Failure>(number))
        .method("never", async || -> Result<(), Failure> { std::future::pending().await });
    links::gated(router, "wait", |(number,): (usize,)| number)
}

fn call_all(peer: &Peer, method: &'static str, count: usize) -> JoinSet<()> {
    let mut calls = JoinSet::new();
    for number in 0..count {
        let call = peer.call::<usize>(method, (number,));
        calls.spawn(async move { assert_eq!(call.await.expect("an answer"), number) });
    }
    calls
}

#[test]
fn very_many_calls_at_once_are_answered() {
    current_thread().block_on(async {
        let before = alive_tasks();
        let (router, permits) = gated();
        let (one, two) = Link::Memory.join(&roomy(), Router::new(), router);
        call_all(&one, "same", MANY).join_all().await;

        // All of them wait at the same time.
        let calls = call_all(&one, "wait", MANY);
        until(|| one.stats().pending_calls == MANY && two.stats().running == MANY).await;
        permits.add_permits(MANY);
        calls.join_all().await;
        until(|| is_quiet(&one) && is_quiet(&two)).await;
        assert_eq!((one.stats().unmatched_answers, two.stats().unmatched_answers), (0, 0));
        tokio::join!(one.close(), two.closed());
        until(|| alive_tasks() == before).await;
    });
}

#[test]
fn p5_very_many_pending_calls_fail_when_the_connection_closes() {
    current_thread().block_on(async {
        let before = alive_tasks();
        let (router, _permits) = gated();
        let (one, two) = Link::Memory.join(&roomy(), Router::new(), router);
        let mut calls = JoinSet::new();
        for number in 0..MANY {
            calls.spawn(one.call::<usize>("wait", (number,)));
        }
        until(|| one.stats().pending_calls == MANY).await;
        one.close().await;
        for end in calls.join_all().await {
            assert_eq!(end.expect_err("the connection is closed").kind(), ErrorKind::Disconnected);
        }
        two.closed().await;
        assert!(is_quiet(&one));
        until(|| alive_tasks() == before).await;
    });
}

#[test]
fn many_calls_with_large_params_wait_for_room_and_each_gets_it() {
    const COUNT: usize = 3000;
    current_thread().block_on(async {
        let profile = roomy().with(|it| it.limits.outgoing_bytes = 10_000);
        let (router, _) = gated();
        let (one, _two) = Link::Memory.join(&profile, Router::new(), router);
        let mut calls = JoinSet::new();
        for number in 0..COUNT {
            // Only a few of them fit at a time, so most have to wait most of the time.
            let padding = "x".repeat(1000);
            let call = one.call::<Value>("nope", (number, padding));
            calls.spawn(async move { call.await.expect_err("there is no such method").kind() });
        }
        assert!(calls.join_all().await.iter().all(|&kind| kind == ErrorKind::Remote));
    });
}

/// 200 calls end in one way; then nothing is left of them, on either side of any link.
fn leaves_nothing<F>(end: impl Fn(Peer, Peer, JoinSet<ErrorKind>) -> F)
where
    F: Future<Output = (Peer, Peer)>,
{
    const COUNT: usize = 200;
    let scenario = async |link: Link| {
        let before = alive_tasks();
        let (router, permits) = gated();
        let (one, two) = link.join(&Profile::agent(), Router::new(), router);
        let _: usize = one.call("same", (1,)).await.expect("the call is answered");
        let connected = alive_tasks();
        let mut calls = JoinSet::new();
        for _ in 0..COUNT {
            let call = one.call::<Value>("never", ()).timeout(Duration::from_secs(7));
            calls.spawn(async move { call.await.expect_err("never").kind() });
        }
        until(|| two.stats().running == COUNT).await;
        let (one, two) = end(one, two, calls).await;
        // Each call was cancelled and answered, but nobody waited for the answer.
        until(|| is_quiet(&one) && is_quiet(&two) && one.stats().unmatched_answers == COUNT).await;
        until(|| alive_tasks() == connected).await;
        // The connection still works, and no forgotten timer fires.
        permits.add_permits(1);
        assert_eq!(one.call::<usize>("wait", (3,)).await.expect("the call is answered"), 3);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(is_quiet(&one) && is_quiet(&two));
        assert_eq!((one.stats().unmatched_answers, two.stats().unmatched_answers), (COUNT, 0));
        tokio::join!(one.close(), two.closed());
        until(|| alive_tasks() == before).await;
    };
    for link in LINKS {
        stopped_clock().block_on(scenario(link));
    }
}

const LINKS: [Link; 3] = [Link::Memory, Link::Pipe(64 * 1024), Link::Pipe(16)];

#[test]
fn p2_calls_that_time_out_leave_nothing_behind() {
    leaves_nothing(|one, two, calls| async {
        // The clock moves because nothing else is left to do.
        let kinds = calls.join_all().await;
        assert!(kinds.iter().all(|&kind| kind == ErrorKind::Timeout));
        (one, two)
    });
}

#[test]
fn p3_calls_that_are_dropped_leave_nothing_behind() {
    leaves_nothing(|one, two, mut calls| async move {
        calls.shutdown().await;
        (one, two)
    });
}

#[test]
fn p3_calls_that_lose_a_race_leave_nothing_behind() {
    leaves_nothing(|one, two, mut calls| async move {
        // A `select!` drops the call when another call is answered.
        for number in 0..50 {
            let winner = one.call::<usize>("same", (number,));
            let loser = calls.join_next();
            tokio::select! {
                answer = winner => assert_eq!(answer.expect("an answer"), number),
                _ = loser => panic!("never"),
            }
        }
        drop(calls);
        (one, two)
    });
}

#[test]
fn closed_pair_leaves_no_task() {
    for link in LINKS {
        stopped_clock().block_on(async {
            let before = alive_tasks();
            for round in 0..20 {
                let (router, _permits) = gated();
                let (one, two) = link.join(&Profile::agent(), router.clone(), router);
                let mut calls = JoinSet::new();
                for peer in [&one, &two] {
                    for _ in 0..10 {
                        calls.spawn(peer.call::<Value>("never", ()));
                    }
                }
                until(|| one.stats().running == 10 && two.stats().running == 10).await;
                match round % 3 {
                    0 => drop(one.close().await),
                    1 => drop(tokio::join!(one.close(), two.close())),
                    // Drop the last handle. A call also holds one, and a handler only if it takes its
                    // context.
                    _ => {
                        calls.shutdown().await;
                        drop(one);
                    }
                }
                two.closed().await;
                for end in calls.join_all().await {
                    assert_eq!(end.expect_err("closed").kind(), ErrorKind::Disconnected);
                }
                until(|| alive_tasks() == before).await;
            }
        });
    }
}
