//! `duet-rpc replay`, with the real binary and small servers (Y1–Y9).
#![cfg(target_os = "linux")]

mod load;
mod real;
mod recordings;
mod report;
#[path = "../support/mod.rs"]
mod support;
mod updates;
mod values;

use std::ffi::OsStr;
use std::process::{Command, Output};

use support::folder::Folder;
use support::once;
use support::programs::DUET_RPC;
use support::trace_file::{trace_text, write_trace as trace};

/// Runs the command with these words.
fn run<W: AsRef<OsStr>>(words: &[W]) -> Output {
    let mut command = Command::new(DUET_RPC);
    command.args(words).env_remove("NO_COLOR");
    once::run(command, b"")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The exit code, and stdout.
fn said(output: &Output) -> (i32, &str) {
    (output.status.code().expect("no signal"), stdout(output))
}

/// Records a session through the tap: the client sends these bytes, and reads until the server ends.
fn record<W: AsRef<OsStr>>(folder: &Folder, name: &str, input: &[u8], server: &[W]) -> String {
    let trace = folder.text(name);
    let mut tap = Command::new(DUET_RPC);
    tap.args(["tap", "--to", &trace, "--"]).args(server);
    let output = once::run(tap, input);
    assert!(output.status.success(), "{}", stderr(&output));
    trace
}

/// A server as a shell script. `<` reads a line and writes it to the file `LOG`; other lines are printed. `PID` is
/// its process id.
fn server(folder: &Folder, lines: &[&str]) -> [String; 3] {
    let log = folder.text("log");
    let mut script = String::new();
    for line in lines {
        script += &match *line {
            "<" => format!("read -r line && printf '%s\\n' \"$line\" >> '{log}'\n"),
            line => format!("printf '%s\\n' '{}'\n", line.replace("PID", "'$$'")),
        };
    }
    ["sh", "-c", &(script + "cat > /dev/null")].map(str::to_owned)
}

/// The lines that the server read.
fn log(folder: &Folder) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Replays a trace against a server.
fn replay(trace: &str, options: &[&str], server: &[impl AsRef<str>]) -> Output {
    let mut words = vec!["replay", trace];
    words.extend(options);
    words.push("--");
    words.extend(server.iter().map(AsRef::as_ref));
    run(&words)
}
