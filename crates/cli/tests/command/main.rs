//! The command line, tested with the real binary on pipes and terminals.
#![cfg(unix)]

mod color;
mod descriptors;
mod options;
mod pages;
#[path = "../support/mod.rs"]
mod support;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::{Command, Output, Stdio};

use support::once;

/// The command with these words, without environment variables that change its behaviour.
fn command<W: AsRef<OsStr>>(words: &[W]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duet-rpc"));
    command.args(words);
    for name in ["DUET_RPC_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm");
    command
}

/// Runs it with nothing on stdin.
fn run<W: AsRef<OsStr>>(words: &[W]) -> Output {
    once::run(command(words), b"")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("UTF-8")
}

/// The names of all commands.
const COMMANDS: [&str; 7] = ["version", "rpc", "call", "doctor", "completions", "man", "prompt"];

#[test]
fn c1_the_version_is_one_line_and_nothing_else() {
    for words in [&["version"][..], &["-V"], &["--version"], &["version", "--no-color"]] {
        let output = run(words);
        assert_eq!((stdout(&output), stderr(&output)), ("0.1.0\n", ""), "{words:?}");
        assert_eq!(output.status.code(), Some(0), "{words:?}");
    }
}

#[test]
fn c1_help_goes_to_stdout() {
    // Arguments, and words that their help contains.
    let rows: [(&[&str], &[&str]); 8] = [
        (&[], &COMMANDS),
        (&["-h"], &COMMANDS),
        (&["--help"], &COMMANDS),
        (&["--log-level", "debug"], &COMMANDS),
        (&["help"], &COMMANDS),
        (&["rpc", "-h"], &["--profile", "--framing", "--log-level"]),
        (&["rpc", "--help"], &["--profile", "--framing", "--log-level"]),
        (&["call", "--help"], &["METHOD", "PARAMS"]),
    ];
    for (words, expected) in rows {
        let output = run(words);
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)), "{words:?}");
        let help = stdout(&output);
        assert!(help.contains("Usage: duet-rpc"), "{words:?}: {help}");
        for word in expected {
            assert!(help.contains(word), "the help of {words:?} does not contain {word}: {help}");
        }
    }
}

#[test]
fn c1_a_wrong_command_line_is_reported_on_stderr_with_the_usage() {
    let rows: [&[&str]; 15] = [
        &["nonsense"],
        &[""],
        &["Version"],
        &["--nonsense"],
        &["-x"],
        &["--no-colour"],
        &["--no-color=yes"],
        &["version", "more"],
        &["version", "--nonsense"],
        &["rpc", "more"],
        &["rpc", "--nonsense"],
        &["call"],
        &["completions"],
        &["doctor", "more"],
        &["man", "rpc", "more"],
    ];
    for words in rows {
        let output = run(words);
        assert_eq!((stdout(&output), output.status.code()), ("", Some(2)), "{words:?}");
        let message = stderr(&output);
        assert!(message.starts_with("error: "), "{words:?}: {message}");
        assert!(message.contains("Usage: duet-rpc"), "{words:?}: {message}");
    }
}

#[test]
fn c1_words_that_are_not_utf8_are_refused() {
    let word = OsString::from_vec(b"\xff\xfe".to_vec());
    let rows: [&[OsString]; 3] = [
        std::slice::from_ref(&word),
        &["rpc".into(), word.clone()],
        &["explain".into(), word.clone()],
    ];
    for words in rows {
        let output = run(words);
        assert_eq!((stdout(&output), output.status.code()), ("", Some(2)), "{words:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
    }
}

#[test]
fn c1_global_flags_work_before_and_after_the_command() {
    // The arguments, true if `info` records appear, and true if the records are JSON. An option after the
    // command wins.
    let rows: [(&[&str], bool, bool); 9] = [
        (&["rpc"], true, false),
        (&["--log-level", "warn", "rpc"], false, false),
        (&["rpc", "--log-level", "warn"], false, false),
        (&["--log-level", "warn", "rpc", "--log-level", "debug"], true, false),
        (&["--log-level", "debug", "rpc", "--log-level", "warn"], false, false),
        (&["--log-format", "json", "rpc"], true, true),
        (&["rpc", "--log-format", "json"], true, true),
        (&["--log-format", "text", "rpc", "--log-format", "json"], true, true),
        (&["--no-color", "--log-format=json", "rpc", "--log-level=info", "--no-color"], true, true),
    ];
    for (words, is_told, in_json) in rows {
        let output = run(words);
        assert_eq!((stdout(&output), output.status.code()), ("", Some(0)), "{words:?}");
        let log = stderr(&output);
        assert_eq!(log.contains("shutting down gracefully"), is_told, "{words:?}: {log}");
        for line in log.lines() {
            let record = serde_json::from_str::<serde_json::Value>(line);
            assert_eq!(record.is_ok(), in_json, "{words:?}: {line}");
        }
    }
}

#[test]
fn c1_every_command_accepts_global_flags() {
    for command in ["version", "man", "explain"] {
        let output = run(&["--log-level", "error", command, "--log-format", "json", "--no-color"]);
        assert_eq!((stderr(&output), output.status.code()), ("", Some(0)), "{command}");
    }
}

#[test]
fn c1_prompt_is_reserved() {
    for words in [&["prompt"][..], &["prompt", "me", "gently"], &["prompt", "--nonsense"]] {
        let output = run(words);
        assert_eq!((stdout(&output), output.status.code()), ("", Some(1)), "{words:?}");
        let message = stderr(&output);
        let is_told = message.contains("reserved") && message.contains("not in this version");
        assert!(is_told, "{words:?}: {message}");
    }
}

#[test]
fn l7_a_reader_that_closes_early_is_exit_code_1_without_a_message() {
    for words in [&["version"][..], &["--help"], &["man"], &["completions", "bash"]] {
        let mut closed = command(words);
        closed.stdout(Stdio::from(support::daemon::pipe().1)).stderr(Stdio::piped());
        let output = once::run_with(closed, b"");
        assert_eq!((stderr(&output), output.status.code()), ("", Some(1)), "{words:?}");
    }
}
