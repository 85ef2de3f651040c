//! The table: every server under every load, taking turns.

use std::io;

use crate::Effort;
use crate::drive::{Drive, Run};
use crate::figures::{Figures, Latency, Peak, Row, median};
use crate::load::Load;
use crate::roster::LIMIT;
use crate::server::{Contender, Place, Server};

/// How many messages a round has at the least.
const FEWEST: usize = 4;

struct Entrant<'a> {
    contender: &'a Contender,
    server: Server,
}

pub fn measure(
    roster: &[Contender],
    loads: &[Load],
    place: Place,
    effort: Effort,
    figures: &mut Figures,
) -> io::Result<()> {
    let mut entrants = Vec::new();
    for contender in roster {
        let server = Server::start(contender).map_err(|error| failed(contender, &error))?;
        entrants.push(Entrant { contender, server });
    }
    for &load in loads {
        eprintln!("{place:?}: {load}");
        measure_load(&entrants, load, place, effort, &mut figures.rows)?;
    }
    for Entrant { contender, server } in entrants {
        let peak = server.memory_kib("VmHWM").unwrap_or_default();
        let (name, framing) = (contender.name.clone(), contender.framing);
        figures.peaks.push(Peak { server: name, framing, place, kib: peak });
        server.end();
    }
    Ok(())
}

fn measure_load(
    entrants: &[Entrant<'_>],
    load: Load,
    place: Place,
    effort: Effort,
    rows: &mut Vec<Row>,
) -> io::Result<()> {
    let mut drives = Vec::new();
    for Entrant { contender, server } in entrants {
        server.pin(place);
        let drive = warm_up(load, server, effort);
        drives.push(drive.map_err(|error| failed(contender, &error))?);
    }
    let mut measured: Vec<_> = entrants.iter().map(|_| Measured::default()).collect();
    for _ in 0..effort.rounds {
        for ((entrant, (drive, count)), measured) in
            entrants.iter().zip(&mut drives).zip(&mut measured)
        {
            let run = measured.run(&entrant.server, drive, *count);
            run.map_err(|error| failed(entrant.contender, &error))?;
        }
    }
    let first = rows.len();
    for (entrant, measured) in entrants.iter().zip(measured) {
        rows.push(Row {
            server: entrant.contender.name.clone(),
            framing: entrant.contender.framing,
            place,
            load,
            switches: measured.switches as f64 / measured.messages as f64,
            nanos: measured.nanos,
            cpu_nanos: measured.cpu_nanos,
            latency: percentiles(measured.latencies),
        });
    }
    show(&rows[first..]);
    Ok(())
}

/// Tells who waits for the end how it goes.
fn show(rows: &[Row]) {
    for row in rows {
        let is_limit = |limit: &&Row| limit.server == LIMIT && limit.framing == row.framing;
        let ratio = rows.iter().find(is_limit).map_or(f64::NAN, |limit| row.ratio_to(limit));
        let (name, framing) = (&row.server, row.framing.name());
        let (nanos, cpu) = (median(&row.nanos), median(&row.cpu_nanos));
        eprintln!("  {ratio:7.2}  {nanos:10.0} ns  {cpu:10.0} ns on a core  {framing:6} {name}");
    }
}

/// Runs until the server is warm, and finds out how many messages fill a slice.
pub fn warm_up(load: Load, server: &Server, effort: Effort) -> io::Result<(Drive, usize)> {
    let mut drive = Drive::new(load, server)?;
    let mut count = load.window.max(FEWEST);
    loop {
        let took = drive.run(server, count)?.took;
        if took * 2 > effort.slice {
            let fitting = count as f64 * effort.slice.as_secs_f64() / took.as_secs_f64();
            let windows = (fitting / load.window as f64).round().max(1.0);
            return Ok((drive, (windows as usize * load.window).max(FEWEST)));
        }
        count *= 2;
    }
}

#[derive(Default)]
struct Measured {
    nanos: Vec<f64>,
    cpu_nanos: Vec<f64>,
    latencies: Vec<u32>,
    switches: u64,
    messages: usize,
}

impl Measured {
    fn run(&mut self, server: &Server, drive: &mut Drive, count: usize) -> io::Result<()> {
        let (cpu, switches) = (server.cpu_time(), server.switches());
        let Run { took, latencies } = drive.run(server, count)?;
        let cpu = server.cpu_time().saturating_sub(cpu);
        self.switches += server.switches().saturating_sub(switches);
        self.nanos.push(took.as_nanos() as f64 / count as f64);
        self.cpu_nanos.push(cpu.as_nanos() as f64 / count as f64);
        self.latencies.extend(latencies);
        self.messages += count;
        Ok(())
    }
}

fn percentiles(mut latencies: Vec<u32>) -> Option<Latency> {
    latencies.sort_unstable();
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied();
    Some(Latency { p50: at(0.5)?, p99: at(0.99)?, p999: at(0.999)? })
}

pub fn failed(contender: &Contender, error: &io::Error) -> io::Error {
    io::Error::other(format!("{} ({}): {error}", contender.name, contender.framing.name()))
}
