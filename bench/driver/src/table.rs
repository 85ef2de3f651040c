//! The table: every server under every load, in turns.

use std::io;
use std::time::Duration;

use nix::time::ClockId;

use crate::Effort;
use crate::connections::Connections;
use crate::contenders::LIMIT;
use crate::drive::{Drive, Run};
use crate::figures::{Figures, Latency, Peak, Row, median};
use crate::load::Load;
use crate::server::{Contender, Pinning, Server};

/// Minimum number of messages in a round.
const FEWEST: usize = 4;

/// A running server with its cores.
pub struct RunningServer<'a> {
    contender: &'a Contender,
    cores: Pinning,
    server: Server,
}

impl<'a> RunningServer<'a> {
    pub fn start(contender: &'a Contender, cores: Pinning) -> io::Result<Self> {
        let server = Server::start(contender).map_err(|error| failed(contender, &error))?;
        Ok(RunningServer { contender, cores, server })
    }

    /// Ends the server, and returns its peak memory.
    pub fn end(self) -> Peak {
        let kib = self.server.memory_kib("VmHWM").unwrap_or_default();
        self.server.end();
        let (server, framing) = (self.contender.name.clone(), self.contender.framing);
        Peak { server, framing, cores: self.cores, kib }
    }
}

/// Measures all servers under all loads that they take.
pub fn measure(
    contenders: &[Contender],
    loads: &[Load],
    takes: fn(&Contender, Load) -> bool,
    cores: Pinning,
    effort: Effort,
    figures: &mut Figures,
) -> io::Result<()> {
    let entrants: io::Result<Vec<_>> =
        contenders.iter().map(|contender| RunningServer::start(contender, cores)).collect();
    let mut entrants = entrants?;
    for &load in loads {
        eprintln!("{cores:?}: {load}");
        let mut takers: Vec<_> =
            entrants.iter_mut().filter(|entrant| takes(entrant.contender, load)).collect();
        measure_load(&mut takers, load, effort, &mut figures.rows)?;
    }
    figures.peaks.extend(entrants.into_iter().map(RunningServer::end));
    Ok(())
}

/// Adds a row for each server; they take turns.
pub fn measure_load(
    entrants: &mut [&mut RunningServer<'_>],
    load: Load,
    effort: Effort,
    rows: &mut Vec<Row>,
) -> io::Result<()> {
    let mut drives = Vec::new();
    for RunningServer { contender, cores, server } in entrants.iter_mut() {
        server.pin(*cores);
        let drive = server.reconnect().and_then(|()| warm_up(load, server, effort));
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
            cores: entrant.cores,
            load,
            switches: measured.switches as f64 / measured.messages as f64,
            nanos: measured.nanos,
            cpu_nanos: measured.cpu_nanos,
            driver_nanos: measured.driver_nanos,
            latency: percentiles(measured.latencies),
        });
    }
    show(&rows[first..]);
    Ok(())
}

/// Prints the progress.
fn show(rows: &[Row]) {
    for row in rows {
        let mut limits = rows.iter().filter(|limit| limit.server == LIMIT);
        // Over sockets there is one bare loop, and all framings are compared with it.
        let limit = limits.clone().find(|l| l.framing == row.framing).or_else(|| limits.next());
        let ratio = limit.map(|limit| format!("{:.2}", row.ratio_to(limit))).unwrap_or_default();
        let (name, framing) = (&row.server, row.framing.name());
        let (nanos, cpu) = (median(&row.nanos), median(&row.cpu_nanos));
        eprintln!("  {ratio:>7}  {nanos:10.0} ns  {cpu:10.0} ns on a core  {framing:9} {name}");
    }
}

/// Sender of the requests of a load.
pub enum Client {
    One(Box<Drive>),
    Many(Connections),
}

impl Client {
    pub fn new(load: Load, server: &Server) -> io::Result<Self> {
        match load.connections {
            1 => Ok(Client::One(Box::new(Drive::new(load, server)?))),
            _ => Ok(Client::Many(Connections::new(load, server)?)),
        }
    }

    pub fn run(&mut self, server: &Server, count: usize) -> io::Result<Run> {
        match self {
            Client::One(drive) => drive.run(server, count),
            Client::Many(connections) => connections.run(count),
        }
    }
}

/// Runs until the server is warm, and finds the number of messages that fill a slice.
pub fn warm_up(load: Load, server: &Server, effort: Effort) -> io::Result<(Client, usize)> {
    let mut drive = Client::new(load, server)?;
    let mut count = (load.window * load.connections).max(FEWEST);
    loop {
        let took = drive.run(server, count)?.took;
        if took * 2 > effort.slice {
            let fitting = count as f64 * effort.slice.as_secs_f64() / took.as_secs_f64();
            let at_once = load.window * load.connections;
            let windows = (fitting / at_once as f64).round().max(1.0);
            return Ok((drive, (windows as usize * at_once).max(FEWEST)));
        }
        count *= 2;
    }
}

#[derive(Default)]
struct Measured {
    nanos: Vec<f64>,
    cpu_nanos: Vec<f64>,
    driver_nanos: Vec<f64>,
    latencies: Vec<u32>,
    switches: u64,
    messages: usize,
}

impl Measured {
    fn run(&mut self, server: &Server, drive: &mut Client, count: usize) -> io::Result<()> {
        let (cpu, switches) = (server.cpu_time(), server.switches());
        let own_cpu = own_cpu_time();
        let Run { took, latencies } = drive.run(server, count)?;
        let own_cpu = own_cpu_time().saturating_sub(own_cpu);
        let cpu = server.cpu_time().saturating_sub(cpu);
        self.switches += server.switches().saturating_sub(switches);
        self.nanos.push(took.as_nanos() as f64 / count as f64);
        self.cpu_nanos.push(cpu.as_nanos() as f64 / count as f64);
        self.driver_nanos.push(own_cpu.as_nanos() as f64 / count as f64);
        self.latencies.extend(latencies);
        self.messages += count;
        Ok(())
    }
}

/// CPU time of this thread, which is the driver.
fn own_cpu_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from).unwrap_or_default()
}

pub fn percentiles(mut latencies: Vec<u32>) -> Option<Latency> {
    latencies.sort_unstable();
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize).copied();
    Some(Latency { p50: at(0.5)?, p99: at(0.99)?, p999: at(0.999)? })
}

pub fn failed(contender: &Contender, error: &io::Error) -> io::Error {
    io::Error::other(format!("{} ({}): {error}", contender.name, contender.framing.name()))
}
