//! Differences, their reports and the exit codes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::support::folder::Folder;
use super::support::listening::{HTTP, Server, TCP, WS, wait_until};
use super::support::programs::DUET_RPC;
use super::{record, replay, run, said, server, stderr, stdout, trace};

const GOLDEN: [&str; 5] = [
    r#">{"id":1,"method":"initialize","params":{}}"#,
    r#"<{"id":1,"result":{"name":"x","version":"1","list":[1,2]}}"#,
    r#"<{"method":"log","params":{"text":"<started>"}}"#,
    r#">{"id":2,"method":"stop"}"#,
    r#"<{"id":2,"result":null}"#,
];

const SAME: [&str; 5] = [
    "<",
    r#"{"id":1,"result":{"list":[1,2],"name":"x","version":"1"}}"#,
    r#"{"method":"log","params":{"text":"<started>"}}"#,
    "<",
    r#"{"id":2,"result":null}"#,
];

const CHANGED: [&str; 6] = [
    "<",
    r#"{"id":1,"result":{"name":"x","version":"2","list":[1,3]}}"#,
    r#"{"method":"log","params":{"text":"<started>"}}"#,
    "<",
    r#"{"method":"bye"}"#,
    r#"{"id":2,"result":null}"#,
];

#[test]
fn y5_a_changed_server_shows_exactly_the_changed_fields() {
    let folder = Folder::new();
    let golden = trace(&folder, "golden.jsonl", &GOLDEN);
    let output = replay(&golden, &[], &server(&folder, &SAME));
    assert_eq!(
        said(&output),
        (0, "3 same, 0 changed, 0 missing, 0 extra\n"),
        "{}",
        stderr(&output)
    );
    let changed = server(&folder, &CHANGED);
    let output = replay(&golden, &[], &changed);
    let expected = "\
changed c2s initialize (record 1)
        /result/list/1: 2 → 3
        /result/version: \"1\" → \"2\"
extra   s2c bye (record 5)
2 same, 1 changed, 0 missing, 1 extra
";
    assert_eq!(said(&output), (1, expected), "{}", stderr(&output));
    let lenient =
        ["--ignore", "/result/version", "--ignore", "/result/list/*", "--ignore-method", "by*"];
    let output = replay(&golden, &lenient, &changed);
    assert_eq!(said(&output), (0, "3 same, 0 changed, 0 missing, 0 extra\n"));
}

