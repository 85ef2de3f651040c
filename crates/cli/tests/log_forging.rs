//! Client input cannot forge a log line, and its payload appears neither in the log nor in answers to others
//! (G6, E1).
#![cfg(unix)]

mod support;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};
use support::daemon::{Daemon, PROFILES, command, frame, framing_of, notification, request, rpc};
use support::folder::Folder;
use support::log::{FORMATS, LEVELS, live, live_with, parse, parse_line};
use support::pairs;

/// Texts that would become lines, commands or fields of their own if written raw.
fn forgeries() -> Vec<String> {
    let line = "2026-01-02T03:04:05.678Z ERROR forged method=x id=7";
    let mut texts: Vec<String> =
        ["\n", "\r", "\r\n", "\u{85}", "\u{2028}", "\u{2029}", "\u{b}", "\u{c}", "\0"]
            .iter()
            .map(|end| format!("x{end}{line}{end}"))
            .collect();
    texts.extend(
        [
            "\u{1b}[2K\u{1b}[1A\u{1b}[31m",
            "\u{9b}31m",
            "\u{9d}0;title\u{9c}",
            "\u{8}\u{8}\u{8}\u{7f}",
            "\u{202e}\u{2066}\u{feff}\u{200f}",
            // Invisible characters, which make it look like another method.
            "ver\u{200b}sion\u{2060}\u{2064}\u{fffb}\u{e0001}\u{e0041}\u{e007f}",
            "\" id=7",
            "x\" id=7 \"",
            "x id=7",
            "id=7",
            "=",
            " ",
            "",
            "\\",
            "\\\" id=7",
            "\\n",
            "\\u{a}",
            "{\"severity\":\"error\"}",
            "é😀",
        ]
        .map(str::to_owned),
    );
    texts.push("\n".repeat(10_000));
    texts
}

