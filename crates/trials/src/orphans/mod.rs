//! Orphans: many servers that start other processes, each behind one `duet-rpc call`, and nothing of them may
//! be left when the call has ended, whether by itself or by a signal.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod` | one life, and many |
//! | `shapes` | the servers |
//! | `command` | the command line |

pub mod command;
pub mod shapes;

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::programs;
use crate::random::Random;
use shapes::{SHAPES, Shape};

/// The variable that marks all processes of one life.
const VARIABLE: &str = "DUET_RPC_ORPHANS";

/// How long a call may take: its timeout, and each step of stopping its server.
const LONGEST: Duration = Duration::from_secs(20);

/// How long a process that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// What is to be tried.
#[derive(Clone, Debug)]
pub struct Options {
    /// What all that is random comes from.
    pub seed: u64,
    /// How many calls are made.
    pub lives: usize,
    /// How many of them at the same time.
    pub jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { seed: 1, lives: 100, jobs: 8 }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// How many calls were made.
    pub lives: usize,
    /// How many of the calls were ended by a signal.
    pub signalled: usize,
    /// What went wrong, each with how it came to be.
    pub complaints: Vec<String>,
}

/// Makes all the calls.
pub fn run(options: &Options) -> io::Result<Report> {
    let shapes: Vec<_> = SHAPES.iter().filter(|shape| shape.can_be_tried()).collect();
    let (next, report) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    let program = programs::duet_rpc();
    let work = || -> io::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.lives {
                return Ok(());
            }
            let mut random = Random::new(options.seed.wrapping_mul(1 << 32) ^ number as u64);
            let shape = shapes[number % shapes.len()];
            let mark = format!("600.{:07}{number:07}", std::process::id());
            let life = Life { shape, signals: signals(&mut random), mark };
            let lived = life.live(Command::new(&program), random)?;
            let mut report = report.lock().expect("nobody panics with it");
            report.lives += 1;
            report.signalled += usize::from(lived.signalled);
            report.complaints.extend(lived.complaint);
        }
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("nobody panics"))
    })?;
    Ok(report.into_inner().expect("nobody panics with it"))
}

/// Half of the calls end by themselves.
fn signals(random: &mut Random) -> &'static [Signal] {
    const WAYS: [&[Signal]; 4] = [
        &[Signal::TERM],
        &[Signal::INT],
        &[Signal::TERM, Signal::TERM],
        &[Signal::HUP, Signal::INT, Signal::TERM],
    ];
    if random.once_in(2) { &[] } else { WAYS[random.below(WAYS.len())] }
}

/// One call.
struct Life<'a> {
    shape: &'a Shape,
    /// What it is sent, one after the other.
    signals: &'static [Signal],
    mark: String,
}

/// What came of one call.
struct Lived {
    signalled: bool,
    complaint: Option<String>,
}

impl Life<'_> {
    fn live(&self, mut command: Command, mut random: Random) -> io::Result<Lived> {
        command.args(["call", "--timeout", "1", "m", "--"]).args(self.shape.words(&self.mark));
        command.env(VARIABLE, &self.mark).env_remove("DUET_RPC_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut call = command.spawn()?;
        let mut story = String::new();
        for signal in self.signals {
            let pause = Duration::from_micros(random.below(60_000) as u64);
            thread::sleep(pause);
            // It is not reaped, so its pid is its own.
            let _ = kill_process(Pid::from_child(&call), *signal);
            story.push_str(&format!(", signal {} after {pause:?}", signal.as_raw()));
        }
        let status = wait(&mut call)?;
        // The server's own stderr is a pipe to the call, so this ends with the call.
        let mut said = String::new();
        call.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said)).transpose()?;
        let left = self.left();
        let complaint = match (status, left) {
            (None, _) => Some("the call hangs".to_owned()),
            (Some(status), left) if !left.is_empty() => {
                Some(format!("{status}, and left behind: {}; it said {said:?}", left.join(" | ")))
            }
            _ => None,
        };
        let shape = self.shape.name;
        Ok(Lived {
            signalled: status.is_some_and(|status| status.signal().is_some()),
            complaint: complaint.map(|what| format!("{shape}{story}: {what}")),
        })
    }

    /// What is left when all had the time to be gone. It is killed, and told.
    fn left(&self) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let left = marked(&self.mark);
            if left.is_empty() {
                return Vec::new();
            }
            if begun.elapsed() >= GONE_WITHIN {
                return left.into_iter().map(|(pid, line)| kill(pid, line)).collect();
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn kill(pid: Pid, line: String) -> String {
    let _ = kill_process(pid, Signal::KILL);
    line
}

/// Waits for the end of a call; `None` if it has none in time.
fn wait(call: &mut Child) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        if let Some(status) = call.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(2));
    }
    call.kill()?;
    call.wait()?;
    Ok(None)
}

/// All processes that run with this word in their environment or on their command line.
fn marked(mark: &str) -> Vec<(Pid, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let is_in_environment =
            read("environ").windows(mark.len()).any(|part| part == mark.as_bytes());
        // One that has ended has neither.
        if is_in_environment || line.contains(mark) {
            found.push((pid, line.trim().to_owned()));
        }
    }
    found
}
