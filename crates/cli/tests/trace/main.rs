//! `duet-rpc trace`, with the real binary (R1–R10).
#![cfg(unix)]

mod check;
mod convert;
mod diff;
mod input;
mod recorded;
#[path = "../../../trace/tests/support/mod.rs"]
mod scripts;
mod show;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::OsStr;
use std::process::{Command, Output};

use duet_rpc_trace::{Header, Writer};
use support::folder::Folder;
use support::once;

/// Runs `duet-rpc trace` with these words, and nothing on stdin.
fn trace<W: AsRef<OsStr>>(words: &[W]) -> Output {
    trace_of(words, b"")
}

fn trace_of<W: AsRef<OsStr>>(words: &[W], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duet-rpc"));
    command.arg("trace").args(words).env_remove("NO_COLOR");
    once::run(command, input)
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The bytes of a trace with the records of a script; see `scripts::records`.
fn file(script: &str) -> Vec<u8> {
    let mut header = Header::new("s-1");
    header.start = "2026-01-02T03:04:05.000000Z".to_owned();
    header.command = vec!["/usr/bin/server".to_owned(), "--stdio".to_owned()];
    let mut writer = Writer::new(Vec::new());
    writer.header(&header).expect("memory can be written");
    for record in scripts::records(script) {
        writer.record(&record).expect("memory can be written");
    }
    writer.into_inner()
}

/// Writes a trace with the records of a script, and returns its path.
fn write(folder: &Folder, name: &str, script: &str) -> String {
    folder.write(name, file(script))
}

/// A short session with a slow request, an unanswered one, an error and a stray print.
const SESSION: &str = r#"
    0 > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":7}}
    1 ! starting
    3 < {"jsonrpc":"2.0","id":1,"result":{"capabilities":{}}}
    4 > {"jsonrpc":"2.0","method":"initialized","params":{}}
    5 > {"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{"line":1}}
    6 > {"jsonrpc":"2.0","id":3,"method":"textDocument/definition"}
    7 < noise debug: here
    8 > {"jsonrpc":"2.0","id":4,"method":"nope"}
    9 < {"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"Method not found"}}
    2005 < {"jsonrpc":"2.0","id":2,"result":null}
    2006 > eof
    2007 < eof
    2008 . exit code=0
"#;

#[test]
fn c3_the_help_of_each_command_names_its_options() {
    for (command, options) in [
        ("show", &["--where", "--json", "--follow", "--slow", "--full"][..]),
        ("stats", &["--where", "--json"]),
        ("check", &["--protocol", "--slow", "--allow", "--format", "answered-twice"]),
        ("diff", &["--ignore", "--ignore-method", "--unordered", "--json"]),
        ("convert", &["--to", "--from", "lsp-inspector", "mcpsnoop"]),
        ("redact", &["--redact", "--redact-value"]),
    ] {
        let output = trace(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        for option in options {
            assert!(stdout(&output).contains(option), "{command}: {option}");
        }
    }
}

#[test]
fn r1_a_bad_filter_is_a_usage_error_that_names_the_position() {
    for command in [&["show"][..], &["stats"], &["convert", "--to", "har"]] {
        let words: Vec<_> =
            command.iter().chain(&["-", "--where", "kind:error took:fast"]).collect();
        let output = trace(&words);
        assert_eq!(output.status.code(), Some(2));
        let expected = "position 17: expected a time such as >100ms, found `fast`";
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
