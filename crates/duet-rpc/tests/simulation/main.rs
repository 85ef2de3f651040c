//! Simulation: two real peers over a link with every kind of failure. Each seed is one run.
//!
//! Everything runs on one thread, with a clock that moves only when no task can run. So every run of a seed
//! is the same, to the byte and to the millisecond. `world` makes a scenario from a seed, `play` runs it,
//! `journal` records all events, and `oracle` reports violations.
//!
//! To repeat a failed seed, run `SEED=123 cargo test -p duet-rpc --all-features --test simulation`.
//! `scripts/simulate` runs as many seeds as there is time for.

mod actions;
mod calling;
mod cutter;
mod handlers;
mod injector;
mod journal;
mod link;
mod oracle;
mod plan;
mod play;
mod random;
mod regressions;
mod world;

use std::fmt;
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use journal::Event;
use world::{Lie, World};

/// The number of seeds that are run by default.
const SEEDS: u64 = 3000;

/// Figures of the simulated runs.
#[derive(Clone, Copy, Default)]
struct Figures {
    seeds: u64,
    exact: u64,
    virtual_ms: u64,
    calls: u64,
    messages: u64,
    pieces: u64,
    broken: u64,
    handed: u64,
    refused: u64,
    events: u64,
    parked: u64,
}

/// Lower bounds for the figures of the first seeds, because a simulation without failures finds no defects.
const FLOOR: Figures = Figures {
    seeds: SEEDS,
    exact: 800,
    virtual_ms: 3 * 3_600_000,
    calls: 15_000,
    messages: 40_000,
    pieces: 400_000,
    broken: 400,
    handed: 2_000,
    refused: 400,
    events: 2_000,
    parked: 500,
};

impl Figures {
    /// Each figure with its name.
    fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("seeds", self.seeds),
            ("exact", self.exact),
            ("virtual_ms", self.virtual_ms),
            ("calls", self.calls),
            ("messages", self.messages),
            ("pieces", self.pieces),
            ("broken", self.broken),
            ("handed", self.handed),
            ("refused", self.refused),
            ("events", self.events),
            ("parked", self.parked),
        ]
    }

    /// Checks the figures against their lower bounds, if there were enough seeds.
    fn check_floor(&self) {
        for ((name, figure), (_, floor)) in self.named().into_iter().zip(FLOOR.named()) {
            let floor = floor * self.seeds / FLOOR.seeds;
            assert!(self.seeds < SEEDS || figure >= floor, "{name}: {figure}, below {floor}");
        }
    }

    fn add(&mut self, other: Figures) {
        self.seeds += other.seeds;
        self.exact += other.exact;
        self.virtual_ms += other.virtual_ms;
        self.calls += other.calls;
        self.messages += other.messages;
        self.pieces += other.pieces;
        self.broken += other.broken;
        self.handed += other.handed;
        self.refused += other.refused;
        self.events += other.events;
        self.parked += other.parked;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.virtual_ms as f64 / 3_600_000.0;
        writeln!(
            f,
            "{:>12} seeds, and for {} of them the model knows every outcome",
            self.seeds, self.exact
        )?;
        writeln!(f, "{hours:>12.1} hours of simulated time")?;
        writeln!(f, "{:>12} calls", self.calls)?;
        writeln!(f, "{:>12} messages on the link", self.messages)?;
        writeln!(f, "{:>12} reads", self.pieces)?;
        writeln!(f, "{:>12} injected pieces between messages", self.handed)?;
        writeln!(f, "{:>12} requests refused as busy", self.refused)?;
        writeln!(f, "{:>12} events", self.events)?;
        writeln!(f, "{:>12} calls polled only once", self.parked)?;
        write!(f, "{:>12} links that broke", self.broken)
    }
}

/// Runs a seed; returns its figures, or a report if it went wrong.
fn simulate(seed: u64) -> Result<Figures, String> {
    simulate_world(&World::random(seed), false).map(|(figures, _)| figures)
}

/// The same, with the digest of all events.
fn simulate_world(world: &World, shows_all: bool) -> Result<(Figures, u64), String> {
    let (journal, outcome) = play::play(world);
    let mut book = journal.book();
    let objections = oracle::judge(world, &book, &outcome);
    if world.has_random_ids() {
        book.bytes = Default::default();
    }
    if shows_all {
        eprintln!("{}", book.tail(usize::MAX));
    }
    if !objections.is_empty() {
        let (seed, tail) = (world.seed, book.tail(150));
        return Err(format!(
            "{world:#?}\n\n{tail}\nseed {seed}: {}\n\n    SEED={seed} cargo test -p duet-rpc \
             --all-features --test simulation\n",
            objections.join("\n    ")
        ));
    }
    let count = |is_it: fn(&Event) -> bool| {
        book.events.iter().filter(|(_, event)| is_it(event)).count() as u64
    };
    let figures = Figures {
        seeds: 1,
        exact: u64::from(world.is_exact()),
        virtual_ms: book.events.last().map_or(0, |(at, _)| *at),
        calls: book.calls.len() as u64,
        messages: book.frames.iter().map(|frames| frames.len() as u64).sum(),
        pieces: count(|event| matches!(event, Event::Read(..))),
        broken: count(|event| matches!(event, Event::Mishap(_))),
        handed: count(|event| matches!(event, Event::Handed(..))),
        refused: book.frames.iter().flatten().map(|frame| refusals_in(&frame.body)).sum(),
        events: book.streams.iter().map(|emitted| emitted.taken).sum(),
        parked: book.calls.iter().filter(|call| call.is_parked).count() as u64,
    };
    Ok((figures, book.digest()))
}

