//! Calls beside bare request and reply of async-nats, in the same run and in turns.

use std::time::{Duration, Instant};

use async_nats::Client;
use duet_rpc::Peer;
use duet_rpc_nats::NatsPeer;

use super::support::Broker;
use super::workers::{WorkerProcess, processor_time};
use super::{Size, block_on, check, median, percentile, say};

/// The number of turns of each side. Each turn is compared with its neighbour, so that a moment in which the machine
/// does other work changes one comparison, and not the median of all.
const TURNS: u64 = 21;

/// The least part of the speed of bare requests: of their rate, and at p50 and p99.
const LEAST: f64 = 0.8;

/// One turn of one side.
struct Turn {
    seconds: f64,
    /// The time of each call, the shortest first.
    times: Vec<Duration>,
    /// The processor time of the caller, the worker and the broker.
    used: [Duration; 3],
}

impl Turn {
    fn rate(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    fn seconds_at(&self, part: f64) -> f64 {
        percentile(&self.times, part).as_secs_f64()
    }

    /// The processor time of one call, in microseconds: at the caller, the worker and the broker.
    fn used_by_one(&self) -> [f64; 3] {
        self.used.map(|used| used.as_secs_f64() * 1e6 / self.times.len() as f64)
    }
}

pub(crate) fn n3_calls_cost_little_more_than_bare_requests(size: Size) -> Result<(), String> {
    let broker = Broker::start();
    let url = broker.url();
    let (bare, ours) = (WorkerProcess::start_bare(&url), WorkerProcess::start(&url, 1024));
    let processes = |worker: &WorkerProcess| [std::process::id(), worker.id(), broker.id()];
    let mut reports = Vec::new();
    for callers in size.callers.map_or(vec![1, 64], |callers| vec![callers]) {
        // One caller alone is slower.
        let requests = (if callers == 1 { size.count / 5 } else { size.count }) / TURNS;
        let turns = block_on(async {
            let client = async_nats::connect(&url).await.expect("a broker");
            let nats = NatsPeer::connect(&url).await.expect("a broker");
            let peer = nats.service("trial").await.expect("subscribed");
            let mut turns = Vec::new();
            for _ in 0..=TURNS {
                let client = client.clone();
                let request = move |value| request(client.clone(), value);
                let bare = run(processes(&bare), callers, requests, request).await;
                let peer = peer.clone();
                let call = move |value| call(peer.clone(), value);
                turns.push((bare, run(processes(&ours), callers, requests, call).await));
            }
            turns
        });
        // The first turn warms up.
        reports.push(report(callers, &turns[1..], size.has_goals));
    }
    reports.into_iter().collect()
}

async fn request(client: Client, value: u64) {
    let payload = format!(r#"{{"jsonrpc":"2.0","id":{value},"method":"echo","params":[{value}]}}"#);
    let answer = client.request("bare.echo", payload.clone().into()).await.expect("an answer");
    assert_eq!(answer.payload, payload);
}

async fn call(peer: Peer, value: u64) {
    assert_eq!(peer.call::<u64>("echo", [value]).await.expect("an answer"), value);
}

fn report(callers: u64, turns: &[(Turn, Turn)], has_goals: bool) -> Result<(), String> {
    let compare = |part: &dyn Fn(&Turn, &Turn) -> f64| {
        median(turns.iter().map(|(bare, ours)| part(bare, ours)))
    };
    let rate = compare(&|bare, ours| ours.rate() / bare.rate());
    let p50 = compare(&|bare, ours| bare.seconds_at(0.5) / ours.seconds_at(0.5));
    let p99 = compare(&|bare, ours| bare.seconds_at(0.99) / ours.seconds_at(0.99));
    let shown = |name: &str, side: fn(&(Turn, Turn)) -> &Turn| {
        let figure = |part: &dyn Fn(&Turn) -> f64| median(turns.iter().map(|it| part(side(it))));
        let used = [0, 1, 2].map(|process| figure(&|turn| turn.used_by_one()[process]));
        format!(
            "{name} {:.0}/s, p50 {:.0} µs, p99 {:.0} µs, processor time of a call {:.1} µs at the caller, {:.1} µs \
             at the worker, {:.1} µs at the broker",
            figure(&Turn::rate),
            figure(&|turn| turn.seconds_at(0.5) * 1e6),
            figure(&|turn| turn.seconds_at(0.99) * 1e6),
            used[0],
            used[1],
            used[2],
        )
    };
    say(&format!("overhead, {callers} at the same time: {}", shown("async-nats", |turn| &turn.0)));
    say(&format!("overhead, {callers} at the same time: {}", shown("ours", |turn| &turn.1)));
    say(&format!(
        "overhead, {callers} at the same time: ours is {rate:.2} of the rate, {p50:.2} at p50, {p99:.2} at p99"
    ));
    check(!has_goals || rate.min(p50).min(p99) >= LEAST, || {
        format!("with {callers} callers, less than {LEAST} of bare requests")
    })
}

/// Makes this many requests with these callers.
async fn run<F>(
    processes: [u32; 3],
    callers: u64,
    requests: u64,
    call: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Turn
where
    F: Future<Output = ()> + Send,
{
    let before = processes.map(processor_time);
    let begun = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for value in (caller..requests).step_by(callers as usize) {
                    let begun = Instant::now();
                    call(value).await;
                    times.push(begun.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("no panic"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let after = processes.map(processor_time);
    let used = [0, 1, 2].map(|process| after[process].saturating_sub(before[process]));
    Turn { seconds, times, used }
}
