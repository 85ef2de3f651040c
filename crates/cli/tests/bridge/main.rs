//! `duet-rpc bridge`, with the real binary over real pipes and sockets (B1–B13).
#![cfg(target_os = "linux")]

mod client;
mod faults;
mod first;
mod http_server;
mod passing;
mod processes;
mod real;
mod servers;
mod shared;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use support::programs::{DUET_RPC, example};

/// A running bridge; ended when it is dropped.
struct Bridge {
    process: Child,
    stderr: BufReader<ChildStderr>,
    /// The addresses that it listens on.
    urls: Vec<String>,
}

impl Bridge {
    /// Starts a bridge that listens on these addresses, before this command.
    fn start<W: AsRef<std::ffi::OsStr>>(listen: &[&str], options: &[&str], server: &[W]) -> Self {
        let mut command = Command::new(DUET_RPC);
        command.arg("bridge").args(options).env_remove("DUET_RPC_LOG");
        command.args(listen.iter().flat_map(|url| ["--listen", url]));
        if !server.is_empty() {
            command.arg("--").args(server);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the bridge starts");
        let mut stderr = BufReader::new(process.stderr.take().expect("a pipe"));
        let mut urls = Vec::new();
        for _ in listen {
            let mut line = String::new();
            stderr.read_line(&mut line).expect("a line");
            let url = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}"));
            urls.push(url.trim_end().to_owned());
        }
        Bridge { process, stderr, urls }
    }

    fn url(&self) -> &str {
        &self.urls[0]
    }

    /// The process that passes messages on.
    fn worker(&self) -> i32 {
        let own = self.process.id().cast_signed();
        let guard = children(own).into_iter().next().expect("a guard");
        children(guard).into_iter().next().expect("a worker")
    }

    /// Sends a signal, and waits for the end. Returns the exit code and the rest of stderr.
    fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.process), signal).expect("it runs");
        self.wait()
    }

    /// Waits for the end. Returns the exit code and the rest of stderr.
    fn wait(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).expect("text");
        (self.process.wait().expect("our child").code(), said)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server of the tests.
fn bridged() -> String {
    example("duet-rpc-cli", "bridged").to_str().expect("text").to_owned()
}

/// The children of a process.
fn children(parent: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| status(*pid, "PPid").is_some_and(|it| it == i64::from(parent))).collect()
}

/// A number in `/proc/PID/status`.
fn status(pid: i32, name: &str) -> Option<i64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The processes with this word among their arguments.
fn marked(word: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_marked = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|it| it == word.as_bytes())
    };
    pids.filter(is_marked).collect()
}

/// Waits until a process has ended. It need not be our child.
fn wait_for_end_of(pid: i32) {
    let Some(Ok(process)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()))
    else {
        return;
    };
    let time = Timespec { tv_sec: 30, tv_nsec: 0 };
    let mut fds = [PollFd::new(&process, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&time)), Ok(1), "process {pid} does not end");
}

/// Waits until no process has this word among its arguments.
fn wait_for_no(word: &str) {
    loop {
        let pids = marked(word);
        if pids.is_empty() {
            return;
        }
        pids.into_iter().for_each(wait_for_end_of);
    }
}

/// Runs an async test.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
