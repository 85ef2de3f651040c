//! Odd descriptors: closed, full, or of the wrong mode.

use std::process::{Command, Output};

use crate::{command, once, stderr, stdout};

/// These words in a shell that does this first, such as `exec >&-`.
fn in_shell(preparation: &str, words: &[&str]) -> Command {
    let started = command(words);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{preparation}; exec \"$0\" \"$@\"")]);
    shell.arg(started.get_program()).args(started.get_args()).env("TERM", "xterm");
    for name in ["DUET_RPC_LOG", "NO_COLOR"] {
        shell.env_remove(name);
    }
    shell
}

/// Runs them to their end.
fn run_after(preparation: &str, words: &[&str], input: &[u8]) -> Output {
    once::run(in_shell(preparation, words), input)
}

/// One call of each command that writes to stdout.
const PRINTING: [&[&str]; 12] = [
    &["version"],
    &["--version"],
    &[],
    &["--help"],
    &["rpc", "--help"],
    &["man"],
    &["man", "rpc"],
    &["completions", "bash"],
    &["explain", "ndjson"],
    &["doctor"],
    &["call", "version"],
    &["call", "version", "--", "no-such-program-anywhere"],
];

#[test]
fn l7_output_that_would_be_lost_is_exit_code_1_with_a_message() {
    let rows = [
        ("exec >&-", "duet-rpc: cannot write to stdout: it is closed\n"),
        ("exec 1</dev/null", "duet-rpc: cannot write to stdout: it is not open for writing\n"),
    ];
    for (preparation, message) in rows {
        for words in PRINTING.into_iter().chain([&["rpc"][..], &["rpc", "--profile", "agent"]]) {
            let output = run_after(preparation, words, b"{}\n");
            assert_eq!(stderr(&output), message, "{words:?} after {preparation}");
            assert_eq!(output.status.code(), Some(1), "{words:?} after {preparation}");
        }
    }
    let message = "duet-rpc: cannot write to stdout: No space left on device (os error 28)\n";
    for words in PRINTING.into_iter().filter(|words| !words.contains(&"--")) {
        let output = run_after("exec >/dev/full", words, b"{}\n");
        assert_eq!((stderr(&output), output.status.code()), (message, Some(1)), "{words:?}");
    }
}

/// Programs that do not want the output open `/dev/null` for it, and some of them for reading too.
#[test]
fn l7_output_that_is_thrown_away_on_purpose_is_no_failure() {
    for preparation in ["exec >/dev/null", "exec 1<>/dev/null"] {
        for words in [&["version"][..], &["--help"], &["explain"], &["call", "version"], &["rpc"]] {
            let output = run_after(preparation, words, b"");
            assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
        }
    }
    // Nothing is printed, so nothing can be lost.
    let output = run_after("exec >&-", &["call", "--notify", "system.ping"], b"");
    assert_eq!((stderr(&output), output.status.code()), ("", Some(0)));
}

#[test]
fn l7_input_that_cannot_be_read_is_told() {
    let (params, stream) = ("cannot read the params from stdin", "cannot read stdin");
    let rows: [(&str, &[&str], i32, String); 6] = [
        ("exec <&-", &["call", "m", "-"], 1, format!("{params}: it is closed")),
        (
            "exec 0>/dev/null",
            &["call", "m", "-"],
            1,
            format!("{params}: it is not open for reading"),
        ),
        ("exec </", &["call", "m", "-"], 1, format!("{params}: Is a directory")),
        ("exec <&-", &["explain"], 1, format!("{stream}: it is closed")),
        ("exec 0>/dev/null", &["explain"], 1, format!("{stream}: it is not open for reading")),
        ("exec </", &["explain"], 1, format!("{stream}: Is a directory")),
    ];
    for (preparation, words, code, told) in rows {
        let output = run_after(preparation, words, b"");
        assert_eq!((stdout(&output), output.status.code()), ("", Some(code)), "{words:?}");
        assert!(stderr(&output).contains(&told), "{words:?}: {}", stderr(&output));
    }
    // A command that does not read stdin does not need it, and for the daemon it is the end of input.
    for words in [&["version"][..], &["call", "version"], &["rpc"]] {
        let output = run_after("exec <&-", words, b"");
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn l7_a_closed_stderr_changes_no_exit_code() {
    let rows: [(&[&str], i32); 7] = [
        (&["version"], 0),
        (&["call", "version"], 0),
        (&["rpc"], 0),
        (&["prompt"], 1),
        (&["nonsense"], 2),
        (&["call", "no.such.method"], 3),
        (&["call", "m", "--", "no-such-program-anywhere"], 5),
    ];
    for preparation in ["exec 2>&-", "exec 2>/dev/full", "exec 2</dev/null"] {
        for (words, code) in rows {
            let output = run_after(preparation, words, b"");
            assert_eq!(output.status.code(), Some(code), "{words:?} after {preparation}");
        }
    }
}
