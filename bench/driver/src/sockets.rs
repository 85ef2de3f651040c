//! Measurements over sockets (TCP, WebSocket and HTTP), with one connection and with many.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Effort;
use crate::connections::Connections;
use crate::contenders::{LIMIT, READY_LIMIT};
use crate::drive::Run;
use crate::figures::{Fairness, Figures};
use crate::load::{Handler, Load, Shape};
use crate::server::{Contender, Pinning, Server};
use crate::system_calls;
use crate::table::{self, RunningServer, failed, percentiles};
use crate::wire::Framing;

/// Loads for all servers, over one connection.
const ROUND_TRIPS: [Load; 3] = [
    Load::echo(1, 64, Shape::Text),
    Load::echo(1, 1_000, Shape::Text),
    Load::echo(1, 1_000, Shape::Nested),
];
/// Several requests in flight, which HTTP does not support.
const PIPELINES: [Load; 8] = [
    Load::echo(64, 64, Shape::Text),
    Load::echo(64, 64, Shape::Nested),
    Load::echo(64, 1_000, Shape::Text),
    Load::echo(64, 1_000, Shape::Nested),
    Load::echo(8, 64_000, Shape::Text),
    Load::echo(8, 64_000, Shape::Nested),
    Load::echo(2, 1_000_000, Shape::Text),
    Load::echo(2, 1_000_000, Shape::Nested),
];
/// Loads for HTTP instead.
const LARGE_ROUND_TRIPS: [Load; 4] = [
    Load::echo(1, 64_000, Shape::Text),
    Load::echo(1, 64_000, Shape::Nested),
    Load::echo(1, 1_000_000, Shape::Text),
    Load::echo(1, 1_000_000, Shape::Nested),
];

/// Many connections, each with a request in flight.
pub const MANY: Load = Load::many(64, Handler::Echo);
/// The same with handlers that take long enough for the driver not to dominate.
pub const MANY_BUSY: Load = Load::many(64, Handler::Spin);
/// Enough connections to show a neglected one.
const THOUSAND: Load = Load::many(1_000, Handler::Echo);
/// Number of slices in a round with a thousand connections.
const LONG: usize = 5;
/// Limit of open files, in this process and its children.
const FILES: u64 = 8_192;

/// All loads of the tables, in order.
pub fn loads() -> impl Iterator<Item = Load> {
    ROUND_TRIPS.into_iter().chain(PIPELINES).chain(LARGE_ROUND_TRIPS).chain([MANY])
}

/// Returns true if a server is measured under a load.
fn takes(contender: &Contender, load: Load) -> bool {
    let is_limit = contender.name == LIMIT;
    match load {
        MANY => !is_limit && !builds_tree(contender),
        load if LARGE_ROUND_TRIPS.contains(&load) => is_limit || contender.framing == Framing::Http,
        load => load.window == 1 || contender.framing != Framing::Http,
    }
}

fn builds_tree(contender: &Contender) -> bool {
    contender.name.ends_with(", as a tree")
}

pub fn measure(
    mut contenders: Vec<Contender>,
    loads: &[Load],
    only: Option<Pinning>,
    effort: Effort,
    figures: &mut Figures,
) -> io::Result<()> {
    allow_files();
    for cores in [Pinning::OneCore, Pinning::TwoCores] {
        if only.is_none_or(|only| only == cores) {
            table::measure(&contenders, loads, takes, cores, effort, figures)?;
        }
        // Building a tree costs the same on two cores, so measure those servers only once.
        contenders.retain(|contender| !builds_tree(contender));
    }
    if only.is_none() {
        figures.system_calls = system_calls::measure(&contenders, takes)?;
    }
    contenders.retain(|contender| contender.name != LIMIT && contender.name != READY_LIMIT);
    if only.is_none_or(|only| only == Pinning::BothCores) {
        measure_growth(&contenders, effort, figures)?;
        figures.fairness = measure_fairness(&contenders, effort)?;
    }
    Ok(())
}

/// Measures each server on one core of its own, and on both cores, which it shares with the
/// driver.
fn measure_growth(
    contenders: &[Contender],
    effort: Effort,
    figures: &mut Figures,
) -> io::Result<()> {
    eprintln!("one core and both: {MANY_BUSY}");
    let on_two: Vec<_> =
        contenders.iter().map(|one| Contender { threads: Some(2), ..one.clone() }).collect();
    let mut entrants = Vec::new();
    for (one, two) in contenders.iter().zip(&on_two) {
        entrants.push(RunningServer::start(one, Pinning::TwoCores)?);
        entrants.push(RunningServer::start(two, Pinning::BothCores)?);
    }
    let mut all: Vec<_> = entrants.iter_mut().collect();
    table::measure_load(&mut all, MANY_BUSY, effort, &mut figures.rows)
}

fn measure_fairness(contenders: &[Contender], effort: Effort) -> io::Result<Vec<Fairness>> {
    eprintln!("fairness: {THOUSAND}");
    let mut entrants = Vec::new();
    for contender in contenders {
        let contender = Contender { threads: Some(2), ..contender.clone() };
        let connections = Server::start(&contender).and_then(|server| {
            server.pin(Pinning::BothCores);
            let mut connections = Connections::new(THOUSAND, &server)?;
            let Run { took, .. } = connections.run(THOUSAND.connections)?;
            let slices = effort.slice.as_secs_f64() / took.as_secs_f64();
            let count = THOUSAND.connections * LONG * slices.ceil() as usize;
            Ok((server, connections, count))
        });
        let (server, connections, count) =
            connections.map_err(|error| failed(&contender, &error))?;
        entrants.push((contender, server, connections, count, Vec::new(), Vec::new()));
    }
    for _ in 0..effort.rounds {
        for (contender, _, connections, count, waits, answered) in &mut entrants {
            let run = connections.run(*count).map_err(|error| failed(contender, &error))?;
            waits.extend(run.latencies);
            answered.push(connections.answered());
        }
    }
    let mut all = Vec::new();
    for (contender, server, _, _, waits, answered) in entrants {
        server.end();
        let Some(worst) = waits.iter().copied().max() else { continue };
        let Some(latency) = percentiles(waits) else { continue };
        let spread = |(fewest, most): &(u32, u32)| f64::from(*most) / f64::from(*fewest).max(0.5);
        let widest =
            answered.into_iter().max_by(|one, other| spread(one).total_cmp(&spread(other)));
        let (fewest, most) = widest.unwrap_or_default();
        let (median, p99) = (latency.p50, latency.p99);
        let waits = Fairness {
            server: contender.name,
            framing: contender.framing,
            connections: THOUSAND.connections,
            median,
            p99,
            worst,
            fewest,
            most,
        };
        eprintln!(
            "  {:7.2}  {median:10} ns  {worst:10} ns at the worst  {:9} {}",
            waits.ratio(),
            waits.framing.name(),
            waits.server
        );
        all.push(waits);
    }
    Ok(all)
}

/// Raises the limit of open files: each connection is a file, here and in the server. If the limit
/// stays too low, connecting fails later with an error.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}
