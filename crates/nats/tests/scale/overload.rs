//! Three times as many calls as a worker can do: its memory, and the time of a busy answer.
//!
//! The calls come at a fixed rate, whatever the worker answers, as from many independent clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duet_rpc::Peer;
use duet_rpc_nats::NatsPeer;
use tokio::task::JoinSet;

use super::support::Broker;
use super::workers::WorkerProcess;
use super::{Size, block_on, check, percentile, say};

/// The number of requests that the worker takes at the same time, and the milliseconds of each.
const LIMIT: usize = 8;
const WORK: u64 = 5;

/// The calls for a second: three times the capacity.
const RATE: u64 = 3 * LIMIT as u64 * 1000 / WORK;

/// The time within which 99 of 100 busy answers are there, after three deliveries.
const BUSY_WITHIN: Duration = Duration::from_millis(10);

/// The growth of memory that is not noticed, in kB.
const MOST_GROWTH: u64 = 8 * 1024;

pub(crate) fn n7_three_times_the_capacity_is_refused_quickly(size: Size) -> Result<(), String> {
    let broker = Broker::start();
    let worker = WorkerProcess::start(&broker.url(), LIMIT);
    let load = |requests| block_on(load(&broker.url(), requests));
    load(size.count / 5);
    let before = worker.memory();
    let (answered, mut busy, slow_consumers) = load(size.count);
    let after = worker.memory();
    busy.sort_unstable();
    let (p50, p99) = (percentile(&busy, 0.5), percentile(&busy, 0.99));
    say(&format!(
        "overload: {} calls, {RATE} a second, to a worker with {LIMIT} places of {WORK} ms: {answered} answered, {} \
         busy after three deliveries (p50 {p50:.2?}, p99 {p99:.2?}); worker {before} kB before, {after} kB after; \
         {slow_consumers} slow consumers",
        size.count,
        busy.len()
    ));
    check(answered + busy.len() as u64 == size.count, || "a call ended in another way".to_owned())?;
    check(answered > 0 && !busy.is_empty(), || "the load was no overload".to_owned())?;
    check(after < before + MOST_GROWTH, || format!("memory grew from {before} kB to {after} kB"))?;
    check(slow_consumers == 0, || "messages were dropped".to_owned())?;
    check(!size.has_goals || p99 < BUSY_WITHIN, || format!("busy answers take {p99:?} at p99"))
}

/// Returns the number of answered calls, the time of each busy answer, and the number of slow consumers.
async fn load(url: &str, requests: u64) -> (u64, Vec<Duration>, u64) {
    let nats = NatsPeer::connect(url).await.expect("a broker");
    let peer = nats.service("trial").await.expect("subscribed");
    let answered = Arc::new(AtomicU64::new(0));
    let mut calls = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    let (begun, mut made) = (Instant::now(), 0);
    while made < requests {
        tick.tick().await;
        // The calls that are due by now.
        let due = (begun.elapsed().as_secs_f64() * RATE as f64) as u64;
        let due = due.min(requests);
        for _ in made..due {
            calls.spawn(call(peer.clone(), Arc::clone(&answered)));
        }
        made = made.max(due);
    }
    let busy = calls.join_all().await.into_iter().flatten().collect();
    (answered.load(Ordering::Relaxed), busy, nats.slow_consumers())
}

/// Returns the time of a busy answer.
async fn call(peer: Peer, answered: Arc<AtomicU64>) -> Option<Duration> {
    let begun = Instant::now();
    match peer.call::<u64>("wait", [WORK]).await {
        Ok(_) => {
            answered.fetch_add(1, Ordering::Relaxed);
            None
        }
        Err(error) if error.remote().is_some_and(|it| it.code == -32000) => Some(begun.elapsed()),
        Err(error) => panic!("{error:#}"),
    }
}