fn cut(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

#[test]
fn g6_no_line_can_be_forged_and_long_names_are_cut() {
    for (profile, format) in pairs(PROFILES, FORMATS) {
        check_lines(profile, format, &forgeries());
    }
    for format in FORMATS {
        check_lines("editor", format, &["m".repeat(1_000_000)]);
    }
}

/// Sends every text as a method and as an id: each makes one line with the text, cut.
fn check_lines(profile: &str, format: &str, texts: &[String]) {
    // Raw where JSON allows it, and fully escaped.
    let requests = texts.iter().flat_map(|text| {
        let escapes = cut(text, 999).encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let (raw, escaped): (_, String) = (json!(text).to_string(), escapes);
        [raw, format!("\"{escaped}\"")]
            .map(|text| format!(r#"{{"jsonrpc":"2.0","id":{text},"method":{text}}}"#))
    });
    let options = ["--profile", profile, "--log-format", format, "--log-level", "warn"];
    let life = live_with(rpc(&options), framing_of(profile), |daemon| {
        for text in requests {
            daemon.send(&text);
            check_unknown(&daemon.answer());
        }
    });
    let records = life.records(format);
    assert_eq!(records.len(), 2 * texts.len(), "{profile} {format}");
    for (record, text) in records.iter().zip(texts.iter().flat_map(|text| [text; 2])) {
        assert_eq!((record.severity.as_str(), &*record.message), ("warn", "unknown method"));
        assert_eq!(record.method, Some(cut(text, 128)), "{format}");
        let id: String = serde_json::from_str(record.id.as_ref().expect("an id")).expect("text");
        assert_eq!(id, cut(text, 64), "{format}");
    }
}

/// Checks that the answer cuts the name of the method too.
fn check_unknown(answer: &Value) {
    let message = answer["error"]["message"].as_str().expect("a text");
    let name = message.strip_prefix("Method not found: ").expect("the error names the method");
    assert!(name.trim_end_matches('…').chars().count() <= 128, "{message}");
}

/// A JSON string can hold half of a surrogate pair, which many JSON readers reject. An answer must echo it,
/// but a record must not.
#[test]
fn g3_g6_half_a_character_does_not_break_a_line() {
    for (profile, format) in pairs(PROFILES, FORMATS) {
        let framing = framing_of(profile);
        let halves = [r#""\ud800""#, r#""\udc00x""#, r#""\ud83d\ud83d\ude00""#];
        let texts = halves.iter().flat_map(|half| {
            let response = format!(r#"{{"jsonrpc":"2.0","id":{half},"result":1}}"#);
            [response, format!(r#"{{"jsonrpc":"2.0","method":{half}}}"#)]
        });
        let input: Vec<u8> = texts.flat_map(|text| frame(framing, &text)).collect();
        let options = ["--profile", profile, "--log-format", format, "--log-level", "warn"];
        let records = live(rpc(&options), framing, &input).records(format);
        assert_eq!(records.len(), 2 * halves.len(), "{records:?}");
    }
}

/// Text that must never appear.
const CANARY: &str = "CANARY-5d41";
/// Text of the test bed's panics.
const PANIC: &str = "must not show";

/// Answers to requests from this id on may show the input, because these requests ask for it.
const MAY_SHOW: u64 = 1000;

/// Messages with a canary everywhere except in short methods and ids.
fn messages(profile: &str) -> Vec<String> {
    let long_id = format!("{}{CANARY}", "i".repeat(64));
    let long_method = format!("{}{CANARY}", "m".repeat(128));
    let deep = format!("{}\"{CANARY}\"{}", "[".repeat(200), "]".repeat(200));
    let failure =
        |code: i64| format!(r#"{{"code":{code},"message":"{CANARY}","data":["{CANARY}"]}}"#);
    // Ids are unique, because a request may still run when the next one arrives.
    let mut ids = 1..MAY_SHOW;
    let mut both = |method: &str, params: &str| {
        [request(ids.next().expect("enough"), method, params), notification(method, params)]
    };
    let mut texts = Vec::new();
    for (method, params) in [
        ("unknown", format!(r#"{{"{CANARY}":"{CANARY}"}}"#)),
        ("version", format!(r#"["{CANARY}"]"#)),
        ("setLogLevel", format!(r#"{{"{CANARY}":"info"}}"#)),
        ("setLogLevel", format!(r#"{{"level":["{CANARY}"]}}"#)),
        ("setLogLevel", format!(r#"{{"level":{{"{CANARY}":1}}}}"#)),
        ("setLogLevel", format!(r#"[["{CANARY}"],"{CANARY}"]"#)),
        ("test.sleep", format!(r#"{{"ms":"{CANARY}"}}"#)),
        ("test.sleep", format!(r#"{{"ms":{{"{CANARY}":"{CANARY}"}}}}"#)),
        ("test.sleep", format!(r#"["{CANARY}"]"#)),
        ("test.panic", format!(r#"["{CANARY}"]"#)),
        ("test.fail", format!(r#"{{"code":"{CANARY}","message":"{CANARY}"}}"#)),
        ("events.subscribe", format!(r#"{{"topics":"{CANARY}"}}"#)),
        ("events.subscribe", format!(r#"{{"topics":[["{CANARY}"]]}}"#)),
        ("system.callback", format!(r#"{{"method":["{CANARY}"]}}"#)),
        ("system.callback", format!(r#"{{"method":"{CANARY}","params":"{CANARY}"}}"#)),
        ("$/cancelRequest", format!(r#"{{"id":["{CANARY}"],"{CANARY}":1}}"#)),
    ] {
        texts.extend(both(method, &params));
    }
    texts.extend([
        format!(r#"{{"jsonrpc":"2.0","id":"{long_id}","method":"{long_method}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"{long_id}","result":"{CANARY}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":1,"message":"{CANARY}","data":"{CANARY}"}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{CANARY}","error":"{CANARY}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"{long_method}"}}"#),
        format!(r#"{{"jsonrpc":"{CANARY}","id":"a","method":"version"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":["{CANARY}"],"method":"version"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":{{"{CANARY}":1}},"method":"version"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":["{CANARY}"]}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"version","params":"{CANARY}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"version","{CANARY}":"{CANARY}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"version","params":[],"params":["{CANARY}"]}}"#),
        format!(r#"["{CANARY}",{{"{CANARY}":1}},{{"jsonrpc":"2.0","id":"a","method":"x","params":["{CANARY}"]}}]"#),
        format!(r#"["{CANARY}"]"#),
        format!("\"{CANARY}\""),
        CANARY.to_owned(),
        format!(r#"{{"{CANARY}": {CANARY}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"a","method":"version","params":["{CANARY}\x"]}}"#),
        deep,
    ]);
    // The exceptions: a closed list, and messages of the application itself.
    texts.push(request(MAY_SHOW, "setLogLevel", &format!(r#"{{"level":"{CANARY}"}}"#)));
    texts.push(request(MAY_SHOW + 1, "setLogLevel", &format!("[\"{CANARY}\"]")));
    for (id, code) in [(MAY_SHOW + 2, -32001), (MAY_SHOW + 3, -32603), (MAY_SHOW + 4, 7)] {
        texts.push(request(id, "test.fail", &failure(code)));
        texts.push(both("test.fail", &failure(code))[1].clone());
    }
    if profile != "editor" {
        texts.push(request(MAY_SHOW + 5, "system.echo", &format!(r#"{{"{CANARY}":"{CANARY}"}}"#)));
        let topics = format!(r#"{{"topics":["{CANARY}"]}}"#);
        texts.push(request(MAY_SHOW + 6, "events.subscribe", &topics));
    }
    // Beyond the 64th character, even these must not show it.
    let long = format!("{}{CANARY}", "v".repeat(64));
    texts.extend(both("setLogLevel", &format!("[\"{long}\"]")));
    texts
}

/// Bytes that break the framing, with canaries in them.
fn faults(framing: Framing) -> Vec<u8> {
    let not_utf8 = [CANARY.as_bytes(), b"\xff", CANARY.as_bytes()].concat();
    match framing {
        Framing::Ndjson => [&not_utf8[..], b"\n", CANARY.as_bytes(), b"\n"].concat(),
        Framing::Length => {
            let length = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
            let body = format!("[\"{CANARY}\"]");
            [
                length(&not_utf8),
                b"\n".to_vec(),
                length(body.as_bytes()),
                CANARY.as_bytes().to_vec(),
                CANARY.as_bytes().to_vec(),
                [&[0x00, 0xff, 0xff, 0xff], CANARY.as_bytes()].concat(),
                [&[0x00, 0x00, 0x00, 0x00], CANARY.as_bytes()].concat(),
            ]
            .concat()
        }
        Framing::Lsp => {
            let body =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"version","params":["{CANARY}"]}}"#);
            let length = body.len();
            let headers = [
                format!("Content-Length: {length}\r\nContent-Type: {CANARY}/{CANARY}\r\n"),
                format!(
                    "Content-Length: {length}\r\nContent-Type: application/vscode-jsonrpc; charset={CANARY}\r\n"
                ),
                format!("Content-Length: {length}\r\nX-{CANARY}: {CANARY}\r\n"),
                format!("Content-Length: {length}\r\n{CANARY}\r\n"),
                format!("Content-Length: {length}{CANARY}\r\n"),
                format!("Content-Length: {length}\nX: {CANARY}\r\n"),
                format!("{CANARY}: {CANARY}\r\n"),
                format!("Content-Length: 99999999\r\nX: {CANARY}\r\n"),
                format!("Content-Length: {}\r\n", length - 4),
                format!("Content-Length: {}\r\n", length + 4),
                format!("X-{CANARY}: {}\r\nContent-Length: {length}\r\n", CANARY.repeat(1000)),
            ];
            let frames = headers.map(|header| format!("{CANARY}\r\n{header}\r\n{body}"));
            let not_utf8 = [b"Content-Length: 23\r\n\r\n", &not_utf8[..]].concat();
            [frames.concat().as_bytes(), &not_utf8].concat()
        }
    }
}

/// Sends all messages and bad bytes, and answers the calls of the test bed.
fn plant(daemon: &mut Daemon, profile: &str) {
    let framing = framing_of(profile);
    if profile != "editor" {
        daemon.ask(MAY_SHOW + 10, "events.subscribe", r#"{"topics":["log"]}"#);
    }
    for text in messages(profile) {
        daemon.send(&text);
    }
    daemon.send_raw(&faults(framing));
    daemon.send(&request(MAY_SHOW - 1, "version", "[]"));
    wait_for(daemon, |message| message["id"] == MAY_SHOW - 1);
    if profile != "agent" {
        return;
    }
    let params = format!(r#"{{"method":"{CANARY}","params":["{CANARY}"]}}"#);
    for (id, answer) in [
        (MAY_SHOW + 20, format!(r#""result":"{CANARY}""#)),
        (
            MAY_SHOW + 21,
            format!(r#""error":{{"code":-32001,"message":"{CANARY}","data":"{CANARY}"}}"#),
        ),
        (MAY_SHOW + 22, format!(r#""error":{{"code":-32603,"message":"{CANARY}"}}"#)),
        (MAY_SHOW + 23, format!(r#""error":"{CANARY}""#)),
        (MAY_SHOW + 24, format!(r#""error":{{"code":"{CANARY}"}}"#)),
    ] {
        daemon.request(id, "system.callback", &params);
        let call = wait_for(daemon, |message| message["method"] == CANARY)["id"].clone();
        daemon.send(&format!(r#"{{"jsonrpc":"2.0","id":{call},{answer}}}"#));
        wait_for(daemon, |message| message["id"] == id);
    }
}

/// Waits for a message, and checks all messages before it.
fn wait_for(daemon: &Daemon, is_it: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = daemon.answer();
        check_message(&message);
        if is_it(&message) {
            return message;
        }
    }
}

/// Checks that no error and no event shows a canary.
fn check_message(message: &Value) {
    let shown = if message["method"] == "event" {
        let data = &message["params"]["data"];
        parse_line(&data.to_string(), "json");
        data.to_string()
    } else if message["id"].as_u64().is_some_and(|id| id >= MAY_SHOW) {
        return;
    } else {
        message["error"].to_string()
    };
    assert!(!shown.contains(CANARY) && !shown.contains(PANIC), "{shown}");
}

fn check_log(log: &[u8], format: &str) {
    parse(log, format);
    let log = std::str::from_utf8(log).expect("text");
    let shows = |line: &&str| line.contains(CANARY) || line.contains(PANIC);
    assert_eq!(log.lines().find(shows), None);
}

#[test]
fn e1_g6_the_payload_of_a_message_appears_nowhere() {
    for profile in PROFILES {
        for (level, format) in pairs(LEVELS, FORMATS) {
            // Each level to each sink, in one of the formats.
            let is_to_file = (level == "debug" || level == "warn") == (format == "json");
            let folder = Folder::new();
            let path = folder.path("log");
            let mut testbed = command(profile);
            testbed.args(["--log-level", level, "--log-format", format]);
            testbed.env_remove("TESTBED_TELLS").env("SOME_TOKEN", CANARY);
            if is_to_file {
                testbed.env("DUET_RPC_LOG", &path);
            }
            let life = live_with(testbed, framing_of(profile), |daemon| plant(daemon, profile));
            life.end.answers.iter().for_each(check_message);
            check_log(&life.stderr, format);
            if is_to_file {
                assert_eq!(life.stderr, b"");
                check_log(&std::fs::read(&path).expect("the file exists"), format);
            }
        }
    }
}
