//! `duet-rpc mock`, with the real binary (K1–K6).
#![cfg(target_os = "linux")]

mod faults;
mod misses;
mod recorded;
#[path = "../support/mod.rs"]
mod support;

use std::process::{Command, Output};

use support::folder::Folder;
use support::once;
use support::programs::DUET_RPC;
use support::trace_file::write_trace;

/// Runs the mock of a trace with these options and this stdin.
fn mock(trace: &str, options: &[&str], input: &[&str]) -> Output {
    let mut command = Command::new(DUET_RPC);
    command.args(["mock", trace]).args(options);
    once::run(command, (input.join("\n") + "\n").as_bytes())
}

/// The exit code, stdout and stderr.
fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

fn trace(folder: &Folder, lines: &[&str]) -> String {
    write_trace(folder, "trace.jsonl", lines)
}
