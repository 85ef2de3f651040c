//! Workers that are killed with SIGKILL, one every two seconds, while calls go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duet_rpc::{ErrorKind, Peer};
use duet_rpc_nats::NatsPeer;

use super::support::Broker;
use super::workers::WorkerProcess;
use super::{Size, block_on, check, percentile, say};

/// The number of workers, of calls at the same time, and of the milliseconds between two kills.
const WORKERS: usize = 3;
const CALLERS: u64 = 256;
const PERIOD: Duration = Duration::from_secs(2);

/// The longest that a call may take: three seconds of silence, and the time between two checks.
const LONGEST: Duration = Duration::from_millis(3500);

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    interrupted: AtomicU64,
    busy: AtomicU64,
    no_worker: AtomicU64,
    other: AtomicU64,
    wrong: AtomicU64,
}

pub(crate) fn n4_calls_settle_once_while_workers_are_killed(size: Size) -> Result<(), String> {
    let requests = size.count;
    let broker = Broker::start();
    let url = broker.url();
    let mut workers: Vec<_> = (0..WORKERS).map(|_| WorkerProcess::start(&url, 1024)).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let killer = {
        let (is_over, url) = (Arc::clone(&is_over), url.clone());
        std::thread::spawn(move || {
            let mut kills = 0_u64;
            let mut next = Instant::now() + PERIOD / 4;
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                if Instant::now() >= next {
                    next += PERIOD;
                    // The oldest worker dies, and a new one takes its place.
                    drop(workers.remove(0));
                    kills += 1;
                    workers.push(WorkerProcess::start(&url, 1024));
                }
            }
            kills
        })
    };
    let (counts, begun) = (Arc::new(Counts::default()), Instant::now());
    let (mut times, slow_consumers, unmatched) = block_on(async {
        let nats = NatsPeer::connect(&url).await.expect("a broker");
        let peer = nats.service("trial").await.expect("subscribed");
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (peer, counts) = (peer.clone(), Arc::clone(&counts));
                tokio::spawn(async move { call(&peer, &counts, caller, requests).await })
            })
            .collect();
        let mut times = Vec::new();
        for caller in callers {
            times.extend(caller.await.expect("no panic"));
        }
        (times, nats.slow_consumers(), peer.stats().unmatched_answers)
    });
    let seconds = begun.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    let kills = killer.join().expect("no panic");
    times.sort_unstable();
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let Counts { answered, interrupted, busy, no_worker, other, wrong } = &*counts;
    let (answered, interrupted, busy) = (get(answered), get(interrupted), get(busy));
    let (no_worker, other, wrong) = (get(no_worker), get(other), get(wrong));
    let slowest = times.last().copied().unwrap_or_default();
    say(&format!(
        "kills: {requests} requests in {seconds:.1} s ({:.0}/s), {kills} workers killed: {answered} answered, \
         {interrupted} interrupted, {busy} busy, {no_worker} without a worker, {other} other, {wrong} wrong; \
         p50 {:.2?}, p99 {:.2?}, slowest {slowest:.2?}; {slow_consumers} slow consumers, {unmatched} late answers",
        requests as f64 / seconds,
        percentile(&times, 0.5),
        percentile(&times, 0.99),
    ));
    let settled = answered + interrupted + busy + no_worker;
    check(settled == requests && other == 0 && wrong == 0, || {
        "a call ended in another way".to_owned()
    })?;
    check(kills > 0 && answered > requests / 2, || "too few kills or answers".to_owned())?;
    check(!size.has_goals || slowest < LONGEST, || format!("a call took {slowest:?}"))?;
    check(slow_consumers == 0 && unmatched == 0, || "messages were dropped or late".to_owned())
}

/// The calls of one caller, and the time of each.
async fn call(peer: &Peer, counts: &Counts, caller: u64, requests: u64) -> Vec<Duration> {
    let mut times = Vec::new();
    for value in (caller..requests).step_by(CALLERS as usize) {
        let begun = Instant::now();
        let result = peer.call::<u64>("echo", [value]).no_timeout().await;
        times.push(begun.elapsed());
        let count = match result {
            Ok(echo) if echo == value => &counts.answered,
            Ok(_) => &counts.wrong,
            Err(error) => match (error.kind(), error.was_sent()) {
                (ErrorKind::Interrupted, true) => &counts.interrupted,
                (ErrorKind::Exchange, false) => &counts.no_worker,
                (ErrorKind::Remote, _) if error.remote().is_some_and(|it| it.code == -32000) => {
                    &counts.busy
                }
                _ => &counts.other,
            },
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
    times
}
