//! `duet-rpc doctor -- COMMAND`: each planted fault is found, and nothing that a server may do is called a fault (C10).

#![cfg(unix)]

mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::folder::Folder;
use support::programs::{DUET_RPC, example};

/// The report about a server: exit code, and the result and the detail of each check.
struct Report {
    code: Option<i32>,
    rows: Vec<(String, String, String)>,
    text: String,
}

fn examine(options: &[&str], words: &[&str]) -> Report {
    let mut command = Command::new(DUET_RPC);
    command.arg("doctor").args(options).arg("--").args(words).stdin(Stdio::null());
    let output = command.output().expect("doctor ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains('\x1b') && !text.contains("/tmp"), "{text}");
    let row = |line: &str| {
        let cells: Vec<_> = line.strip_prefix("| ")?.splitn(3, " | ").map(str::trim).collect();
        let [check, result, detail] = <[&str; 3]>::try_from(cells).ok()?;
        Some((check.to_owned(), result.to_owned(), detail.to_owned()))
    };
    let rows = text.lines().filter_map(row).skip(2).collect();
    Report { code: output.status.code(), rows, text: text + &stderr }
}

/// The protocol of a row: with the framing of LSP or MCP, or without a handshake.
#[derive(Clone, Copy, Debug)]
enum Speaks {
    Lsp,
    Mcp,
    Lines,
}
use Speaks::{Lines, Lsp, Mcp};

/// Runs all checks, a few at a time, because each run starts several processes.
fn for_each<C: Copy + Send + Sync>(cases: &[C], check: impl Fn(C) + Sync) {
    for some in cases.chunks(8) {
        support::concurrently(some.to_vec(), &check);
    }
}

fn examine_bad_server(speaks: Speaks, fault: &str, time: &str) -> Report {
    let server = example("duet-rpc-cli", "bad_server");
    let server = server.to_str().expect("a plain path");
    let (options, framing): (&[&str], _) = match speaks {
        Lsp => (&["--handshake", "lsp"], "lsp"),
        Mcp => (&["--handshake", "mcp"], "ndjson"),
        Lines => (&["--framing", "ndjson"], "ndjson"),
    };
    examine(&[&["--timeout", time], options].concat(), &[server, framing, fault])
}

/// Planted faults: the switch of `bad_server`, and the check that finds it, with a part of its detail.
#[rustfmt::skip]
const FAULTS: [(Speaks, &str, &str, &str); 36] = [
    (Lsp, "mute", "start", "no answer to `initialize` within 5s"),
    (Lsp, "dies-at-start", "start", "exit status: 4; it wrote to stderr: no configuration found"),
    (Lsp, "refuses-initialize", "start", "answered `initialize` with an error"),
    (Mcp, "refuses-initialize", "start", "answered `server/discover` with an error"),
    (Lsp, "no-capabilities", "start", "has no `capabilities`"),
    (Lsp, "fails-initialize", "start", "answered `initialize` with an error"),
    (Lsp, "null-initialize", "start", "the result of `initialize` has no `capabilities`"),
    (Lsp, "dies-in-initialize", "start", "exit status: 3; it wrote to stderr: error: no license file found"),
    (Lsp, "exits-after-initialize", "start", "exited after the handshake, exit status: 4"),
    (Mcp, "exits-after-initialize", "start", "exited after the handshake, exit status: 4"),
    (Lsp, "prints-at-start", "stdout", "Welcome to the server!"),
    (Mcp, "prints", "stdout", "debug: initialize"),
    (Lsp, "prints-at-the-end", "stdout", "Goodbye!"),
    (Lsp, "wrong-length", "start", "no answer"),
    (Lsp, "no-version", "messages", "`jsonrpc` is \"1.0\", expected \"2.0\""),
    (Mcp, "result-and-error", "messages", "`result` and `error` are both there"),
    (Mcp, "hangs-on-unknown", "unknown method", "it does not answer within 5s"),
    (Lsp, "result-for-unknown", "unknown method", "no error, but"),
    (Lsp, "answers-notifications", "notification", "answered a notification"),
    (Mcp, "dies-of-notification", "notification", "it ended, exit status: 73"),
    (Lines, "ids-as-text", "start", "no answer to a request"),
    (Lsp, "id-zero-lost", "ids", "a request with the id 0: the answer is"),
    (Mcp, "one-per-read", "pipelined", "16 requests in one write, and"),
    (Lsp, "answers-twice", "pipelined", "a second answer"),
    (Mcp, "answers-nobody", "answers", "nobody asked for"),
    (Lsp, "dies-of-large", "large message", "it ended, exit status: 71"),
    (Mcp, "hangs-after-large", "large message", "it does not answer within 5s"),
    (Lsp, "cancelled-unanswered", "cancellation", "no answer to a cancelled request"),
    (Mcp, "dies-of-cancellation", "cancellation", "it ended, exit status: 74"),
    (Lsp, "dies-of-bad-json", "not JSON", "it ended, exit status: 70"),
    (Lines, "hangs-after-bad-json", "not JSON", "it does not answer within 5s"),
    (Mcp, "dies-of-invalid", "invalid request", "it ended, exit status: 72"),
    (Lsp, "shutdown-unanswered", "shutdown", "no answer to `shutdown`"),
    (Lsp, "ignores-exit", "shutdown", "still running 10s after `exit`"),
    (Mcp, "ignores-eof", "end of input", "still running 10s after the end of stdin"),
    (Lines, "ignores-sigterm", "SIGTERM", "still running 10s after SIGTERM"),
];

/// Reactions that some clients mind: the switch, the check that warns, and a part of its detail.
#[rustfmt::skip]
const WARNINGS: [(Speaks, &str, &str, &str); 8] = [
    (Lsp, "other-code", "unknown method", "error -32000, expected -32601"),
    (Lsp, "drops-large", "large message", "no answer to a message of 4 MiB"),
    (Lsp, "silent-about-bad-json", "not JSON", "no answer; the next request is served"),
    (Mcp, "silent-about-invalid", "invalid request", "no answer; the next request is served"),
    (Lsp, "exit-code-after-shutdown", "shutdown", "exit status: 1 after `shutdown` and `exit`"),
    (Mcp, "slow-exit", "end of input", "after the end of stdin, expected within 2s"),
    (Mcp, "exit-code", "end of input", "exit status: 3"),
    (Lines, "ignores-sigint", "SIGINT", "still running 10s after SIGINT"),
];

/// Reactions that are right.
const RIGHT: [(Speaks, &str); 7] = [
    (Lsp, "fine"),
    (Mcp, "fine"),
    (Lines, "fine"),
    (Mcp, "cancelled-unanswered"),
    (Lsp, "exit-code"),
    (Lsp, "watches-parent"),
    (Mcp, "only-discover"),
];

/// The rows with a result, as check and detail.
fn with_result<'a>(report: &'a Report, result: &str) -> Vec<(&'a str, &'a str)> {
    let rows = report.rows.iter().filter(|(_, it, _)| it == result);
    rows.map(|(check, _, detail)| (&**check, detail.trim_end_matches(" |"))).collect()
}

