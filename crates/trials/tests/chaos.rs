//! A short chaos run: one life of each kind and some more, always the same. Also checks that chaos finds
//! faults: each test runs a program that misbehaves in one way.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use duet_rpc_trials::chaos::command::ChaosOptions;
use duet_rpc_trials::chaos::report::ChaosReport;
use duet_rpc_trials::chaos::{kinds, run};

/// The machine may be busy with other tests.
const PATIENCE: f64 = 10.0;

fn live(options: &ChaosOptions) -> ChaosReport {
    let report = run(options, &|_| ()).expect("it can be tried");
    for (kind, why) in report.skipped() {
        // Write past the capture of the tests' output, so that it is seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {kind}: {why}");
    }
    report
}

#[test]
fn l3_l4_l5_l7_l10_every_life_ends_as_it_should() {
    let lives = kinds(false).len() + 40;
    let options =
        ChaosOptions { seed: 8, lives, jobs: 8, patience: PATIENCE, ..ChaosOptions::default() };
    let report = live(&options);
    assert!(report.is_good(PATIENCE), "{report}\n{:#?}", report.failed());
    assert_eq!(report.lived() + report.skipped().len(), kinds(false).len(), "{report}");
}

/// Each kind once alone and once behind `duet-rpc tap`, and some more with a trace that cannot be written.
#[test]
fn w1_w3_w4_w6_every_life_behind_a_tap_is_the_same() {
    let lives = kinds(true).len() + 12;
    let (seed, patience) = (8, PATIENCE);
    let options =
        ChaosOptions { seed, lives, jobs: 2, patience, tap: true, ..ChaosOptions::default() };
    let report = live(&options);
    assert!(report.failed().is_empty(), "{report}\n{:#?}", report.failed());
    assert_eq!(report.lived() + report.skipped().len(), kinds(true).len(), "{report}");
}

/// Runs lives with a script in place of the daemon, which is `$REAL` there. A failure must contain `expect`.
fn check(name: &str, script: &str, only: &str, expect: &str) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}-{only}"));
    let real = duet_rpc_trials::programs::duet_rpc();
    let text = format!("#!/bin/sh\nREAL='{}'\n{script}\n", real.display());
    fs::write(&path, text).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let (only, daemon, testbed) = (Some(only.to_owned()), Some(path.clone()), Some(path));
    let report = live(&ChaosOptions { only, lives: 4, daemon, testbed, ..ChaosOptions::default() });
    assert!(!report.is_good(PATIENCE), "{name}: nothing is found");
    let found = report.failed().into_iter().flat_map(|life| &life.complaints);
    assert!(found.clone().any(|it| it.contains(expect)), "{name}: {:?}", found.collect::<Vec<_>>());
}

