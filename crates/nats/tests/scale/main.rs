//! Services on several worker processes: losses, scaling, overhead, overload. Without arguments, each trial runs at a
//! size that takes seconds, and checks what holds on every machine: how each call ends, how often, and that no message
//! is dropped. `scripts/scale` runs them at full size, with optimisation, and checks the times as well.

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;

mod kills;
mod overhead;
mod overload;
mod scaling;
mod workers;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use support::has_nats;

/// A trial: its name, and a function that runs it with a size and prints its figures.
struct Trial {
    name: &'static str,
    run: fn(Size) -> Result<(), String>,
    /// The sizes of a test, and of a full run.
    sizes: (u64, u64),
}

/// The size of a run.
#[derive(Clone, Copy)]
struct Size {
    /// The number of requests.
    count: u64,
    /// `true` if the goals for time apply: at full size, with optimisation, and on a machine without other work. A test
    /// checks what must hold on every machine.
    has_goals: bool,
    /// The number of callers of `overhead`, if it was chosen.
    callers: Option<u64>,
}

const TRIALS: &[Trial] = &[
    Trial {
        name: "kills",
        run: kills::n4_calls_settle_once_while_workers_are_killed,
        sizes: (30_000, 1_000_000),
    },
    Trial {
        name: "scaling",
        run: scaling::n3_three_workers_do_the_work_of_three,
        sizes: (1_920, 96_000),
    },
    Trial {
        name: "overhead",
        run: overhead::n3_calls_cost_little_more_than_bare_requests,
        sizes: (4_200, 420_000),
    },
    Trial {
        name: "overload",
        run: overload::n7_three_times_the_capacity_is_refused_quickly,
        sizes: (10_000, 100_000),
    },
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", url, limit] => return workers::serve(url, limit.parse().expect("a number")),
        ["bare-worker", url] => return workers::serve_bare(url),
        _ => {}
    }
    if !has_nats() {
        return ExitCode::SUCCESS;
    }
    let is_full = words.contains(&"--full");
    let number = |name: &str| -> Option<u64> {
        let value = words.iter().find_map(|word| word.strip_prefix(name));
        value.map(|value| value.parse().expect("a number"))
    };
    let (size, callers) = (number("--size="), number("--callers="));
    let names: Vec<_> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let mut exit = ExitCode::SUCCESS;
    for Trial { name, run, sizes } in TRIALS {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let count = size.unwrap_or(if is_full { sizes.1 } else { sizes.0 });
        match run(Size { count, has_goals: is_full, callers }) {
            Ok(()) => say(&format!("scale {name} ... ok")),
            Err(reason) => {
                say(&format!("scale {name} ... FAILED: {reason}"));
                exit = ExitCode::FAILURE;
            }
        }
    }
    exit
}

/// Prints a line.
fn say(line: &str) {
    // Nobody may read it.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Fails with a reason, unless the condition holds.
fn check(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

/// Runs a future on threads of its own.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work)
}

/// The middle one of these figures.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// The time that this part of the calls took no longer than.
fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}