fn refusals_in(body: &[u8]) -> u64 {
    String::from_utf8_lossy(body).matches(r#""message":"Server busy""#).count() as u64
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// A seed that takes longer hangs: its clock does not move. A seed that works takes far less time on any
/// machine.
const HANGS: Duration = Duration::from_secs(30);

/// Runs seeds on all processors.
fn simulate_all(from: u64, seeds: u64) -> Figures {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(from);
    let at_work: Vec<_> = (0..threads).map(|_| AtomicU64::new(from)).collect();
    let total = Mutex::new(Figures::default());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel::<()>();
        for own in &at_work {
            let (tell, next, total, failures) = (tell.clone(), &next, &total, &failures);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || failures.lock().expect("no panic").len() >= 3 {
                        break;
                    }
                    own.store(seed, Ordering::Relaxed);
                    match simulate(seed) {
                        Ok(figures) => total.lock().expect("no panic").add(figures),
                        Err(failure) => failures.lock().expect("no panic").push(failure),
                    }
                    let _ = tell.send(());
                }
            });
        }
        drop(tell);
        loop {
            match told.recv_timeout(HANGS) {
                Ok(()) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let seeds: Vec<_> = at_work.iter().map(|n| n.load(Ordering::Relaxed)).collect();
                    eprintln!("one of the seeds {seeds:?} hangs");
                    std::process::abort();
                }
            }
        }
    });
    let failures = failures.into_inner().expect("no panic");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    total.into_inner().expect("no panic")
}

/// Every call ends once, as the model predicts. Every request is answered once. Nothing is left at the end.
#[test]
fn every_call_settles_once_as_the_model_says() {
    if let Some(seed) = number_from("SEED") {
        let world = World::random(seed);
        eprintln!("{world:#?}");
        if let Err(failure) = simulate_world(&world, true) {
            panic!("{failure}");
        }
        return;
    }
    let (from, seeds) = (number_from("FROM").unwrap_or(0), number_from("SEEDS").unwrap_or(SEEDS));
    let figures = simulate_all(from, seeds);
    eprintln!("\n{figures}");
    assert_eq!(figures.seeds, seeds, "each of them was simulated");
    figures.check_floor();
}

/// A seed gives the same events when it is run again, and in another process, where hash tables have
/// another order and the load of the machine differs.
#[test]
fn a_seed_is_the_same_each_time_and_everywhere() {
    let here = digests();
    assert_eq!(here, digests());
    let elsewhere = Command::new(std::env::current_exe().expect("this is a program"))
        .args(["--exact", "digests_for_another_process", "--ignored", "--nocapture"])
        .output()
        .expect("the program starts");
    let elsewhere = String::from_utf8(elsewhere.stdout).expect("text");
    let lines = elsewhere.lines().filter_map(|line| line.strip_prefix(DIGEST));
    assert_eq!(here, lines.collect::<Vec<_>>());
}

#[test]
#[ignore = "the test above runs this"]
fn digests_for_another_process() {
    let lines = digests().into_iter().map(|line| format!("\n{DIGEST}{line}\n"));
    std::io::stdout().write_all(lines.collect::<String>().as_bytes()).expect("stdout is there");
}

/// The beginning of a line with a digest.
const DIGEST: &str = "digest of ";

fn digests() -> Vec<String> {
    let digest = |seed| match simulate_world(&World::random(seed), false) {
        Ok((_, digest)) => format!("{seed}: {digest:016x}"),
        Err(failure) => failure,
    };
    (0..60).map(digest).collect()
}

/// The oracle notices a link that loses or changes bytes.
#[test]
fn a_link_that_changes_bytes_is_detected() {
    let lies: [fn(usize, usize) -> Lie; 4] =
        [Lie::LosesByte, Lie::ChangesByte, Lie::RepeatsMessage, Lie::LosesMessage];
    for (n, lie) in lies.into_iter().enumerate() {
        let worlds =
            (0..).map(World::random).filter(|world| world.is_exact() && world.framing.is_some());
        let mut found = 0;
        for (seed, mut world) in worlds.take(40).enumerate() {
            let place = if n < 2 { 60 } else { 0 };
            world.lie = Some(lie(seed % 2, place));
            found += u32::from(simulate_world(&world, false).is_err());
        }
        // In some runs there are no bytes to lose, or the lost bytes make no difference.
        assert!(found >= 20, "{:?}: {found}", lie(0, 0));
    }
}
