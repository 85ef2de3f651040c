//! Unusual descriptors: closed, full, wrong mode, too few, and pipes without a writer.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Instant;

use duet_rpc::proto::frame::Framing;
use rustix::process::Signal;

use crate::support::daemon::{Daemon, after};
use crate::support::folder::Folder;
use crate::support::pairs;
use crate::{command, once, stderr, stdout};

/// Runs a command to its end in a shell, after a preparation such as `exec >&-`.
fn run_after(preparation: &str, words: &[&str], input: &[u8]) -> Output {
    once::run(after(preparation, &command(words)), input)
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

/// Programs that discard the output open `/dev/null` for it, some of them also for reading.
#[test]
fn l7_discarded_output_is_not_a_failure() {
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
fn l7_unreadable_input_is_reported() {
    let (params, stream) = ("cannot read the params from stdin", "cannot read stdin");
    let commands: [(&[&str], &str); 2] = [(&["call", "m", "-"], params), (&["explain"], stream)];
    let rows = [
        ("exec <&-", "it is closed"),
        ("exec 0>/dev/null", "it is not open for reading"),
        ("exec </", "Is a directory"),
    ];
    for ((words, what), (preparation, why)) in pairs(commands, rows) {
        let output = run_after(preparation, words, b"");
        assert_eq!((stdout(&output), output.status.code()), ("", Some(1)), "{words:?}");
        let told = format!("{what}: {why}");
        assert!(stderr(&output).contains(&told), "{words:?}: {}", stderr(&output));
    }
    // A command that does not read stdin does not need it. For the daemon, a closed stdin is the end of
    // input.
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

#[test]
fn l7_every_command_reports_too_few_descriptors_and_none_panics() {
    let commands: [&[&str]; 9] = [
        &["version"],
        &["man"],
        &["explain"],
        &["rpc", "--profile", "agent"],
        &["call", "version"],
        &["call", "--notify", "system.ping"],
        &["call", "--connect", "tcp://127.0.0.1:1", "m"],
        &["call", "--connect", "http://127.0.0.1:1/", "m"],
        &["call", "--connect", "unix:///no/such/socket", "m"],
    ];
    for most in 3..=20 {
        let limit = format!("ulimit -n {most}");
        for words in commands {
            let output = run_after(&limit, words, b"");
            check_told(&format!("{words:?} with {most}"), output.status, stderr(&output));
        }
        // With enough descriptors, this command runs until it is stopped.
        let mut listening = after(&limit, &command(&["rpc", "--listen", "tcp://127.0.0.1:0"]));
        listening.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let listening = Daemon::with_pipes(listening, Framing::Ndjson);
        let first = listening.wait_for_line(|_| true);
        if first.starts_with("listening on ") {
            listening.kill(Signal::TERM);
        }
        let end = listening.wait(Instant::now());
        check_told(&format!("rpc --listen with {most}"), end.status, &first);
    }
}

/// Checks that the command succeeded, or reported the reason itself.
fn check_told(case: &str, status: ExitStatus, said: &str) {
    let case = format!("{case}: {status} {said}");
    assert!(!said.contains("panicked") && !said.contains(".rs:"), "{case}");
    match status.code() {
        Some(0) => {}
        // Below 4, the shell cannot even load its libraries.
        Some(1 | 5 | 6 | 127) => assert!(!said.is_empty(), "{case}"),
        _ => panic!("{case}"),
    }
}

#[test]
fn l4_a_signal_ends_the_wait_for_a_pipe_without_a_writer() {
    let rows: [&[&str]; 4] = [
        &["rpc", "--listen", "http://127.0.0.1:0/", "--token-file", "PIPE"],
        &["rpc", "--token-file", "PIPE"],
        &["call", "--connect", "http://127.0.0.1:1/", "--token-file", "PIPE", "m"],
        &["call", "m", "@PIPE"],
    ];
    let folder = Folder::new();
    for (number, words) in rows.into_iter().enumerate() {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let pipe = folder.fifo(&format!("{number}-{}", signal.as_raw()));
            let path = pipe.to_str().expect("a plain path");
            let words: Vec<_> = words.iter().map(|word| word.replace("PIPE", path)).collect();
            let mut waiting = command(&words);
            waiting.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = Daemon::with_pipes(waiting, Framing::Ndjson);
            let _writer = process.wait_for_reader_of(&pipe);
            process.kill(signal);
            let end = process.wait(Instant::now());
            assert_eq!(end.status.signal(), Some(signal.as_raw()), "{words:?}");
        }
    }
}

#[test]
fn t3_an_unusable_token_file_is_reported_on_one_line() {
    let folder = Folder::new();
    let rows = [
        ("/".to_owned(), "Is a directory"),
        ("/dev/null".to_owned(), "it contains no token"),
        ("/dev/zero".to_owned(), "it has more than 65536 bytes"),
        (folder.text("missing"), "No such file"),
        (folder.write("binary", b"\xff\xfe\x00"), "it is not UTF-8"),
        (
            folder.write("two words", "two words\n"),
            "line 1: a token is one word of visible ASCII characters",
        ),
        (folder.write("of\ntwo lines", ""), "of\\ntwo lines\": it contains no token"),
    ];
    for (path, told) in rows {
        for words in [
            &["rpc", "--listen", "http://127.0.0.1:0/", "--token-file", &path][..],
            &["call", "--connect", "http://127.0.0.1:1/", "--token-file", &path, "m"],
        ] {
            let output = run_after(":", words, b"");
            let said = stderr(&output);
            assert_eq!((stdout(&output), output.status.code()), ("", Some(1)), "{words:?}");
            assert!(said.starts_with("duet-rpc: cannot use the token file \""), "{said}");
            assert!(said.contains(told) && said.lines().count() == 1, "{path}: {said}");
        }
    }
}
