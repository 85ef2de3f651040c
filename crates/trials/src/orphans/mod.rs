//! Orphans: many servers that start other processes, each run by one `duet-rpc call`. None of the processes
//! may be left after the call has ended, by itself or by a signal (T1).

pub mod shapes;

use std::os::unix::process::ExitStatusExt;

use rustix::process::kill_process;

use shapes::{SHAPES, Shape};

use crate::harness::prelude::*;

/// Environment variable that marks all processes of one call.
const VARIABLE: &str = "DUET_RPC_ORPHANS";
/// Maximum time of a call: its timeout, and each step of stopping its server.
const MAX_CALL: Duration = Duration::from_secs(20);
/// Signals that end a call, one list per call.
const SIGNALS: [&[Signal]; 4] = [
    &[Signal::TERM],
    &[Signal::INT],
    &[Signal::TERM, Signal::TERM],
    &[Signal::HUP, Signal::INT, Signal::TERM],
];
/// Time for a killed process to disappear.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// Run many servers that start other processes, each with `duet-rpc call`. End half of the calls with
/// signals, and look for processes left behind.
///
/// Exit code: 0 if there are none, 1 if there are some, 2 for bad options.
#[derive(Clone, Debug, Parser)]
#[command(name = "orphans")]
pub struct OrphansOptions {
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of calls
    #[arg(long, default_value_t = 100)]
    pub lives: usize,
    /// Number of concurrent calls
    #[arg(long, default_value_t = 8)]
    pub jobs: usize,
}

/// The outcome of all calls.
#[derive(Debug, Default)]
pub struct OrphansReport {
    /// Number of calls.
    pub lives: usize,
    /// Number of calls that a signal ended.
    pub signalled: usize,
    /// Failures, each with its cause.
    pub complaints: Vec<String>,
}

/// Runs the command.
pub fn main() -> ExitCode {
    match run(&OrphansOptions::parse()) {
        Ok(OrphansReport { lives, signalled, complaints }) => {
            complaints.iter().for_each(say);
            let failed = complaints.len();
            say(format_args!(
                "{lives} calls, {signalled} of them ended by a signal: {failed} left processes behind"
            ));
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("orphans: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Makes all the calls.
pub fn run(options: &OrphansOptions) -> io::Result<OrphansReport> {
    let shapes: Vec<_> = SHAPES.iter().filter(|shape| shape.can_be_tried()).collect();
    let (next, report) = (AtomicUsize::new(0), Mutex::new(OrphansReport::default()));
    let program = programs::duet_rpc();
    let work = || -> io::Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.lives {
                return Ok(());
            }
            let random = Random::new(options.seed.wrapping_mul(1 << 32) ^ number as u64);
            let shape = shapes[number % shapes.len()];
            let mark = format!("600.{:07}{number:07}", std::process::id());
            let (signalled, complaint) = call(Command::new(&program), shape, &mark, random)?;
            let mut report = lock(&report);
            report.lives += 1;
            report.signalled += usize::from(signalled);
            report.complaints.extend(complaint);
        }
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        jobs.into_iter().try_for_each(|job| job.join().expect("nobody panics"))
    })?;
    Ok(report.into_inner().expect("nobody panics with it"))
}

/// Makes one call. Returns true if a signal ended it, and the failure.
fn call(
    mut command: Command,
    shape: &Shape,
    mark: &str,
    mut random: Random,
) -> io::Result<(bool, Option<String>)> {
    command.args(["call", "--timeout", "1", "m", "--"]).args(shape.words(mark));
    command.env(VARIABLE, mark).env_remove("DUET_RPC_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // Half of the calls end by themselves.
    let signals = if random.once_in(2) { &[][..] } else { *random.pick(&SIGNALS) };
    let mut call = command.spawn()?;
    let mut story = shape.name.to_owned();
    for signal in signals {
        let pause = Duration::from_micros(random.below(60_000) as u64);
        thread::sleep(pause);
        // The call is not reaped yet, so its pid cannot belong to another process.
        let _ = kill_process(Pid::from_child(&call), *signal);
        story.push_str(&format!(", signal {} after {pause:?}", signal.as_raw()));
    }
    let mut status = None;
    wait_until(MAX_CALL, || {
        status = call.try_wait().transpose();
        status.is_some()
    });
    let Some(status) = status.transpose()? else {
        call.kill()?;
        call.wait()?;
        left(mark);
        return Ok((false, Some(format!("{story}: the call hangs"))));
    };
    // The server's stderr is a pipe to the call, so this ends with the call.
    let mut said = String::new();
    call.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said)).transpose()?;
    let left = left(mark).join(" | ");
    let complaint = format!("{story}: {status}, and left behind: {left}; it said {said:?}");
    Ok((status.signal().is_some(), (!left.is_empty()).then_some(complaint)))
}

/// Waits for leftover processes to disappear. Kills the rest, and returns their command lines.
fn left(mark: &str) -> Vec<String> {
    let mut left = Vec::new();
    wait_until(GONE_WITHIN, || {
        left = marked(mark);
        left.is_empty()
    });
    left.iter().for_each(|(pid, _)| _ = kill_process(*pid, Signal::KILL));
    left.into_iter().map(|(_, line)| line).collect()
}

/// Finds all processes with this mark in their environment or on their command line.
pub(crate) fn marked(mark: &str) -> Vec<(Pid, String)> {
    let has_mark = |bytes: &[u8]| bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
    let by_environment = proc::processes("environ").into_iter().filter(|(_, it)| has_mark(it));
    let marked: Vec<_> = by_environment.map(|(pid, _)| pid).collect();
    // A process that has ended has neither.
    let lines = proc::processes("cmdline").into_iter();
    let found = lines.filter(|(pid, line)| has_mark(line) || marked.contains(pid));
    let shown = |line: &[u8]| String::from_utf8_lossy(line).replace('\0', " ").trim().to_owned();
    found.map(|(pid, line)| (pid, shown(&line))).collect()
}
