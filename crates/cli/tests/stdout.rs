//! stdout carries only framed messages, for any input, any handlers and any end of the daemon (L1). The
//! reader checks every byte.
#![cfg(unix)]

mod support;

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use duet_rpc::proto::frame::Framing;
use support::daemon::{
    Daemon, End, PROFILES, Trigger, command, frame, framing_of, pipe, read_frames, request, rpc,
};
use support::log::{FORMATS, LEVELS, parse_line};
use support::{concurrently, pairs};

/// Message limit of these tests, small so that oversize messages are short.
const LIMIT: usize = 20_000;

/// Bodies that are not a message, or a message that cannot be served.
fn bad_texts() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = [
        r#"{"jsonrpc":"2.0","id":1,"method":"version""#,
        r#"{"jsonrpc":"2.0","id":{},"method":"version"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"version"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"version"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"version","params":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"no\u000asuch\u2028method"}"#,
        r#"{"jsonrpc":"2.0","id":"\n\u2028","method":"setLogLevel","params":["\n"]}"#,
        r#"{"jsonrpc":"2.0","method":"setLogLevel","params":["\n"]}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":1}"#,
        "[]",
        "[1,2,3]",
        r#"[{"jsonrpc":"2.0","id":1,"method":"version"},{"jsonrpc":"2.0","method":"x"},[]]"#,
        "null",
        "garbage",
        "\u{feff}{}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    texts.push(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"\xc0\x80\"}".to_vec());
    texts.push("[".repeat(LIMIT - 10).into_bytes());
    texts.push(format!("{}{}", "[".repeat(5000), "]".repeat(5000)).into_bytes());
    texts
}

/// Every kind of fault of the framing (F11–F15, F21, F30, F31), one after the other.
fn faults(framing: Framing) -> Vec<u8> {
    let over = vec![b'x'; LIMIT + 1000];
    let mut bytes = Vec::new();
    match framing {
        Framing::Ndjson => {
            for text in bad_texts() {
                bytes.extend([&text[..], b"\r\n", b"\n"].concat());
            }
            bytes.extend(
                [&over[..], b"\n", b"\0\x01\x1b[31m\n", b"Content-Length: 2\r\n\r\n{}\n"].concat(),
            );
        }
        Framing::Length => {
            let prefix = |length: usize| (length as u32).to_be_bytes();
            for text in bad_texts() {
                bytes.extend([&prefix(text.len())[..], &text, b"\n"].concat());
            }
            bytes.extend([&prefix(2)[..], b"{}x"].concat());
            bytes.extend([&prefix(over.len())[..], &over, b"\n"].concat());
            bytes.extend([&prefix(0)[..], b"\n"].concat());
            bytes.extend(b"Content-Length: 2\r\n\r\n{}");
            bytes.extend([&prefix(100)[..], b"{}\n"].concat());
        }
        Framing::Lsp => {
            let headers = |lines: &str, body: &[u8]| [lines.as_bytes(), b"\r\n", body].concat();
            for text in bad_texts() {
                bytes.extend(headers(&format!("Content-Length: {}\r\n", text.len()), &text));
            }
            let body = r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;
            let length = body.len();
            for lines in [
                "\r\nno header at all\r\n".to_owned(),
                "X-Other: 1\r\n".to_owned(),
                "Content-Length:\r\n".to_owned(),
                "Content-Length: -5\r\n".to_owned(),
                "Content-Length: five\r\n".to_owned(),
                format!("Content-Length: {length}\n"),
                format!("Content-Length: {length}\r\nContent-Length: 1\r\n"),
                format!("Content-Length: {length}\r\nContent-Type: text/plain\r\n"),
                format!(
                    "Content-Length: {length}\r\n\
                     Content-Type: application/vscode-jsonrpc; charset=latin1\r\n"
                ),
                format!("X-Long: {}\r\nContent-Length: {length}\r\n", "x".repeat(9000)),
                "Content-Length: 99999999999999999999999999\r\n".to_owned(),
                format!("Content-Length: {}\r\n", length - 5),
                format!("Content-Length: {}\r\n", length + 5),
            ] {
                bytes.extend(headers(&lines, body.as_bytes()));
            }
            bytes.extend(headers(&format!("Content-Length: {}\r\n", over.len()), &over));
            bytes.extend(b"\x1b[31mgarbage\xff\0\n\n");
        }
    }
    bytes
}

/// Sends all faults, checks that a request after them is served, and ends the daemon.
fn live_through_faults(profile: &str, level: &str, format: &str, trigger: Trigger) -> End {
    let framing = framing_of(profile);
    let limit = LIMIT.to_string();
    let options = ["--log-level", level, "--log-format", format, "--max-message-bytes", &limit];
    let mut daemon = Daemon::rpc(profile, &options);
    daemon.send_raw(&faults(framing));
    daemon.request(77, "version", "[]");
    let mut errors = 0;
    loop {
        let answer = daemon.answer();
        assert!(answer.is_array() || answer["jsonrpc"] == "2.0", "{answer}");
        if answer["id"] == 77 {
            break;
        }
        errors += u32::from(answer.get("error").is_some());
    }
    assert!(errors > 15, "{profile}: {errors} errors");
    if trigger == Trigger::Eof {
        // A frame cut by the end of input is a fault too (F15).
        let whole = frame(framing, &request(1, "version", "[]"));
        daemon.send_raw(&whole[..whole.len() - 5]);
    }
    daemon.end(trigger)
}