#[test]
fn y5_reports_are_json_and_junit_too() {
    let folder = Folder::new();
    let golden = trace(&folder, "golden.jsonl", &GOLDEN);
    let changed = server(&folder, &CHANGED);
    let output = replay(&golden, &["--format", "json"], &changed);
    let report: Value = serde_json::from_str(stdout(&output)).expect("JSON");
    let counts = ["same", "changed", "missing", "extra", "slower", "exit"];
    assert_eq!(counts.map(|name| report[name].as_u64().expect("a number")), [2, 1, 0, 1, 0, 1]);
    assert_eq!(report["problem"], Value::Null);
    assert_eq!(report["differences"][0]["changes"][1]["path"], "/result/version");
    let output = replay(&golden, &["--format", "junit"], &changed);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    for part in [
        "<testsuites tests=\"5\" failures=\"2\" errors=\"0\">",
        "name=\"s2c log (record 3)\"/>",
        "<failure message=\"changed: /result/list/1: 2 → 3\">/result/list/1: 2 → 3\n/result/version: &quot;1&quot; → &quot;2&quot;</failure>",
        "<failure message=\"extra\"></failure>",
        "name=\"session\"/>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn y5_slow_answers_are_reported_if_asked_for() {
    let folder = Folder::new();
    let golden =
        trace(&folder, "golden.jsonl", &[r#">{"id":1,"method":"a"}"#, r#"<{"id":1,"result":0}"#]);
    let slow =
        ["sh", "-c", "read -r line; sleep 0.3; echo '{\"id\":1,\"result\":0}'; cat >/dev/null"];
    let output = replay(&golden, &["--tolerance", "100ms"], &slow);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.starts_with("slower  c2s a (record 1)\n        1.00 ms → "), "{text}");
    assert!(text.ends_with("1 same, 0 changed, 0 missing, 0 extra, 1 slower\n"), "{text}");
    let output = replay(&golden, &["--tolerance", "1m"], &slow);
    assert_eq!(said(&output), (0, "1 same, 0 changed, 0 missing, 0 extra, 0 slower\n"));
}

#[test]
fn y6_exit_codes_name_the_failure() {
    let folder = Folder::new();
    let golden = trace(&folder, "golden.jsonl", &GOLDEN);
    let silent = ["sh", "-c", "cat > /dev/null"].map(str::to_owned);
    let ended = ["sh", "-c", "exit 3"].map(str::to_owned);
    let mut noisy = SAME.to_vec();
    noisy.insert(1, "starting up");
    for (words, code, what) in [
        (
            silent.to_vec(),
            4,
            "no answer within 0.5 s: waiting for the answer to initialize (record 2)",
        ),
        (vec!["no-such-program".to_owned()], 5, "cannot start \"no-such-program\""),
        (
            ended.to_vec(),
            6,
            "the server ended (exit code 3) too early: waiting for the answer to initialize",
        ),
        (
            server(&folder, &noisy).to_vec(),
            6,
            "the server sent bytes that are not messages (1 times)",
        ),
    ] {
        let output = replay(&golden, &["--timeout", "0.5", "--patience", "0.1"], &words);
        assert_eq!(output.status.code(), Some(code), "{what}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{what}: {}", stderr(&output));
    }
    let output = run(&["replay", &golden, "--connect", "unix:///no/such/socket"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let output = run(&["replay", &golden]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn y1_recordings_of_the_daemon_replay_the_same_over_every_transport() {
    let folder = Folder::new();
    let messages = [
        r#"{"jsonrpc":"2.0","id":1,"method":"system.ping"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"system.echo","params":{"a":[1,"é\n"]}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"nope"}"#,
    ];
    let lsp: String =
        messages.iter().map(|it| format!("Content-Length: {}\r\n\r\n{it}", it.len())).collect();
    let lines = messages.join("\n") + "\n";
    let daemon = |profile| [DUET_RPC, "rpc", "--profile", profile, "--framing"];
    for (framing, input) in [("lsp", lsp.as_bytes()), ("ndjson", lines.as_bytes())] {
        let words = [&daemon("agent")[..], &[framing]].concat();
        let golden = record(&folder, framing, input, &words);
        let output = replay(&golden, &[], &words);
        let same = (0, "3 same, 0 changed, 0 missing, 0 extra\n");
        assert_eq!(said(&output), same, "{}", stderr(&output));
        // Another framing, and sockets.
        let output = replay(
            &golden,
            &["--framing", "length"],
            &[&daemon("agent")[..], &["length"]].concat(),
        );
        assert_eq!(said(&output), same, "{}", stderr(&output));
        let listening = Server::testbed("agent", &[TCP, WS, HTTP], &["--framing", framing]);
        for url in &listening.urls {
            let output = run(&["replay", &golden, "--connect", &url.text]);
            assert_eq!(said(&output), same, "{}: {}", url.text, stderr(&output));
        }
    }
}

#[test]
fn y1_recorded_pace_takes_as_long_as_the_recording() {
    let folder = Folder::new();
    let golden = folder.write(
        "golden.jsonl",
        "{\"duet\":1}\n\
         {\"seq\":1,\"at\":0,\"dir\":\"c2s\",\"kind\":\"notification\",\"msg\":{\"method\":\"a\"}}\n\
         {\"seq\":2,\"at\":400000,\"dir\":\"c2s\",\"kind\":\"notification\",\"msg\":{\"method\":\"b\"}}\n",
    );
    let cat = ["sh", "-c", "cat > /dev/null"];
    let time = |pace: &str| {
        let output = replay(&golden, &["--pace", pace, "--format", "json"], &cat);
        let report: Value = serde_json::from_str(stdout(&output)).expect("JSON");
        report["duration"].as_u64().expect("a time")
    };
    assert!(time("recorded") >= 400_000);
}

#[test]
fn y6_a_signal_ends_the_replay_and_its_server() {
    let folder = Folder::new();
    let golden = trace(&folder, "golden.jsonl", &GOLDEN);
    // It ignores the end of its input, and says that it runs.
    let server = "echo $$ >&2; trap '' TERM; while :; do sleep 1; done";
    let mut command = Command::new(DUET_RPC);
    command.args(["replay", &golden, "--", "sh", "-c", server]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("it starts");
    let mut line = String::new();
    let stderr = process.stderr.as_mut().expect("a pipe");
    let mut lines = BufReader::new(stderr);
    while line.trim().parse::<i32>().is_err() {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("a line"), 0, "the server says its id");
    }
    let server = Pid::from_raw(line.trim().parse().expect("a process id")).expect("not zero");
    let replay = Pid::from_child(&process);
    kill_process(replay, Signal::TERM).expect("it runs");
    let status = process.wait().expect("it ends");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    let is_gone = || test_kill_process(server).is_err();
    wait_until("the server is gone", is_gone);
}
