//! The work of one worker and of three, if each works on eight requests at the same time.

use std::time::Instant;

use duet_rpc::ErrorKind;
use duet_rpc_nats::NatsPeer;

use super::support::Broker;
use super::workers::{PLACES, WorkerProcess};
use super::{Size, block_on, check, say};

/// The milliseconds of one request.
const WORK: u64 = 5;

/// The least that three workers do, compared with one.
const LEAST: f64 = 2.7;

/// The callers: four for each place of three workers.
const CALLERS: u64 = 4 * 3 * PLACES as u64;

pub(crate) fn n3_three_workers_do_the_work_of_three(size: Size) -> Result<(), String> {
    let broker = Broker::start();
    let run = |count: usize| {
        let workers: Vec<_> =
            (0..count).map(|_| WorkerProcess::start(&broker.url(), 1024)).collect();
        let measured = measure(&broker.url(), size.count);
        (measured, workers.iter().map(WorkerProcess::served).collect::<Vec<_>>())
    };
    let (one, one_served) = run(1);
    let (three, served) = run(3);
    let factor = three.rate() / one.rate();
    // The model of docs/scale.md: places / time, for each worker.
    let model = PLACES as f64 / (WORK as f64 / 1000.0);
    say(&format!(
        "scaling: handlers of {WORK} ms, {PLACES} at the same time: one worker {:.0}/s, three {:.0}/s \
         ({factor:.2} times); the model says {model:.0}/s and {:.0}/s; the three served {served:?}; {} interrupted",
        one.rate(),
        three.rate(),
        3.0 * model,
        one.interrupted + three.interrupted,
    ));
    let made = size.count / CALLERS * CALLERS;
    for (counts, served) in [(&one, one_served), (&three, served.clone())] {
        // A machine that gives a worker no time for three seconds interrupts its calls.
        let settled = counts.answered + counts.interrupted;
        check(settled == made, || format!("{settled} of {made} calls settled"))?;
        let served = served.iter().sum::<u64>();
        check((counts.answered..=made).contains(&served), || format!("{served} handlers ran"))?;
    }
    check(served.iter().all(|&served| served > made / 8), || "the load was not spread".to_owned())?;
    check(!size.has_goals || (factor >= LEAST && one.interrupted + three.interrupted == 0), || {
        format!("three workers did {factor:.2} times the work of one")
    })
}

/// The ends of the calls of a run.
#[derive(Default)]
struct Counts {
    answered: u64,
    interrupted: u64,
    seconds: f64,
}

impl Counts {
    fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds
    }
}

fn measure(url: &str, requests: u64) -> Counts {
    block_on(async {
        let nats = NatsPeer::connect(url).await.expect("a broker");
        let peer = nats.service("trial").await.expect("subscribed");
        let begun = Instant::now();
        let calls: Vec<_> = (0..CALLERS)
            .map(|_| {
                let peer = peer.clone();
                tokio::spawn(async move {
                    let mut counts = Counts::default();
                    for _ in 0..requests / CALLERS {
                        match peer.call::<u64>("work", [WORK]).await {
                            Ok(ms) => counts.answered += u64::from(ms == WORK),
                            Err(error) if error.kind() == ErrorKind::Interrupted => {
                                counts.interrupted += 1;
                            }
                            Err(error) => say(&format!("scaling: {error:#}")),
                        }
                    }
                    counts
                })
            })
            .collect();
        let mut counts = Counts::default();
        for call in calls {
            let some = call.await.expect("no panic");
            counts.answered += some.answered;
            counts.interrupted += some.interrupted;
        }
        counts.seconds = begun.elapsed().as_secs_f64();
        counts
    })
}