#[test]
fn l1_faults_of_every_kind_produce_only_frames() {
    for profile in PROFILES {
        let cases = LEVELS.into_iter().zip(FORMATS.into_iter().cycle());
        for (level, format) in cases {
            concurrently(Trigger::ALL, |trigger| {
                let end = live_through_faults(profile, level, format, trigger);
                assert_eq!(end.status.code(), Some(0), "{profile} {level} {trigger:?}: {end:?}");
                for line in &end.lines {
                    parse_line(line, format);
                }
                let is_cut = end.answers.iter().any(|answer| answer["error"]["code"] == -32700);
                assert_eq!(is_cut, trigger == Trigger::Eof, "{profile} {trigger:?}: {end:?}");
            });
        }
    }
}

/// Handlers that print, panic and send many messages.
#[test]
fn l1_l9_e2_misbehaving_handlers_do_not_show_on_stdout() {
    const COUNT: u64 = 2_000;
    for (profile, trigger) in pairs(PROFILES, Trigger::ALL) {
        let mut testbed = Daemon::start(profile);
        for id in 0..5 {
            testbed.request(10 * id + 1, "test.print", "[]");
            testbed.request(10 * id + 2, "test.panic", "[]");
            testbed.request(10 * id + 3, "test.big", r#"{"bytes":20000}"#);
            testbed.send(r#"{"jsonrpc":"2.0","method":"test.print"}"#);
            testbed.send(r#"{"jsonrpc":"2.0","method":"test.panic"}"#);
        }
        testbed.request(98, "test.emit", &format!(r#"{{"count":{COUNT}}}"#));
        let (mut answers, mut events) = (0, 0);
        while answers < 16 || events < COUNT {
            let message = testbed.answer();
            let is_event = message["method"] == "test.event";
            if is_event {
                events += 1;
                assert_eq!(message["params"], serde_json::json!([events]), "{profile}");
            } else {
                answers += 1;
            }
        }
        let end = testbed.end(trigger);
        assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
        let strays = end.lines.iter().filter(|line| *line == "stray").count();
        assert_eq!(strays, 10, "{profile} {trigger:?}: printed text goes to stderr");
    }
}

/// Reads a little at a time.
struct Sips(File);

impl Read for Sips {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        thread::yield_now();
        let most = into.len().min(4096);
        self.0.read(&mut into[..most])
    }
}

/// The end comes after a part of an answer was read, and the rest is read afterwards.
#[test]
fn l1_l4_a_partly_read_answer_is_completed() {
    const BYTES: usize = 500_000;
    for (profile, trigger) in pairs(PROFILES, Trigger::ALL) {
        let (out, into) = pipe();
        let framing = framing_of(profile);
        let mut testbed = Daemon::with_stdout(command(profile), framing, into);
        testbed.request(1, "test.big", &format!(r#"{{"bytes":{BYTES}}}"#));
        let mut out = File::from(out);
        let mut bytes = vec![0; 1000];
        out.read_exact(&mut bytes).expect("an answer arrives");
        testbed.trigger(trigger);
        let last_words = match trigger {
            Trigger::Eof => "stdin closed",
            Trigger::Shutdown => "shut down",
            Trigger::Interrupt | Trigger::Terminate | Trigger::HangUp => "received SIG",
        };
        testbed.wait_for_line(|line| line.contains(last_words));
        let reader = thread::spawn(move || {
            Sips(out).read_to_end(&mut bytes).expect("the pipe can be read");
            bytes
        });
        let end = testbed.wait(Instant::now());
        assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
        let mut answers = Vec::new();
        let bytes = reader.join().expect("the reader thread does not panic");
        read_frames(&bytes[..], framing, |answer| answers.push(answer));
        assert_eq!(answers[0]["result"].as_str().map(str::len), Some(BYTES));
        assert_eq!(answers.len(), 1 + usize::from(trigger == Trigger::Shutdown));
    }
}

/// The end comes during an endless stream of requests.
#[test]
fn l1_l4_the_last_frame_is_whole() {
    for profile in PROFILES {
        for (trigger, level) in [
            (Trigger::Terminate, "error"),
            (Trigger::Interrupt, "debug"),
            (Trigger::HangUp, "info"),
        ] {
            let (out, into) = pipe();
            let mut command = rpc(&["--profile", profile, "--log-level", level]);
            command.stdin(Stdio::piped()).stdout(Stdio::from(into)).stderr(Stdio::null());
            let framing = framing_of(profile);
            let mut daemon = Daemon::with_pipes(command, framing);
            let mut stdin = daemon.stdin.take().expect("a pipe");
            let writer = thread::spawn(move || {
                let send = |id| stdin.write_all(&frame(framing, &request(id, "version", "[]")));
                // Until the daemon stops reading.
                (1..).map(send).take_while(Result::is_ok).count() as u64
            });
            let mut out = File::from(out);
            let mut bytes = vec![0; 10_000];
            out.read_exact(&mut bytes).expect("an answer arrives");
            daemon.trigger(trigger);
            let reader = thread::spawn(move || {
                out.read_to_end(&mut bytes).expect("the pipe can be read");
                bytes
            });
            let end = daemon.wait(Instant::now());
            assert_eq!(end.status.code(), Some(0), "{profile} {trigger:?}");
            let sent = writer.join().expect("the writer thread does not panic");
            let mut ids = Vec::new();
            let bytes = reader.join().expect("the reader thread does not panic");
            read_frames(&bytes[..], framing, |answer| {
                assert_eq!(answer["result"]["version"], "0.1.0");
                ids.push(answer["id"].as_u64().expect("a number"));
            });
            if profile == "agent" {
                ids.sort_unstable();
            }
            let expect: Vec<_> = (1..=ids.len() as u64).collect();
            assert_eq!(ids, expect, "{profile}: each request that was read is answered");
            assert!(ids.len() as u64 <= sent + 1, "{profile}");
        }
    }
}
