//! Rare situations: handlers that suddenly block, frames that arrive while reading is held up, logs that
//! point at stdout, too few descriptors, terminals that hang up.
#![cfg(unix)]

mod support;

use std::io::Write;
use std::process::Stdio;
use std::time::Instant;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};
use support::daemon::{
    Daemon, PROFILES, Trigger, after, command, frame, framing_of, notification, request, rpc,
};
use support::log::{ParsedRecord, live, parse_line};
use support::terminal::terminal;
use support::{concurrently, pairs};

#[test]
fn l5_a_handler_that_was_quick_before_does_not_delay_the_end() {
    concurrently(pairs(PROFILES, ["test.block", "test.spin"]), |(profile, method)| {
        let mut testbed = Daemon::start(profile);
        for id in 1..5 {
            assert_eq!(testbed.ask(id, method, r#"{"ms":0}"#)["result"], 0);
            testbed.wait_for(&format!("{method} begins"));
        }
        testbed.request(5, method, r#"{"ms": 25000}"#);
        testbed.wait_for(&format!("{method} begins"));
        let end = testbed.end(Trigger::Shutdown);
        assert_eq!(end.status.code(), Some(0), "{profile} {method}: {end:?}");
    });
}

/// These handlers are not marked as blocking, and block late: after another answer, or after they have
/// waited. Once a method has blocked, its later calls delay no other request.
#[test]
fn l5_an_unmarked_blocking_handler_is_detected() {
    let long = r#"{"ms": 25000}"#;
    concurrently(["test.nap", "test.late"], |method| {
        let mut testbed = Daemon::start("agent");
        let both = |id, params: &str| {
            let texts = [request(id, "version", "[]"), request(id + 1, method, params)];
            texts.map(|text| frame(Framing::Ndjson, &text)).concat()
        };
        for id in [1, 3, 5, 7] {
            let params = if id < 5 { r#"{"ms":0}"# } else { r#"{"ms":50}"# };
            testbed.send_raw(&both(id, params));
            let _ = (testbed.answer(), testbed.answer());
            testbed.wait_for(&format!("{method} begins"));
        }
        testbed.send_raw(&both(11, long));
        assert_eq!(testbed.answer()["id"], 11, "{method}");
        testbed.wait_for(&format!("{method} begins"));
        assert_eq!(testbed.ask(13, "version", "[]")["id"], 13, "{method}");
        let end = testbed.end(Trigger::Shutdown);
        assert_eq!(end.status.code(), Some(0), "{method}: {end:?}");
    });
}

/// The timeout of a frame pauses while the daemon does not read, for whatever reason.
#[test]
fn f6_a_frame_that_arrives_while_reading_is_held_up_does_not_time_out() {
    concurrently(PROFILES, |profile| {
        let framing = framing_of(profile);
        let mut slow = command(profile);
        slow.args(["--read-timeout", "0.5"]);
        let mut testbed = Daemon::spawn(slow, framing);
        let late = frame(framing, &request(2, "version", "[]"));
        let (begin, rest) = late.split_at(late.len() / 2);
        let jam = frame(framing, &request(1, "test.jam", r#"{"ms": 2000}"#));
        testbed.send_raw(&[&jam, begin].concat());
        testbed.wait_for("test.jam begins");
        testbed.send_raw(rest);
        let answers = [testbed.answer(), testbed.answer()];
        let is_served = |answer: &Value| answer["result"]["version"] == "0.1.0";
        assert!(answers.iter().any(is_served), "{profile}: {answers:?}");
        assert_eq!(testbed.end(Trigger::Eof).status.code(), Some(0));
    });
}

/// The log never goes to stdin or stdout, under any name.
#[test]
fn l1_g1_a_log_that_points_at_stdout_or_stdin_goes_to_stderr() {
    for name in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "/dev/stdin", "/proc/self/fd/0"] {
        for profile in PROFILES {
            let framing = framing_of(profile);
            let mut daemon = rpc(&["--profile", profile, "--log-level", "debug"]);
            daemon.env("DUET_RPC_LOG", name);
            let life = live(daemon, framing, &frame(framing, &request(1, "version", "[]")));
            let records = life.records("text");
            let warned =
                records.iter().filter(|record| record.message.contains("cannot be opened"));
            assert_eq!(warned.count(), 1, "{name}: {records:?}");
        }
    }
    // `/dev/null` may be both.
    let mut daemon = rpc(&["--profile", "agent"]);
    daemon.env("DUET_RPC_LOG", "/dev/null").stdin(Stdio::null()).stdout(Stdio::null());
    let output = daemon.stderr(Stdio::piped()).output().expect("the program starts");
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn l7_too_few_descriptors_are_an_error_without_a_panic() {
    for most in 5..24 {
        let limited = after(&format!("ulimit -n {most}"), &rpc(&["--profile", "agent"]));
        let end = Daemon::spawn(limited, Framing::Ndjson).end(Trigger::Eof);
        let said = end.lines.join("\n");
        assert!(!said.contains("panicked") && !said.contains(".rs:"), "{most}: {said}");
        // With enough of them, it serves.
        let expect = if said.contains("duet-rpc started") { 0 } else { 1 };
        assert_eq!(end.status.code(), Some(expect), "{most}: {said}");
    }
}

/// With just enough memory to start, or slightly more, there is no memory for a further thread.
#[test]
fn l3_l6_without_memory_for_a_thread_the_log_still_states_the_reason_of_the_end() {
    let mut started = 0;
    for kib in (4 * 1024..512 * 1024).step_by(64) {
        let daemon = rpc(&["--profile", "agent", "--log-level", "debug"]);
        let mut limited = after(&format!("ulimit -v {kib}"), &daemon);
        // Otherwise each thread would reserve 64 MiB.
        limited.env("MALLOC_ARENA_MAX", "1");
        let mut daemon = Daemon::spawn(limited, Framing::Ndjson);
        // Enough output that it is not written immediately.
        let text = request(1, "version", "[]") + "\n";
        let stdin = daemon.stdin.as_mut().expect("a pipe");
        // The daemon may have ended already.
        let _ = stdin.write_all(text.repeat(200).as_bytes());
        let end = daemon.end(Trigger::Eof);
        let said = end.lines.join("\n");
        // The standard library found no memory for the main thread's signal stack, before `main`.
        if said.contains("thread 'main'") && said.contains("stack_overflow.rs") {
            continue;
        }
        assert!(!said.contains("panicked"), "{kib} KiB: {said}");
        if said.contains("duet-rpc started") {
            started += 1;
            assert_eq!(end.status.code(), Some(0), "{kib} KiB: {said}");
            assert!(said.contains("stdin closed, shutting down gracefully"), "{kib} KiB: {said}");
        }
        if started == 64 {
            return;
        }
    }
    panic!("the daemon starts with no memory limit");
}

#[test]
fn l4_g4_after_its_first_record_a_signal_ends_the_daemon_gracefully() {
    for (trigger, _) in pairs([Trigger::Interrupt, Trigger::Terminate, Trigger::HangUp], 0..20) {
        let daemon = Daemon::rpc("agent", &[]);
        daemon.wait_for_line(|line| line.contains("duet-rpc started"));
        let end = daemon.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{trigger:?}: {end:?}");
        assert!(end.lines.iter().any(|line| line.contains("received SIG")), "{end:?}");
    }
}

/// A terminal whose other side is closed reports an error, but it is the end of input.
#[test]
fn l3_a_terminal_that_hangs_up_is_the_end_of_input() {
    let (screen, end) = terminal();
    let mut daemon = command("agent");
    daemon.stdin(end).stdout(Stdio::piped()).stderr(Stdio::piped());
    let daemon = Daemon::with_pipes(daemon, Framing::Ndjson);
    let text = request(1, "test.sleep", r#"{"ms":300}"#) + "\n";
    rustix::io::write(&screen, text.as_bytes()).expect("the terminal is open");
    daemon.wait_for("test.sleep begins");
    drop(screen);
    let end = daemon.wait(Instant::now());
    assert_eq!(end.status.code(), Some(0), "{end:?}");
    assert_eq!(end.answers, [json!({"jsonrpc": "2.0", "id": 1, "result": 300})]);
}

/// Severity and message of the records about a method.
fn told(lines: &[String], method: &str) -> Vec<(String, String)> {
    let records = lines.iter().map(|line| parse_line(line, "text"));
    let about = records.filter(|record| record.method.as_deref() == Some(method));
    about.map(|record| (record.severity, record.message)).collect()
}

#[test]
fn g5_a_failure_caused_by_the_client_is_a_warning() {
    let answers = [
        r#""error":{"code":-32603,"message":"no"}"#,
        r#""error":"no object""#,
        r#""error":{"code":-5,"message":"no"}"#,
    ];
    for answer in answers {
        let mut daemon = Daemon::rpc("agent", &[]);
        let asked = daemon.ask(1, "system.callback", r#"{"method":"m"}"#);
        assert_eq!(asked["method"], "m");
        daemon.send(&format!(r#"{{"jsonrpc":"2.0","id":{},{answer}}}"#, asked["id"]));
        assert!(daemon.answer()["error"].is_object());
        let end = daemon.end(Trigger::Eof);
        let told = told(&end.lines, "system.callback");
        assert!(told.iter().all(|(severity, _)| severity == "warn"), "{answer}: {told:?}");
        assert_eq!(told.len(), 1, "{answer}");
    }
}

/// A cancelled request has a response in the log, whether it was running or waiting.
#[test]
fn p3_g5_a_cancelled_request_is_logged_as_answered() {
    let mut testbed = Daemon::start("desktop");
    testbed.request(7, "test.sleep", r#"{"ms":25000}"#);
    testbed.request(8, "version", "[]");
    testbed.wait_for("test.sleep begins");
    for id in [8, 7] {
        testbed.send(&notification("$/cancelRequest", &format!(r#"{{"id":{id}}}"#)));
    }
    let answers = [testbed.answer(), testbed.answer()];
    assert_eq!(answers.map(|answer| answer["error"]["code"].clone()), [-32800, -32800]);
    let end = testbed.end(Trigger::Eof);
    let records = end.lines.iter().filter(|line| line.starts_with("20"));
    let records: Vec<_> = records.map(|line| parse_line(line, "text")).collect();
    for id in ["7", "8"] {
        let is_response = |record: &&ParsedRecord| {
            record.message == "response error=-32800" && record.id.as_deref() == Some(id)
        };
        assert_eq!(records.iter().filter(is_response).count(), 1, "{id}: {records:?}");
    }
}

/// The log counts all unanswered bad messages, even if the daemon ends soon after.
#[test]
fn f7_unanswered_faults_are_counted_to_the_end() {
    let framing = Framing::Ndjson;
    let life = live(rpc(&["--profile", "agent"]), framing, "no\n".repeat(3000).as_bytes());
    let records = life.records("text");
    let told = records.iter().filter_map(|record| {
        record.message.strip_suffix(" more bad messages in a row, not answered")
    });
    let counted: u64 = told.map(|count| count.parse::<u64>().expect("a number")).sum();
    let faults = records.iter().filter(|record| record.message.contains("fault")).count() as u64;
    assert_eq!((faults, counted), (1000, 2000));
}

#[test]
fn p7_a_closed_list_accepts_only_strings() {
    let rows = [
        ("setLogLevel", r#"{"level":{"debug":null}}"#, "level", "object"),
        ("setLogLevel", r#"{"level":{"CANARY":null}}"#, "level", "object"),
        ("setLogLevel", r#"{"level":["debug"]}"#, "level", "array"),
        ("setLogLevel", r#"{"level":{}}"#, "level", "object"),
        ("events.subscribe", r#"{"topics":[{"log":null}]}"#, "topics[0]", "object"),
        ("events.subscribe", r#"{"topics":["log",1]}"#, "topics[1]", "number"),
    ];
    let mut daemon = Daemon::rpc("desktop", &[]);
    for (id, (method, params, param, received)) in (1..).zip(rows) {
        let error = daemon.ask(id, method, params)["error"].take();
        assert_eq!(error["code"], -32602, "{params}");
        assert_eq!(error["data"]["param"], param, "{params}");
        assert_eq!(error["data"]["received"], received, "{params}");
        assert!(error["data"]["accepted"].is_array(), "{params}: {error}");
        assert!(!error.to_string().contains("CANARY"));
    }
    // By position, an optional param may be left out too.
    let mut agent = Daemon::rpc("agent", &[]);
    let asked = agent.ask(1, "system.callback", r#"["m"]"#);
    assert_eq!((&asked["method"], &asked["params"]), (&json!("m"), &Value::Null));
}
