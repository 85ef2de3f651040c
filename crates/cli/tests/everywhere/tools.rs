//! The other commands: `tap`, `trace`, `replay`, `mock`, `watch`, `doctor`, `explain`, `api`, completions and manual pages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use crate::programs::DUET_RPC;
use crate::run::{Listening, PROFILES, duet_rpc, frames, fresh, fresh_path, place, run};

/// Records a session with the daemon. Returns the trace, and the bytes in both directions.
fn record(profile: &str, more: &[&str]) -> (String, Vec<u8>, Vec<u8>) {
    let (_, framing) = PROFILES.into_iter().find(|(name, _)| *name == profile).expect("a profile");
    let (trace, texts) = (
        fresh("t.jsonl"),
        [
            r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"no.such.method","params":["ü\r\n\u001a"]}"#,
        ],
    );
    let input = frames(framing, &texts);
    let words = ["tap", "--to", &trace];
    let server = ["--", DUET_RPC, "rpc", "--profile", profile];
    let ran = run(&[&words[..], more, &server].concat(), &input);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    (trace, input, ran.stdout)
}

#[test]
fn w1_w4_r0_trace_cat_writes_the_bytes_that_passed_through_a_tap() {
    for (profile, _) in PROFILES {
        let (trace, input, output) = record(profile, &[]);
        for (dir, bytes) in [("c2s", input), ("s2c", output)] {
            let ran = run(&["trace", "cat", "--dir", dir, &trace], b"");
            assert_eq!((ran.code, ran.stdout), (Some(0), bytes), "{profile} {dir}");
        }
        let text = std::fs::read_to_string(&trace).expect("a trace");
        assert!(text.contains(r#""kind":"exit","code":0"#), "{text}");
        assert!(text.contains(r#""lossless":true"#), "{text}");
    }
}

#[test]
fn w3_a_second_tap_leaves_the_file_of_the_first() {
    let trace = fresh_path("t.jsonl");
    let words = ["tap", "--to", trace.to_str().expect("plain"), "--", DUET_RPC, "rpc"];
    let listen = ["--listen", "tcp://127.0.0.1:0"];
    let _first = Listening::start(&[&words[..], &listen].concat(), 1);
    let ran = run(&words, b"");
    assert!(ran.stderr.contains("this trace goes to"), "{ran:?}");
    assert!(trace.with_file_name("t-2.jsonl").exists());
    // Readers are not kept away while it is written.
    let ran = run(&["trace", "show", trace.to_str().expect("plain")], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn x1_x6_fault_rules_change_the_messages_that_they_choose() {
    let (trace, input, output) = record("agent", &["--fault", "dup dir:s2c kind:response"]);
    let (_, _, usual) = record("agent", &[]);
    assert_eq!(output.len(), usual.len() + 54, "{}", String::from_utf8_lossy(&output));
    let ran = run(&["trace", "cat", "--dir", "c2s", &trace], b"");
    assert_eq!(ran.stdout, input);
    // A rule that delays, a rule that answers itself, and one that never lets anything pass.
    let words = ["tap", "--no-record", "--fault", "delay=50ms", "--", DUET_RPC, "rpc"];
    let asked = frames(PROFILES[0].1, &[r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#]);
    let ran = run(&words, &asked);
    assert!(ran.text().contains(r#""version":"0.1.0""#), "{ran:?}");
    let words = ["tap", "--no-record", "--fault", "error=7:no dir:c2s", "--", DUET_RPC, "rpc"];
    assert!(run(&words, &asked).text().contains(r#""code":7"#));
    let words = ["tap", "--no-record", "--fault", "stall", "--", DUET_RPC, "rpc"];
    let ran = run(&words, &asked);
    assert_eq!((ran.code, ran.text()), (Some(0), ""), "{ran:?}");
}

#[test]
fn x7_a_killed_server_ends_the_tap() {
    let words = ["tap", "--no-record", "--fault", "kill method:version", "--", DUET_RPC, "rpc"];
    let asked = frames(PROFILES[0].1, &[r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#]);
    let ran = run(&words, &asked);
    assert!(ran.code != Some(0) && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn y6_k1_a_recording_is_replayed_and_mocked() {
    let (trace, ..) = record("agent", &[]);
    let ran = run(&["replay", &trace, "--", DUET_RPC, "rpc", "--profile", "agent"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = run(&["call", "version", "--", DUET_RPC, "mock", &trace], b"");
    assert_eq!((ran.code, ran.text()), (Some(0), r#"{"version":"0.1.0"}"#), "{ran:?}");
}

#[test]
fn r4_r10_traces_are_shown_counted_checked_and_compared() {
    let (trace, ..) = record("agent", &[]);
    for (words, code, expected) in [
        (&["trace", "show", &trace][..], 0, "no.such.method"),
        (&["trace", "stats", &trace], 0, "version"),
        (&["trace", "check", &trace], 1, "unknown-method"),
        (&["trace", "diff", &trace, &trace], 0, ""),
        (&["trace", "show", "no-such-file.jsonl"], 1, ""),
    ] {
        let ran = run(words, b"");
        assert_eq!(ran.code, Some(code), "{words:?}: {ran:?}");
        assert!(ran.text().contains(expected), "{words:?}: {ran:?}");
    }
}

#[test]
fn the_page_of_watch_needs_its_token() {
    let (trace, ..) = record("agent", &[]);
    let mut command = duet_rpc(&["watch", &trace]);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut url = String::new();
    let stdout = watch.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut url).expect("a line");
    let url = url.trim();
    let host = place(url);
    let path = url.split_once(&host).expect("a host").1;
    let get = |path: &str| {
        let mut page = TcpStream::connect(&host).expect("it listens");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        page.write_all(head.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        page.read_to_end(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(get(path).starts_with("HTTP/1.1 200"), "{}", get(path));
    assert!(get("/").starts_with("HTTP/1.1 401"), "{}", get("/"));
    watch.kill().expect("it runs");
    watch.wait().expect("it ends");
}

#[test]
fn c10_doctor_finds_this_installation_and_another_server_well() {
    let ran = run(&["doctor"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("all 14 checks passed"), "{ran:?}");
    let ran = run(&["doctor", "--", DUET_RPC, "rpc", "--profile", "agent"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.text().contains("end of input"), "{ran:?}");
}

#[test]
fn c9_explain_api_completions_and_manual_pages_are_printed() {
    let ran = run(&["explain", "ndjson"], b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":7}\n");
    assert!(ran.text().contains("jsonrpc") && ran.text().contains("method"), "{ran:?}");
    for words in [
        &["completions", "powershell"][..],
        &["completions", "bash"],
        &["man"],
        &["man", "tap"],
        &["api", "show", "--", DUET_RPC, "rpc", "--profile", "agent"],
    ] {
        let ran = run(words, b"");
        assert!(ran.code == Some(0) && ran.stdout.len() > 500, "{words:?}: {ran:?}");
    }
}
