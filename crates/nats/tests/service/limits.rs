//! Limits: busy workers, large messages, slow consumers.

use std::time::{Duration, Instant};

use duet_rpc::{ErrorKind, Peer, Profile, Router};
use duet_rpc_nats::NatsPeer;

use super::support::{Broker, has_nats};
use super::{Running, peer, router, within};

#[tokio::test]
async fn n7_a_worker_over_its_limit_answers_busy_at_once() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start_with(&broker.url(), router(), 4).await;
    let math = peer(&broker).await;
    let running: Vec<_> = (0..4)
        .map(|_| {
            let math = math.clone();
            tokio::spawn(async move { math.call::<u64>("sleep", [600]).await })
        })
        .collect();
    // Until the four run, a call may get their place.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    let error = within(20, math.call::<i64>("add", (1, 2))).await.expect_err("busy");
    assert!(begun.elapsed() < Duration::from_millis(400), "{:?}", begun.elapsed());
    let remote = error.remote().expect("an answer");
    assert_eq!((remote.code, &*remote.message), (-32000, "Server busy"));
    for call in running {
        assert_eq!(within(20, call).await.expect("no panic").expect("an answer"), 600);
    }
    worker.stop().await;
}

#[tokio::test]
async fn n7_a_busy_answer_is_delivered_to_another_worker() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let full = Running::start_with(&broker.url(), router(), 0).await;
    let free = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    // Each delivery goes to either worker: 7 of 8 calls find the free one with three deliveries.
    let mut answered = 0;
    for n in 0..400 {
        match math.call::<i64>("add", (n, 1)).await {
            Ok(sum) => {
                assert_eq!(sum, n + 1);
                answered += 1;
            }
            Err(error) => assert_eq!(error.remote().map(|it| it.code), Some(-32000)),
        }
    }
    assert!((300..400).contains(&answered), "{answered}");
    full.stop().await;
    free.stop().await;
}

#[tokio::test]
async fn n8_a_message_over_the_limit_of_the_broker_is_not_sent() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    let large = "x".repeat(1024 * 1024);
    let error = within(20, math.call::<usize>("length", [&large])).await.expect_err("too large");
    assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Exchange, false));
    assert!(format!("{error:#}").contains("the broker takes 1048576"), "{error:#}");
    // An answer over the limit becomes an error.
    let error = within(20, math.call::<String>("repeat", [1024 * 1024])).await.expect_err("large");
    assert_eq!(error.remote().map(|it| it.code), Some(-32603));
    assert!(format!("{error:#}").contains("answer too large: 10"), "{error:#}");
    // So does an answer to a call of a handler, which tells the handler.
    let ours = Router::new().method("answer", async |_: (String,)| "x".repeat(1024 * 1024));
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let transport = nats.transport("math").await.expect("subscribed");
    let asked = Peer::builder(transport).router(ours).spawn();
    let ask = asked.call::<String>("ask_long", [1]).no_timeout();
    let error = within(20, ask).await.expect_err("the answer is too large");
    assert_eq!(error.remote().map(|it| it.code), Some(-32603), "{error:#}");
    // The connection is usable, and large messages below the limit pass.
    let large = large.get(..1_000_000).expect("it is longer");
    assert_eq!(within(20, math.call::<usize>("length", [large])).await.expect("fits"), 1_000_000);
    worker.stop().await;
}

#[tokio::test]
async fn n8_a_message_over_the_limit_of_the_caller_ends_its_call() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let transport = nats.transport("math").await.expect("subscribed");
    let small = Profile::agent().with(|it| {
        it.limits.message_bytes = 1000;
        it.call_timeout = None;
    });
    let ours = Router::new().method("answer", async |(question,): (String,)| question);
    let math = Peer::builder(transport).profile(small).router(ours).spawn();
    let error = within(20, math.call::<String>("repeat", [1000])).await.expect_err("too large");
    assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Exchange, true));
    assert!(format!("{error:#}").contains("the limit of the caller is 1000"), "{error:#}");
    // A call of the handler is refused, too. Its question would fit into its call.
    let calls_back = within(20, math.call::<String>("ask_long", [1000])).await;
    let error = calls_back.expect_err("the question is too large");
    assert_eq!(error.remote().map(|it| it.code), Some(-32603), "{error:#}");
    assert_eq!(within(20, math.call::<i64>("add", (1, 2))).await.expect("an answer"), 3);
    worker.stop().await;
}

#[tokio::test]
async fn n8_a_subject_that_the_broker_would_not_take_is_not_sent() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    for method in ["m".repeat(5000), "/".repeat(1400)] {
        let error = within(20, math.call::<()>(&method, ())).await.expect_err("too long");
        assert_eq!((error.kind(), error.was_sent()), (ErrorKind::Exchange, false));
        assert!(format!("{error:#}").contains("too long"), "{error:#}");
    }
    // The connection was not closed: a call over a lost one would take longer.
    assert_eq!(within(20, math.call::<i64>("add", (1, 2))).await.expect("an answer"), 3);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n7_three_times_the_capacity_is_answered_and_nothing_is_dropped() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    // 32 at the same time, of 5 ms each.
    let worker = Running::start_with(&broker.url(), router(), 32).await;
    let nats = NatsPeer::connect(&broker.url()).await.expect("a broker");
    let math = nats.service("math").await.expect("subscribed");
    let callers: Vec<_> = (0..96)
        .map(|_| {
            let math = math.clone();
            tokio::spawn(async move {
                let (mut done, mut busy, mut slowest) = (0, 0, Duration::ZERO);
                for _ in 0..100 {
                    let begun = Instant::now();
                    match math.call::<u64>("sleep", [5]).await {
                        Ok(_) => done += 1,
                        Err(error) => {
                            assert_eq!(error.remote().map(|it| it.code), Some(-32000), "{error}");
                            busy += 1;
                            slowest = slowest.max(begun.elapsed());
                        }
                    }
                }
                (done, busy, slowest)
            })
        })
        .collect();
    let (mut done, mut busy) = (0, 0);
    for caller in callers {
        let (some_done, some_busy, _) = within(60, caller).await.expect("no panic");
        done += some_done;
        busy += some_busy;
    }
    assert_eq!(done + busy, 9600, "each call is settled once");
    assert!(done > 500 && busy > 500, "{done} done, {busy} busy");
    assert_eq!(nats.slow_consumers(), 0);
    worker.stop().await;
}
