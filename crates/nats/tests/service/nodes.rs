//! Brokers that restart and die.

use std::time::{Duration, Instant};

use duet_rpc::{ErrorKind, Peer};

use super::support::{Broker, has_nats};
use super::{Running, peer, router, within};

/// Calls until a call is answered, and returns the time until then.
async fn is_back(math: &Peer) -> Duration {
    let begun = Instant::now();
    loop {
        // A call that was lost with the old connection is not waited for.
        let call = math.call::<i64>("add", (1, 2)).timeout(Duration::from_millis(200));
        match within(20, call).await {
            Ok(sum) => {
                assert_eq!(sum, 3);
                return begun.elapsed();
            }
            Err(error) => {
                let kinds = [ErrorKind::Timeout, ErrorKind::Interrupted, ErrorKind::Exchange];
                assert!(kinds.contains(&error.kind()), "{error:#}");
                assert!(begun.elapsed() < Duration::from_secs(20), "it is back");
                // Without a worker the answer comes at once.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test]
async fn n9_the_service_is_back_after_a_restart_of_the_broker() {
    if !has_nats() {
        return;
    }
    let mut broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    assert_eq!(math.call::<i64>("add", (1, 2)).await.expect("an answer"), 3);
    for _ in 0..3 {
        broker.restart();
        let took = is_back(&math).await;
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn n9_calls_settle_while_the_broker_is_gone() {
    if !has_nats() {
        return;
    }
    let mut broker = Broker::start();
    let worker = Running::start(&broker.url(), router()).await;
    let math = peer(&broker).await;
    let slow = tokio::spawn(math.call::<u64>("sleep", [60_000]));
    assert_eq!(math.call::<i64>("add", (1, 2)).await.expect("an answer"), 3);
    broker.kill();
    for call in [slow, tokio::spawn(math.call::<u64>("sleep", [1]))] {
        let begun = Instant::now();
        let error = within(20, call).await.expect("no panic").expect_err("no broker");
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error:#}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
    broker.start_again();
    is_back(&math).await;
    worker.stop().await;
}

#[tokio::test]
async fn n9_one_of_three_nodes_dies_and_nothing_hangs() {
    if !has_nats() {
        return;
    }
    let [mut one, two, three] = Broker::cluster();
    let workers = [
        Running::start(&one.url(), router()).await,
        Running::start(&two.url(), router()).await,
        Running::start(&three.url(), router()).await,
    ];
    let callers = [peer(&one).await, peer(&two).await, peer(&three).await];
    for math in &callers {
        is_back(math).await;
    }
    let calls: Vec<_> = callers
        .iter()
        .flat_map(|math| (0..50).map(|_| tokio::spawn(math.call::<u64>("sleep", [500]))))
        .collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    one.kill();
    let (mut answered, mut interrupted) = (0, 0);
    for call in calls {
        match within(10, call).await.expect("no panic") {
            Ok(_) => answered += 1,
            Err(error) if error.kind() == ErrorKind::Interrupted => interrupted += 1,
            Err(error) => panic!("{error:#}"),
        }
    }
    assert_eq!(answered + interrupted, 150);
    assert!(answered >= 50, "{answered}");
    for math in &callers {
        let took = is_back(math).await;
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    for worker in workers {
        worker.stop().await;
    }
}
