//! Vanish: many clients of `duet-rpc bridge` that go without a word, from servers that start other processes. No
//! process may be left, and the bridge may not grow (B2, B4).

use std::net::TcpStream;

use rustix::net::sockopt::set_socket_linger;
use rustix::process::kill_process;

use crate::harness::prelude::*;
use crate::orphans::marked;
use crate::orphans::shapes::{SHAPES, Shape};

/// Environment variable that marks all processes of one bridge.
const VARIABLE: &str = "DUET_RPC_VANISH";
/// Maximum time for the processes of the last clients to end: EOF, SIGTERM, SIGKILL, on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time to read the begin of an answer; some servers never answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Maximum growth of the bridge, in kB, from the first tenth of the clients to the last.
const MOST_GROWTH: u64 = 8 * 1024;

/// Let clients of `duet-rpc bridge` vanish in every way, and look for processes left behind and for memory that grows.
///
/// Exit code: 0 if there is neither, 1 if there is, 2 for bad options.
#[derive(Clone, Debug, Parser)]
#[command(name = "vanish")]
pub struct VanishOptions {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of clients
    #[arg(long, default_value_t = 120)]
    pub clients: usize,
    /// Number of concurrent clients
    #[arg(long, default_value_t = 8)]
    pub jobs: usize,
}

/// The outcome of all clients.
#[derive(Debug, Default)]
pub struct VanishReport {
    /// Number of clients.
    pub clients: usize,
    /// Resident memory of all bridges in kB, after a tenth of the clients and after all of them.
    pub memory: (u64, u64),
    /// Failures, each with its cause.
    pub complaints: Vec<String>,
}

