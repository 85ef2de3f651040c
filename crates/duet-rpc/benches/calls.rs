//! The cost of a call while other calls are pending (S4): it must not depend on their number.
//!
//! Each row has a connection of its own, in memory and on one thread, with a number of calls that wait for an
//! answer. The rows take turns, so that other load on the machine affects all of them. The table shows the
//! median of the turns. Run it with `cargo bench -p duet-rpc --bench calls`.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark prints its result")]

use std::time::{Duration, Instant};

use duet_rpc::proto::Limits;
use duet_rpc::transport::memory;
use duet_rpc::{Failure, Peer, Profile, Router};
use tokio::task::JoinSet;

const TURNS: usize = 60;
const CALLS: u32 = 500;
const MOST: usize = 100_000;

struct Row {
    pending: usize,
    method: &'static str,
    client: Peer,
    /// These handles keep the connection open.
    _server: Peer,
    _waiting: JoinSet<()>,
    turns: Vec<Duration>,
}

fn router() -> Router {
    Router::new()
        .method("at_once", async |(a, b): (i64, i64)| a + b)
        .method("waits", async |(a, b): (i64, i64)| {
            tokio::task::yield_now().await;
            a + b
        })
        .method("never", async || -> Result<(), Failure> { std::future::pending().await })
}

impl Row {
    async fn new(pending: usize, method: &'static str) -> Row {
        let limits = Limits::default().with(|it| {
            it.pending_calls = MOST + 1;
            it.in_flight = MOST + 2;
        });
        let profile = Profile::agent().with(|it| it.limits = limits);
        let (here, there) = memory::pair();
        let client = Peer::builder(here).profile(profile).router(Router::new()).spawn();
        let server = Peer::builder(there).profile(profile).router(router()).spawn();
        let mut waiting = JoinSet::new();
        for _ in 0..pending {
            // With a deadline, like all calls.
            let call = client.call::<()>("never", ()).timeout(Duration::from_secs(3600));
            waiting.spawn(async move { drop(call.await) });
        }
        while client.stats().pending_calls < pending || server.stats().running < pending {
            tokio::task::yield_now().await;
        }
        Row { pending, method, client, _server: server, _waiting: waiting, turns: Vec::new() }
    }

    async fn turn(&mut self) {
        let begun = Instant::now();
        for number in 0..CALLS {
            let sum = self.client.call::<i64>(self.method, (number, 1)).await;
            assert_eq!(sum.ok(), Some(i64::from(number) + 1));
        }
        self.turns.push(begun.elapsed() / CALLS);
    }

    fn median(&mut self) -> f64 {
        self.turns.sort_unstable();
        self.turns[self.turns.len() / 2].as_nanos() as f64
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut rows = Vec::new();
        for method in ["at_once", "waits"] {
            for pending in [10, 100, 1_000, 10_000, MOST] {
                rows.push(Row::new(pending, method).await);
            }
        }
        for _ in 0..TURNS {
            for row in &mut rows {
                row.turn().await;
            }
        }
        println!("{:<10} {:>10} {:>12} {:>8}", "handler", "pending", "ns per call", "ratio");
        let mut first = 0.0;
        for row in &mut rows {
            let median = row.median();
            if row.pending == 10 {
                first = median;
            }
            let ratio = median / first;
            println!("{:<10} {:>10} {median:>12.0} {ratio:>8.2}", row.method, row.pending);
        }
    });
}
