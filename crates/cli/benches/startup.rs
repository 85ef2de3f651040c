//! Time from the start of the daemon to its first answer, and its idle memory (S5). A loop that parses
//! nothing takes turns with it, as a reference for the speed of the machine. It fails if the daemon has too
//! much memory of its own. File pages do not count: processes share them.
//!
//! The command is built as `packaging/build` builds it. The command that cargo builds for a benchmark has
//! another profile, and the features that tests need.
//!
//! ```console
//! cargo bench -p duet-rpc-cli --bench startup
//! ```

#![expect(clippy::print_stdout, reason = "it prints its result")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;
/// Bound of S5 on the memory of the process itself.
const MAX_OWN_KIB: u64 = 512;
const BARE_LOOP: &str = "--bare-loop";

/// A contender: its arguments, and the message to send.
struct Contender {
    name: &'static str,
    arguments: &'static [&'static str],
    message: &'static [u8],
    times: Vec<Duration>,
    /// Resident memory, and the part that is not a page of a file, in KiB.
    memory: Vec<u64>,
    own: Vec<u64>,
}

fn contenders() -> [Contender; 4] {
    let contender = |name, arguments, message| Contender {
        name,
        arguments,
        message,
        times: Vec::new(),
        memory: Vec::new(),
        own: Vec::new(),
    };
    [
        contender("bare loop", &[], b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}\n"),
        contender(
            "editor",
            &["rpc", "--profile", "editor"],
            b"Content-Length: 42\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}",
        ),
        contender(
            "desktop",
            &["rpc", "--profile", "desktop"],
            b"\0\0\0\x2a{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}\n",
        ),
        contender(
            "agent",
            &["rpc", "--profile", "agent"],
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"version\"}\n",
        ),
    ]
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some(BARE_LOOP) {
        return bare_loop();
    }
    let released = build_released();
    let mut contenders = contenders();
    for _ in 0..ROUNDS {
        for contender in &mut contenders {
            contender.live(&released);
        }
    }
    let [limit, ..] = &contenders;
    let limit = median(&limit.times);
    println!(
        "| | start to first answer, median | as a multiple | idle memory | of that, its own |"
    );
    println!("|---|---|---|---|---|");
    for Contender { name, times, memory, own, .. } in &contenders {
        let (time, memory, own) = (median(times), median(memory), median(own));
        let ratio = time.as_secs_f64() / limit.as_secs_f64();
        println!("| {name} | {time:.2?} | {ratio:.2} | {memory} KiB | {own} KiB |");
        assert!(own <= MAX_OWN_KIB, "S5: {name} has more than {MAX_OWN_KIB} KiB of its own");
    }
}

impl Contender {
    /// Measures one run, from start to end.
    fn live(&mut self, released: &Path) {
        let mut command = match self.arguments {
            [] => {
                let mut command = Command::new(std::env::current_exe().expect("this is a file"));
                command.arg(BARE_LOOP);
                command
            }
            arguments => {
                let mut command = Command::new(released);
                command.args(arguments);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(self.message).expect("the remote reads");
        let mut answer = [0; 4096];
        let count =
            child.stdout.as_mut().expect("a pipe").read(&mut answer).expect("an answer arrives");
        self.times.push(begun.elapsed());
        assert!(count > 0, "{} answers", self.name);
        self.memory.extend(status_kib(&child, "VmRSS:"));
        self.own.extend(status_kib(&child, "RssAnon:"));
        drop(stdin);
        assert!(child.wait().expect("our child").success());
    }
}

/// Builds the command with the release settings, and returns its path.
fn build_released() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "duet-rpc-cli"]);
    assert!(cargo.status().expect("cargo runs").success());
    // This benchmark is target/release/deps/startup-….
    let here = std::env::current_exe().expect("this is a file");
    let folder =
        here.parent().and_then(Path::parent).expect("the benchmark is in a folder of cargo");
    folder.join("duet-rpc")
}

fn bare_loop() {
    let mut chunk = vec![0; 64 * 1024];
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    while let Ok(count @ 1..) = stdin.read(&mut chunk) {
        if stdout.write_all(&chunk[..count]).and_then(|()| stdout.flush()).is_err() {
            return;
        }
    }
}

/// A memory figure of a process, if the system reports it.
fn status_kib(child: &Child, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

fn median<T: Copy + Ord + Default>(values: &[T]) -> T {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
