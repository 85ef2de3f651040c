//! `duet-rpc tap`, with the real binary over real pipes and sockets (W1–W8, R0).
#![cfg(target_os = "linux")]

mod bytes;
mod ends;
mod faults;
mod recordings;
mod sinks;
mod sockets;
#[path = "../support/mod.rs"]
mod support;
mod trees;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use support::folder::Folder;
use support::programs::DUET_RPC;

/// The tap, with a trace in this folder, before a command.
fn tap<W: AsRef<std::ffi::OsStr>>(folder: &Folder, options: &[&str], words: &[W]) -> Command {
    let mut command = Command::new(DUET_RPC);
    command.arg("tap").arg("--to").arg(folder.path("trace.jsonl")).args(options);
    command.arg("--").args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The tap before a shell script.
fn tap_shell(folder: &Folder, script: &str) -> Command {
    tap(folder, &[], &["sh", "-c", script])
}

/// The bytes of a direction, from the trace in a folder; fails if it is not lossless.
fn cat(folder: &Folder, dir: &str) -> Vec<u8> {
    let output = cat_file(&folder.path("trace.jsonl"), dir);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn cat_file(trace: &Path, dir: &str) -> Output {
    let mut command = Command::new(DUET_RPC);
    command.args(["trace", "cat", "--dir", dir]).arg(trace);
    command.output().expect("the program starts")
}

/// The records of a trace, without its header.
fn records(trace: PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(trace).expect("a trace");
    text.lines().skip(1).map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// `dir kind` of each record.
fn kinds(records: &[Value]) -> Vec<String> {
    let text = |record: &Value, name: &str| record[name].as_str().expect("a text").to_owned();
    records.iter().map(|it| format!("{} {}", text(it, "dir"), text(it, "kind"))).collect()
}

/// Reads numbers from the first line of a stream.
fn read_pids(stream: impl std::io::Read) -> Vec<i32> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("a line");
    line.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
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

/// Writes to the stdin of a process. It may have closed its end.
fn write(process: &mut Child, bytes: &[u8]) {
    let stdin = process.stdin.as_mut().expect("stdin is open");
    let _ = stdin.write_all(bytes);
}
