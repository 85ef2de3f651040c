//! The cost of `duet-rpc tap` (W9), beside a bare loop of two threads that copies the same bytes, a pipeline
//! with `tee`, and no process between. All take turns within one run, with the same server.
//!
//! ```console
//! cargo bench -p duet-rpc-cli --bench tap
//! ```
//!
//! With PyPI `lsp-devtools` installed, its agent is a contender too. The environment variable `DUET_RPC` names
//! a program to measure instead of a new build.

#![expect(clippy::print_stdout, reason = "it prints its result")]

mod common;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{build_released, quartile};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const ROUNDS: usize = 150;
/// The time between two turns.
const SETTLE: Duration = Duration::from_millis(10);
/// A contender that has used this time takes no further turns: one of them needs a second for 1 MB.
const MOST_TIME: Duration = Duration::from_secs(15);
const SMALL_CALLS: usize = 200;
const LARGE_CALLS: usize = 8;
const SERVER: &str = "--echo-server";
const BARE_LOOP: &str = "--bare-loop";

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(SERVER) => return copy(std::io::stdin().lock(), std::io::stdout().lock()),
        Some(BARE_LOOP) => return bare_loop(),
        _ => {}
    }
    let folder = std::env::temp_dir().join(format!("duet-rpc-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let released = build_released();
    let mut contenders = contenders(&released, &folder);
    for _ in 0..ROUNDS {
        for contender in contenders.iter_mut().filter(|it| it.used < MOST_TIME) {
            contender.round();
            // The recorder should not work during the turn of the next.
            thread::sleep(SETTLE);
        }
    }
    let limit = contenders.iter().position(|it| it.name == "bare loop").expect("it is there");
    println!("| | round trip of 64 B | as a multiple | 1 MB there and back | as a multiple |");
    println!("|---|---|---|---|---|");
    let (small, large) = (quartile(&contenders[limit].small), quartile(&contenders[limit].large));
    for contender in &contenders {
        let (own_small, own_large) = (quartile(&contender.small), quartile(&contender.large));
        println!(
            "| {} | {:.1} µs | {:.2} | {:.2} ms | {:.2} |",
            contender.name,
            own_small * 1e6,
            own_small / small,
            own_large * 1e3,
            own_large / large
        );
    }
    for contender in contenders {
        contender.end();
    }
    println!();
    println!("{}", deaths(&released, &folder));
    println!("{}", losses(&folder));
    let _ = std::fs::remove_dir_all(folder);
}

/// A process between the client and the server, and its times.
struct Contender {
    name: &'static str,
    process: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    /// The time of one call, in each round.
    small: Vec<Duration>,
    large: Vec<Duration>,
    used: Duration,
}

fn contenders(released: &Path, folder: &Path) -> Vec<Contender> {
    let here = std::env::current_exe().expect("this is a file");
    let own = |words: &[&str]| {
        let mut command = Command::new(&here);
        command.args(words);
        command
    };
    let tap = |options: &[&str]| {
        let mut command = Command::new(released);
        command.arg("tap").args(options);
        if options.is_empty() {
            command.arg("--to").arg(folder.join("trace.jsonl"));
        }
        command.arg("--").arg(&here).arg(SERVER);
        command
    };
    let mut tee = Command::new("sh");
    tee.args(["-c", "tee \"$2\" | \"$1\" --echo-server | tee \"$3\"", "sh"]).arg(&here);
    tee.arg(folder.join("in")).arg(folder.join("out"));
    let mut found = vec![
        Contender::start("no process between", own(&[SERVER])),
        Contender::start("bare loop", own(&[BARE_LOOP])),
        Contender::start("`duet-rpc tap`", tap(&[])),
        Contender::start("`duet-rpc tap --no-record`", tap(&["--no-record"])),
        Contender::start("pipeline with `tee`", tee),
    ];
    let mut devtools = Command::new("lsp-devtools");
    devtools.args(["agent", "--"]).arg(&here).arg(SERVER);
    let version = Command::new("lsp-devtools").arg("--version").stdout(Stdio::null()).status();
    if version.is_ok_and(|it| it.success()) {
        found.push(Contender::start("`lsp-devtools agent`", devtools));
    }
    found
}

impl Contender {
    fn start(name: &'static str, mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program starts");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (stdin, stdout) = (stdin.expect("a pipe"), stdout.expect("a pipe"));
        let (small, large, used) = (Vec::new(), Vec::new(), Duration::ZERO);
        let mut contender = Contender { name, process, stdin, stdout, small, large, used };
        contender.calls(&message(64), 100);
        contender
    }

    /// Measures one round.
    fn round(&mut self) {
        let begun = Instant::now();
        let time = self.calls(&message(64), SMALL_CALLS);
        self.small.push(time);
        let time = self.calls(&message(1_000_000), LARGE_CALLS);
        self.large.push(time);
        self.used += begun.elapsed();
    }

    /// Sends messages and reads each back. Returns the time of one.
    fn calls(&mut self, message: &[u8], count: usize) -> Duration {
        let mut answer = vec![0; message.len()];
        let begun = Instant::now();
        for _ in 0..count {
            let Contender { stdin, stdout, .. } = self;
            if message.len() < 4096 {
                stdin.write_all(message).expect("the remote reads");
                stdout.read_exact(&mut answer).expect("an answer");
            } else {
                // The pipes hold less than a message, so both directions must run.
                thread::scope(|scope| {
                    scope.spawn(|| stdin.write_all(message).expect("the remote reads"));
                    stdout.read_exact(&mut answer).expect("an answer");
                });
            }
        }
        let took = begun.elapsed();
        assert!(answer == message, "{}", self.name);
        took / u32::try_from(count).expect("a small number")
    }

    fn end(mut self) {
        drop(self.stdin);
        // Not every contender ends with its stdin.
        if let Ok(life) = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()) {
            let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&life, PollFlags::IN)], Some(&patience));
        }
        let _ = self.process.kill();
        self.process.wait().expect("our child");
    }
}