#[test]
fn l7_a_wrong_exit_code_is_found() {
    check("code", r#""$REAL" "$@"; exit 3"#, "eof-idle", "exit status: 3");
}

#[test]
fn l5_a_daemon_that_hangs_is_found() {
    check("hangs", r#""$REAL" "$@"; exec sleep 60"#, "eof-idle", "it does not end");
}

#[test]
fn l1_a_stray_line_is_found() {
    check("stray", r#"echo hello; exec "$REAL" "$@""#, "eof-idle", "outside of frames: hello");
    check("late", r#""$REAL" "$@"; echo goodbye"#, "eof-idle", "outside of frames: goodbye");
}

#[test]
fn l3_a_lost_answer_is_found() {
    let script = r#"exec 3<&0; "$REAL" "$@" <&3 | head -c 1"#;
    check("lost", script, "eof-traffic", "unanswered");
}

/// A daemon that does not wait for a reader that pauses for a second.
#[test]
fn l5_a_loss_after_a_pause_of_the_reader_is_found() {
    let script = r#"timeout -s KILL 1 "$REAL" "$@"; exit 0"#;
    check("hasty", script, "eof-slow-reader-naps", "unanswered");
}

/// A daemon without a record of its start or end, at any level.
#[test]
fn g1_a_daemon_that_logs_nothing_is_found() {
    let script = r#"exec "$REAL" "$@" 2>/dev/null"#;
    check("silent", script, "eof-idle", "the record of its start is missing");
    check("silent", script, "signal-term", "the record of why it ends is missing");
}

#[test]
fn l8_a_daemon_that_needs_many_descriptors_is_found() {
    let script = r#"
        if [ "$(ulimit -n)" -lt 64 ]; then echo "duet-rpc: too few" >&2; exit 1; fi
        exec "$REAL" "$@""#;
    check("many", script, "files-few", "exit status: 1");
}

/// An unexpected notification, in every framing.
#[test]
fn l1_an_unexpected_message_is_found() {
    let script = r#"
        text='{"jsonrpc":"2.0","method":"x"}'
        case "$*" in
            *editor*) printf 'Content-Length: 30\r\n\r\n%s' "$text" ;;
            *desktop*) printf '\000\000\000\036%s\n' "$text" ;;
            *) echo "$text" ;;
        esac
        exec "$REAL" "$@""#;
    check("unasked", script, "eof-idle", "an unexpected message");
}

#[test]
fn l4_a_missed_signal_is_found() {
    let script = r#"trap '' TERM; "$REAL" "$@"; exit 0"#;
    check("ignores", script, "signal-term", "it does not end");
}

#[test]
fn t1_a_process_left_behind_is_found() {
    let script = r#"sleep 60 >/dev/null 2>&1 & exec "$REAL" "$@""#;
    check("orphan", script, "eof-idle", "left a process behind");
}

#[test]
fn g1_a_panic_is_found() {
    let script = r#"echo "thread 'main' panicked at 'x'" >&2; exec "$REAL" "$@""#;
    check("panic", script, "eof-idle", "panicked at");
}

#[test]
fn t3_a_socket_left_behind_is_found() {
    let script = r#"
        "$REAL" "$@" & real=$!
        trap 'kill $real; wait $real; : >socket; exit 0' INT TERM HUP
        wait $real"#;
    check("socket", script, "listen-killed", "it has left the file socket");
}

fn chaos() -> Command {
    Command::new(env!("CARGO_BIN_EXE_chaos"))
}

/// Runs a command. Returns its exit code and its stdout.
fn output(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().expect("it is built");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command prints how to repeat a failed life, and exits with 1.
#[test]
fn the_command_prints_how_to_repeat_a_failure() {
    let run = |words: &[&str]| output(chaos().args(words));
    let bad = ["--daemon", "false", "--testbed", "false"];
    let words = ["--seed", "3", "--lives", "2", "--only", "eof-idle"];
    let (code, said) = run(&[&words[..], &bad].concat());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("scripts/chaos --seed 3 --life 1 --only eof-idle"), "{said}");
    let (code, said) = run(&["--seed", "3", "--life", "1", "--only", "eof-idle"]);
    assert_eq!(code, Some(0), "{said}");
    for words in
        [&["--only", "no such kind"][..], &["--patience", "0"], &["--nonsense"], &["--seed"]]
    {
        assert_eq!(run(words).0, Some(2), "{words:?}");
    }
}

/// A kind whose program is missing is skipped, and fails where it is required.
#[test]
fn the_command_fails_without_strace_where_it_is_required() {
    let run = |value: &str| {
        let mut chaos = chaos();
        chaos.args(["--lives", "1", "--only", "inject-again"]);
        output(chaos.env("CHAOS", value).env("PATH", "/nowhere"))
    };
    let (code, said) = run("");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("NOT TRIED: strace is missing"), "{said}");
    let (code, said) = run("required");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("strace is missing or may not trace, and CHAOS=required"), "{said}");
}

#[test]
fn a_file_left_behind_is_found() {
    check("file", r#": >core; exec "$REAL" "$@""#, "eof-idle", "has left the file core");
    assert!(!Path::new("core").exists());
}
