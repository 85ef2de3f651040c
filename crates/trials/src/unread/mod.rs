//! Memory of a server whose clients ask for large answers and never read them (L8, P9).
//!
//! Each case starts the testbed, lets some connections ask for answers that nobody reads, and looks for
//! the peak of its memory. While it listens, one more connection pings it and takes the time.

pub mod command;
mod connection;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use self::connection::Connection;
use crate::programs;
pub use crate::soak::Over;

/// A kind of life: who asks for what.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The profile of the daemon.
    pub profile: &'static str,
    /// How clients reach it.
    pub over: Over,
    /// How many clients there are.
    pub connections: usize,
    /// The size of each answer, in bytes.
    pub answer: usize,
}

/// The profiles of the daemon.
pub const PROFILES: [&str; 3] = ["editor", "desktop", "agent"];
/// All ways to reach it.
pub const WAYS: [Over; 5] = [Over::Stdio, Over::Tcp, Over::Unix, Over::Ws, Over::Http];

/// How long the other connection waits between two pings.
const PAUSE: Duration = Duration::from_millis(5);

const MIB: u64 = 1024 * 1024;

/// What the daemon takes that serves nobody, with its threads.
const AT_REST: u64 = 24 * MIB;
/// `outgoing_bytes`: what may wait to be sent on one connection before no further request begins.
const OUTGOING: u64 = MIB;
/// What else a connection takes: the requests that wait, and buffers.
const PER_CONNECTION: u64 = MIB;
/// What may wait to be sent on all connections of a server together.
const BUDGET: u64 = 64 * MIB;
/// So many answers are made at the same time at the most, if each is larger than all that may wait. One
/// waits to be sent, and others have begun before it was there.
const MADE_AT_ONCE: u64 = 4;
/// An answer takes this much of its size while it is made: as a value, and as JSON.
const COPIES: u64 = 2;
/// A handler whose answer is smaller than this is quick, and runs where its connection is served.
const QUICK: u64 = 4 * MIB;

impl Case {
    /// How much memory the daemon may take, in bytes: the bound that `docs/limits.md` states.
    pub fn bound(&self) -> u64 {
        let (connections, answer) = (self.connections as u64, self.answer as u64);
        let on_each = OUTGOING + PER_CONNECTION + if answer < QUICK { answer } else { 0 };
        let shared = if self.over == Over::Stdio { 0 } else { BUDGET };
        AT_REST + connections * on_each + COPIES * (shared + MADE_AT_ONCE * answer)
    }

    /// How many requests each client sends: more than are ever answered.
    fn requests(&self) -> usize {
        match self.answer {
            0..100_000 => 20_000 / self.connections.min(10),
            _ => 64,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { profile, over, connections, answer } = self;
        write!(f, "{profile} over {over}, {connections} x {answer} bytes")
    }
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The most memory that the daemon had, in bytes.
    pub peak: u64,
    /// The longest that a ping of another connection took, from before the others ask.
    pub worst_ping: Option<Duration>,
    /// How long the first ping of a connection took that was opened when all others had asked.
    pub first_ping: Option<Duration>,
    /// How long the daemon took to end.
    pub end: Duration,
}

/// Plays a case for so long.
///
/// # Errors
///
/// If the daemon cannot be started or reached, or does not end within two seconds.
pub fn play(case: &Case, time: Duration) -> io::Result<Measured> {
    let mut daemon = Daemon::start(case)?;
    let ask = format!(r#""method":"test.big","params":{{"bytes":{}}}"#, case.answer);
    let begun = Instant::now();
    let mut clients = Vec::new();
    let mut flood = |daemon: &mut Daemon| {
        for _ in 0..case.connections {
            let mut client = daemon.connect(case)?;
            client.send_unread(&ask, case.requests())?;
            clients.push(client);
        }
        Ok::<_, io::Error>(())
    };
    let (mut worst_ping, mut first_ping) = (None, None);
    if case.over == Over::Stdio {
        flood(&mut daemon)?;
        thread::sleep(time);
    } else {
        let mut other = daemon.connect(case)?;
        other.ping()?;
        let pings = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while begun.elapsed() < time {
                worst = worst.max(other.time_ping()?);
                thread::sleep(PAUSE);
            }
            Ok::<_, io::Error>(worst)
        });
        flood(&mut daemon)?;
        first_ping = Some(daemon.connect(case)?.time_ping()?);
        let worst = pings.join().map_err(|_| io::Error::other("the pings panicked"))?;
        worst_ping = Some(worst?);
    }
    let peak = daemon.peak()?;
    let end = daemon.end()?;
    drop(clients);
    Ok(Measured { peak, worst_ping, first_ping, end })
}

struct Daemon {
    process: Child,
    /// Where it listens.
    address: Option<String>,
}

impl Daemon {
    fn start(case: &Case) -> io::Result<Self> {
        let mut command = Command::new(programs::testbed());
        command.args(["--profile", case.profile, "--framing", "ndjson", "--log-level", "error"]);
        if let Some(url) = case.over.url() {
            command.args(["--listen", &url]).stdin(Stdio::null()).stdout(Stdio::null());
        } else {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        }
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let stderr = process.stderr.take().map(BufReader::new);
        let mut daemon = Daemon { process, address: None };
        if let Some(mut stderr) = stderr {
            if case.over != Over::Stdio {
                let mut line = String::new();
                stderr.read_line(&mut line)?;
                let address = line.trim().strip_prefix("listening on ").map(str::to_owned);
                daemon.address = Some(address.ok_or_else(|| io::Error::other(line))?);
            }
            thread::spawn(move || drain(stderr));
        }
        Ok(daemon)
    }

    fn connect(&mut self, case: &Case) -> io::Result<Connection> {
        match (&self.address, self.process.stdin.take()) {
            (Some(address), _) => Connection::open(case.over, address),
            (None, Some(stdin)) => {
                let flags = rustix::fs::fcntl_getfl(stdin.as_fd())?;
                rustix::fs::fcntl_setfl(stdin.as_fd(), flags | rustix::fs::OFlags::NONBLOCK)?;
                Ok(Connection::stdin(stdin))
            }
            (None, None) => Err(io::Error::other("stdin is one connection only")),
        }
    }

    /// The most memory that it had.
    fn peak(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmHWM"))
    }

    fn end(&mut self) -> io::Result<Duration> {
        let begun = Instant::now();
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        while begun.elapsed() < Duration::from_secs(10) {
            if self.process.try_wait()?.is_some() {
                return Ok(begun.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(io::Error::other("the daemon does not end"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads what nobody wants, so that the daemon never waits for it.
fn drain(mut stderr: BufReader<ChildStderr>) {
    let _ = stderr.read_to_end(&mut Vec::new());
}