#[test]
fn c10_each_planted_fault_is_found() {
    for_each(&FAULTS, |(speaks, fault, check, detail)| {
        let report = examine_bad_server(speaks, fault, "5");
        assert_eq!(report.code, Some(1), "{fault}: {}", report.text);
        let found = with_result(&report, "FAULT");
        let is_it = |(name, told): &(&str, &str)| *name == check && told.contains(detail);
        assert!(found.iter().any(is_it), "{fault}: {}", report.text);
        assert!(found.iter().all(|(_, told)| told.contains("; next: ")), "{}", report.text);
    });
}

#[test]
fn c10_what_only_some_clients_mind_is_a_warning() {
    for_each(&WARNINGS, |(speaks, fault, check, detail)| {
        let report = examine_bad_server(speaks, fault, "30");
        assert_eq!(report.code, Some(0), "{fault}: {}", report.text);
        let warnings = with_result(&report, "warning");
        let [(name, told)] = warnings[..] else { panic!("{fault}: {}", report.text) };
        assert!(name == check && told.contains(detail), "{fault}: {}", report.text);
    });
}

#[test]
fn c10_what_a_protocol_allows_is_neither_fault_nor_warning() {
    for_each(&RIGHT, |(speaks, fault)| {
        let report = examine_bad_server(speaks, fault, "30");
        assert_eq!(report.code, Some(0), "{fault}: {}", report.text);
        assert!(report.text.ends_with("\nno faults, no warnings\n"), "{fault}: {}", report.text);
        let ok = with_result(&report, "ok").len();
        // Without a handshake, no protocol says how a request is cancelled.
        let skipped = with_result(&report, "skipped");
        let expect = match speaks {
            Lsp => (17, &[][..]),
            Mcp => (16, &[][..]),
            Lines => (15, &[("cancellation", "it needs `--handshake`")][..]),
        };
        assert_eq!((ok, &*skipped), expect, "{}", report.text);
        assert_eq!(ok + skipped.len(), report.rows.len(), "{}", report.text);
    });
}