/// Runs the command.
pub fn main() -> ExitCode {
    match run(&VanishOptions::parse()) {
        Ok(VanishReport { clients, memory: (before, after), complaints }) => {
            complaints.iter().for_each(say);
            let failed = complaints.len();
            say(format_args!(
                "{clients} clients vanished: {failed} failures; bridges: {before} kB after a tenth, {after} kB at the end"
            ));
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("vanish: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Lets all clients vanish.
pub fn run(options: &VanishOptions) -> io::Result<VanishReport> {
    let shapes = SHAPES.iter().filter(|shape| shape.can_be_tried()).enumerate();
    let mut bridges: Vec<_> =
        shapes.map(|(number, shape)| Bridge::start(shape, number)).collect::<io::Result<_>>()?;
    let mut report = VanishReport { clients: options.clients, ..VanishReport::default() };
    let first = options.clients / 10;
    vanish(&bridges, options, 0..first);
    report.memory.0 = bridges.iter().map(Bridge::memory).sum();
    vanish(&bridges, options, first..options.clients);
    for bridge in &bridges {
        report.complaints.extend(bridge.leftovers());
    }
    report.memory.1 = bridges.iter().map(Bridge::memory).sum();
    let growth = report.memory.1.saturating_sub(report.memory.0);
    if growth > MOST_GROWTH * bridges.len() as u64 {
        report.complaints.push(format!("the bridges grew by {growth} kB"));
    }
    for bridge in &mut bridges {
        report.complaints.extend(bridge.end()?);
    }
    Ok(report)
}

/// Lets these clients vanish, several at the same time.
fn vanish(bridges: &[Bridge], options: &VanishOptions, clients: std::ops::Range<usize>) {
    let next = AtomicUsize::new(clients.start);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= clients.end {
                return;
            }
            let random = Random::new(options.seed.wrapping_mul(1 << 32) ^ number as u64);
            // A bridge that does not accept is found by its missing processes, and at the end.
            let _ = client(&bridges[number % bridges.len()].address, random);
        }
    };
    thread::scope(|scope| {
        (0..options.jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
}

/// A client that goes in one of many ways.
fn client(address: &str, mut random: Random) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n";
    match random.below(6) {
        // Before its first message, or in the middle of it.
        0 => return Ok(()),
        1 => return stream.write_all(&request[..20]),
        // With more than the server reads.
        2 => {
            stream.set_write_timeout(Some(ANSWER_WITHIN))?;
            let large = format!("[\"{}\"]\n", "x".repeat(300_000));
            (0..10).try_for_each(|_| stream.write_all(large.as_bytes()))?;
        }
        _ => stream.write_all(request)?,
    }
    // In the middle of the answer, or after it.
    let _ = stream.read(&mut vec![0; if random.once_in(2) { 5 } else { 4096 }]);
    if random.once_in(2) {
        // Without the usual end: the bridge sees a reset.
        set_socket_linger(&stream, Some(Duration::ZERO))?;
    }
    Ok(())
}

/// A bridge before one kind of server.
struct Bridge {
    name: &'static str,
    mark: String,
    process: std::process::Child,
    address: String,
    /// The bridge, its guard and its worker.
    own: Vec<u32>,
}

impl Bridge {
    fn start(shape: &Shape, number: usize) -> io::Result<Self> {
        let mark = format!("601.{:07}{number:03}", std::process::id());
        let mut command = Command::new(programs::duet_rpc());
        command.args(["bridge", "--listen", "tcp://127.0.0.1:0", "--max-clients", "10000"]);
        command.args([
            "--framing",
            "ndjson",
            "--to-framing",
            "ndjson",
            "--log-level",
            "error",
            "--",
        ]);
        command.args(shape.words(&mark)).env(VARIABLE, &mark).env_remove("DUET_RPC_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn()?;
        let mut stderr = io::BufReader::new(process.stderr.take().expect("a pipe"));
        let mut line = String::new();
        io::BufRead::read_line(&mut stderr, &mut line)?;
        // Somebody has to read the rest.
        thread::spawn(move || io::copy(&mut stderr, &mut io::sink()));
        let address = line.trim_end().strip_prefix("listening on tcp://");
        let address = address.ok_or_else(|| io::Error::other(format!("{line:?}")))?.to_owned();
        // Before the first client: later, the guard may adopt processes of servers.
        let own = own_processes(process.id(), &mark);
        Ok(Bridge { name: shape.name, mark, process, address, own })
    }

    /// The resident memory of the worker, in kB.
    fn memory(&self) -> u64 {
        let worker = self.own.last().copied().unwrap_or_default();
        proc::number(worker, "status", "VmRSS").unwrap_or_default()
    }

    /// Waits for the processes of servers to end. Returns those that stay.
    fn leftovers(&self) -> Option<String> {
        let mut left = Vec::new();
        wait_until(GONE_WITHIN, || {
            left = marked(&self.mark);
            left.retain(|(pid, _)| !self.own.contains(&pid.as_raw_nonzero().get().unsigned_abs()));
            left.is_empty()
        });
        let shown: Vec<_> = left.into_iter().map(|(_, line)| line).collect();
        (!shown.is_empty()).then(|| format!("{}: left behind: {}", self.name, shown.join(" | ")))
    }

    /// Ends the bridge. Returns what is wrong with its end.
    fn end(&mut self) -> io::Result<Option<String>> {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let mut status = None;
        wait_until(GONE_WITHIN, || {
            status = self.process.try_wait().transpose();
            status.is_some()
        });
        let Some(status) = status.transpose()? else {
            self.process.kill()?;
            self.process.wait()?;
            return Ok(Some(format!("{}: the bridge does not end", self.name)));
        };
        Ok((!status.success()).then(|| format!("{}: the bridge ended with {status}", self.name)))
    }
}

/// A bridge, its guard and its worker: each the only child of the one before.
fn own_processes(bridge: u32, mark: &str) -> Vec<u32> {
    let mut own = vec![bridge];
    for _ in 0..2 {
        let parent = own.last().copied().unwrap_or_default();
        let pids =
            marked(mark).into_iter().map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs());
        let is_child = |pid: &u32| proc::number(*pid, "status", "PPid") == Some(u64::from(parent));
        own.extend(pids.into_iter().find(is_child));
    }
    own
}