/// A frame of this size, header included.
fn message(size: usize) -> Vec<u8> {
    let frame = |filler: usize| {
        let body = format!(r#"{{"id":1,"method":"m","p":"{}"}}"#, "x".repeat(filler));
        format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let mut filler = size.saturating_sub(frame(0).len());
    while frame(filler).len() > size && filler > 0 {
        filler -= 1;
    }
    frame(filler)
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// The least that a process between two others does.
fn bare_loop() {
    let mut command = Command::new(std::env::current_exe().expect("this is a file"));
    command.arg(SERVER).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().expect("the program starts");
    let (stdin, stdout) = (server.stdin.take().expect("a pipe"), server.stdout.take());
    thread::spawn(move || copy(std::io::stdin().lock(), stdin));
    copy(stdout.expect("a pipe"), unbuffered_stdout());
    let _ = server.wait();
}

/// Rust's stdout looks for line ends in everything that it writes.
fn unbuffered_stdout() -> std::fs::File {
    use std::os::fd::AsFd;
    std::io::stdout().as_fd().try_clone_to_owned().expect("a descriptor").into()
}

/// The time from SIGKILL to the tap until its server and a process of the server are gone (W6).
fn deaths(released: &Path, folder: &Path) -> String {
    let mut times = Vec::new();
    for _ in 0..100 {
        let mut command = Command::new(released);
        command.arg("tap").arg("--to").arg(folder.join("killed.jsonl"));
        command.args(["--", "sh", "-c", "setsid sleep 1000 & echo $$ $!; wait"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program starts");
        let mut line = [0; 64];
        let count = process.stdout.as_mut().expect("a pipe").read(&mut line).expect("a line");
        let line = String::from_utf8_lossy(&line[..count]).into_owned();
        let open = |pid: &str| {
            let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a process id");
            pidfd_open(pid, PidfdFlags::empty()).expect("it runs")
        };
        let processes: Vec<_> = line.split_whitespace().map(open).collect();
        let begun = Instant::now();
        process.kill().expect("our child");
        for process in &processes {
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], None);
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        let _ = process.wait();
    }
    let most = times.iter().copied().fold(0.0, f64::max);
    format!(
        "SIGKILL to the tap until its tree is gone: median {:.1} ms, most {most:.1} ms",
        median(times)
    )
}

/// The end of the trace of the benchmark: nothing was lost.
fn losses(folder: &Path) -> String {
    let trace = std::fs::read(folder.join("trace.jsonl")).expect("a trace");
    let last = trace.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    format!("last record of the trace: {}", String::from_utf8_lossy(last))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