#[test]
fn c10_a_process_that_is_left_behind_is_found_and_ended() {
    for speaks in [Lsp, Lines] {
        let report = examine_bad_server(speaks, "leaves-a-process", "30");
        assert_eq!(report.code, Some(1), "{}", report.text);
        let faults = with_result(&report, "FAULT");
        let [("processes", told)] = faults[..] else { panic!("{}", report.text) };
        assert!(told.contains("left behind after the exit: sleep"), "{told}");
    }
}

#[test]
fn c10_our_daemon_has_neither_faults_nor_warnings() {
    for (options, profile) in [
        (&["--framing", "lsp"][..], "editor"),
        (&["--framing", "length"], "desktop"),
        (&[], "agent"),
    ] {
        let words = [DUET_RPC, "rpc", "--profile", profile, "--log-level", "error"];
        let report = examine(options, &words);
        assert_eq!(report.code, Some(0), "{}", report.text);
        assert!(report.text.ends_with("\nno faults, no warnings\n"), "{}", report.text);
    }
}

#[test]
fn c10_a_server_that_cannot_be_started_is_another_exit_code() {
    let report = examine(&[], &["no-such-server"]);
    assert_eq!(report.code, Some(5));
    assert!(
        report.text.starts_with("duet-rpc: cannot start \"no-such-server\""),
        "{}",
        report.text
    );
    for words in
        [&["--handshake", "lsp"][..], &["--timeout", "1"], &["--handshake", "x", "--", "cat"]]
    {
        let mut command = Command::new(DUET_RPC);
        let output = command.arg("doctor").args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn c10_a_program_that_is_no_server_gets_a_verdict() {
    for (words, detail) in [
        (&["cat"][..], "no answer to a request within 2s"),
        (&["true"], "exit status: 0"),
        (&["yes"], "no answer to a request, but output without end"),
        (&["sh", "-c", "exec >&-; exec sleep 600"], "it closed stdout and had to be stopped"),
        (&["sh", "-c", "echo hello; cat > /dev/null"], "hello"),
    ] {
        let report = examine(&["--timeout", "2"], words);
        assert_eq!(report.code, Some(1), "{words:?}: {}", report.text);
        let (check, result, told) = &report.rows[0];
        assert_eq!((&**check, &**result), ("start", "FAULT"), "{}", report.text);
        assert!(told.contains(detail), "{words:?}: {told}");
    }
}

#[test]
fn c10_the_reason_of_an_exit_in_the_handshake_is_reported() {
    let server = example("duet-rpc-cli", "bad_server");
    let server = server.to_str().expect("a plain path");
    let license =
        "no answer to `initialize`, exit status: 3; it wrote to stderr: error: no license";
    // Exits with one reason after a header, and with another after a line.
    let both = |header: &str, line: &str| {
        format!(
            "read -r it; case $it in Content*) echo '{header}' >&2; exit 3;; esac; echo '{line}' >&2; exit 3"
        )
    };
    let lsp = both("error: no license", "error: invalid header line");
    let mcp = both("Error: expected value at line 1 column 1", "error: no license");
    let rows = [
        (&[server, "lsp", "dies-in-initialize"][..], "framing: lsp, handshake: lsp"),
        (&[server, "ndjson", "dies-in-initialize"], "framing: ndjson, handshake: mcp"),
        (&["sh", "-c", &lsp], "framing: lsp, handshake: lsp"),
        (&["sh", "-c", &mcp], "framing: ndjson, handshake: mcp"),
    ];
    for_each(&rows, |(words, tried)| {
        let report = examine(&["--timeout", "5"], words);
        assert_eq!(report.code, Some(1), "{words:?}: {}", report.text);
        assert!(report.text.contains(tried), "{words:?}: {}", report.text);
        let faults = with_result(&report, "FAULT");
        let [("start", told)] = faults[..] else { panic!("{words:?}: {}", report.text) };
        assert!(told.starts_with(license), "{words:?}: {told}");
    });
}

#[test]
fn c10_an_exit_after_the_handshake_is_the_only_fault() {
    for speaks in [Lsp, Mcp] {
        let report = examine_bad_server(speaks, "exits-after-initialize", "30");
        let faults = with_result(&report, "FAULT");
        let [("start", _)] = faults[..] else { panic!("{}", report.text) };
        assert_eq!(with_result(&report, "warning"), [], "{}", report.text);
    }
}

#[test]
fn c10_advice_about_a_missing_answer_fits_the_server() {
    let daemon = [DUET_RPC, "rpc", "--profile", "desktop", "--log-level", "error"];
    // Reads everything, as a server does that is slow to start.
    let slow = ["sh", "-c", "cat > /dev/null"];
    for (options, words, advice) in [
        (&[][..], &slow[..], "raise `--timeout`"),
        (&["--handshake", "lsp"], &slow, "raise `--timeout`"),
        (&[], &daemon, "use `--framing length`"),
        (&["--handshake", "lsp"], &daemon, "use `--framing length`"),
    ] {
        let report = examine(&[options, &["--timeout", "2"]].concat(), words);
        assert_eq!(report.code, Some(1), "{words:?}: {}", report.text);
        let faults = with_result(&report, "FAULT");
        let is_it = |(check, told): &(&str, &str)| *check == "start" && told.contains(advice);
        assert!(faults.iter().any(is_it), "{options:?} {words:?}: {}", report.text);
    }
}

#[test]
fn c10_a_signal_ends_the_checks_and_the_server() {
    let folder = Folder::new();
    let (ready, script) = (folder.text("ready"), "echo $$ > \"$0.new\"; mv \"$0.new\" \"$0\"; cat");
    let mut command = Command::new(DUET_RPC);
    command.args(["doctor", "--timeout", "60", "--", "sh", "-c", script, &ready]);
    let doctor = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    while !folder.path("ready").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let server = std::fs::read_to_string(folder.path("ready")).expect("a process id");
    let pid = i32::try_from(doctor.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, Signal::TERM).expect("it runs");
    let output = doctor.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the checks were interrupted"));
    // A killed process may have to wait until somebody reaps it.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", server.trim()));
    while state().is_ok_and(|state| !state.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn c10_protocol_of_a_server_is_detected() {
    let server = example("duet-rpc-cli", "bad_server");
    let server = server.to_str().expect("a plain path");
    let rows = [
        (&[server, "lsp", "fine"][..], "framing: lsp, handshake: lsp", 0),
        (&[server, "ndjson", "fine"], "framing: ndjson, handshake: mcp", 0),
        (&[server, "ndjson", "only-discover"], "framing: ndjson, handshake: mcp", 0),
        (&[server, "lsp", "refuses-initialize"], "framing: lsp, handshake: none", 0),
        (&[server, "ndjson", "refuses-initialize"], "framing: ndjson, handshake: none", 0),
        (&[server, "lsp", "fails-initialize"], "framing: lsp, handshake: lsp", 1),
        (&[server, "lsp", "null-initialize"], "framing: lsp, handshake: lsp", 1),
        (&[server, "lsp", "dies-at-start"], "framing: lsp, handshake: lsp", 1),
        (&[DUET_RPC, "rpc", "--profile", "editor"], "framing: lsp, handshake: none", 0),
        (&["cat"], "framing: ndjson, handshake: none", 1),
    ];
    for_each(&rows, |(words, expected, code)| {
        let report = examine(&["--timeout", "5"], words);
        assert!(report.text.contains(expected), "{words:?}: {}", report.text);
        assert_eq!(report.code, Some(code), "{words:?}: {}", report.text);
    });
    assert_eq!(examine(&[], &["no-such-program"]).code, Some(5));
}
