//! `duet-rpc api`, with the real binary, real servers and a real browser (A1–A7).
#![cfg(unix)]

mod pages;
mod sources;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsStr;
use std::process::{Command, Output};

use support::once;
use support::programs::{DUET_RPC, root};

/// Runs `duet-rpc api` with these words, and nothing on stdin.
fn api<W: AsRef<OsStr>>(words: &[W]) -> Output {
    api_of(words, b"")
}

fn api_of<W: AsRef<OsStr>>(words: &[W], input: &[u8]) -> Output {
    let mut command = Command::new(DUET_RPC);
    command.arg("api").args(words).env_remove("NO_COLOR");
    once::run(command, input)
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The document of the tests.
fn library() -> String {
    root().join("crates/cli/tests/api/library.json").to_str().expect("a plain path").to_owned()
}

fn library_text() -> String {
    std::fs::read_to_string(library()).expect("the file is there")
}

#[track_caller]
fn check(output: &Output, exit: i32, in_stdout: &[&str], in_stderr: &[&str]) {
    let shown = format!("{}\n--\n{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(exit), "{shown}");
    for text in in_stdout {
        assert!(stdout(output).contains(text), "{text}\n{shown}");
    }
    for text in in_stderr {
        assert!(stderr(output).contains(text), "{text}\n{shown}");
    }
}
