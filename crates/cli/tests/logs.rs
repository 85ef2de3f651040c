//! Records in the daemon's log, read with a strict parser (G2–G5).
#![cfg(unix)]

mod support;

use duet_rpc::proto::frame::Framing;
use serde_json::Value;
use support::daemon::{Daemon, PROFILES, command, frame, framing_of, notification, request, rpc};
use support::folder::Folder;
use support::log::{FORMATS, LEVELS, Life, ParsedRecord, live, live_with, parse};
use support::pairs;

/// Runs the daemon with these options and texts.
fn daemon(profile: &str, options: &[&str], texts: &[&str]) -> Life {
    let framing = framing_of(profile);
    let input: Vec<u8> = texts.iter().flat_map(|text| frame(framing, text)).collect();
    live(rpc(&[&["--profile", profile], options].concat()), framing, &input)
}

fn severities(records: &[ParsedRecord]) -> Vec<&str> {
    records.iter().map(|record| record.severity.as_str()).collect()
}

#[test]
fn g2_only_records_at_the_level_or_above_are_logged() {
    // Messages that cause a record of each severity, besides the records of start and end.
    let unknown = request(1, "unknown", "[]");
    let failing = notification("setLogLevel", "[]");
    let options: [&[&str]; 7] = [
        &[],
        &["--log-level", "debug"],
        &["--log-level", "DEBUG"],
        &["--log-level", "Info"],
        &["--log-level", "WARN"],
        &["--log-level", "eRRoR"],
        &["--log-level=error"],
    ];
    for (profile, options) in pairs(PROFILES, options) {
        let life = daemon(profile, options, &[&unknown, &failing]);
        let records = life.records("text");
        let level = options.last().and_then(|option| option.rsplit('=').next());
        let level = level.unwrap_or("info").to_lowercase();
        let least = LEVELS.iter().position(|known| *known == level).expect("a level");
        for (place, severity) in LEVELS.into_iter().enumerate() {
            let is_there = severities(&records).contains(&severity);
            assert_eq!(is_there, place >= least, "{profile} {options:?} {severity}: {records:?}");
        }
    }
}

/// Everything is sent in one write: a level applies from the very next message.
#[test]
fn g2_a_new_level_applies_from_the_next_message() {
    for (profile, by_notification) in pairs(PROFILES, [false, true]) {
        let set = |id, level: &str| match by_notification {
            false => request(id, "setLogLevel", &format!("[\"{level}\"]")),
            true => notification("setLogLevel", &format!(r#"{{"level":"{level}"}}"#)),
        };
        let texts = [
            request(1, "unknown", "[]"),
            set(11, "error"),
            request(2, "unknown", "[]"),
            set(12, "Debug"),
            request(3, "unknown", "[]"),
            request(4, "version", "[]"),
            set(13, "WARN"),
            request(5, "version", "[]"),
            request(6, "unknown", "[]"),
            set(14, "info"),
            request(7, "version", "[]"),
        ];
        let life = daemon(profile, &[], &texts.each_ref().map(String::as_str));
        let records = life.records("text");
        let logged: Vec<_> = records
            .iter()
            .filter(|record| record.method.as_deref() != Some("setLogLevel"))
            .filter_map(|record| Some((record.id.as_deref()?, record.severity.as_str())))
            .collect();
        let traffic = if profile == "desktop" { "info" } else { "debug" };
        let mut expect =
            vec![("1", "warn"), ("3", "warn"), ("4", traffic), ("4", traffic), ("6", "warn")];
        if profile == "desktop" {
            expect.extend([("7", "info"), ("7", "info")]);
        }
        assert_eq!(logged, expect, "{profile}: {records:?}");
        let last = records.last().expect("there are records");
        assert_eq!(last.message, "stdin closed, shutting down gracefully");
    }
}

/// Each id in a request for an unknown method, and its form in the log: as it came, and cut if it is long.
#[test]
fn g3_ids_are_logged_as_they_came() {
    let (digits, letters) = ("7".repeat(64), "é".repeat(64));
    let rows = [
        ("7".to_owned(), None),
        ("\"7\"".to_owned(), None),
        ("null".to_owned(), None),
        ("1.0".to_owned(), None),
        ("-0".to_owned(), None),
        ("1e3".to_owned(), None),
        ("18446744073709551616".to_owned(), None),
        ("\"\"".to_owned(), None),
        (r#""a \"b\" \\ c=d""#.to_owned(), None),
        (digits.clone(), None),
        (format!("{digits}7"), Some(format!("\"{digits}\""))),
        (format!("\"{letters}\""), None),
        (format!("\"{letters}é\""), Some(format!("\"{letters}\""))),
        (format!("\"{}\"", "\\u00e9".repeat(65)), Some(format!("\"{letters}\""))),
    ];
    for (profile, format) in pairs(PROFILES, FORMATS) {
        let texts: Vec<_> = rows
            .iter()
            .map(|(id, _)| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"unknown"}}"#))
            .collect();
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let options = ["--log-format", format, "--log-level", "warn"];
        let life = daemon(profile, &options, &texts);
        let records = life.records(format);
        assert_eq!(records.len(), rows.len(), "{records:?}");
        for ((id, shown), record) in rows.iter().zip(&records) {
            assert_eq!(record.method.as_deref(), Some("unknown"));
            // A cut number is another number, so the JSON format shows it as a string.
            let shown = shown.as_ref().unwrap_or(id);
            let shown = match format {
                "text" if id.starts_with('7') => shown.trim_matches('"'),
                _ => shown,
            };
            assert_eq!(record.id.as_deref(), Some(shown), "{format} {id}");
        }
    }
}

#[test]
fn g3_a_record_has_the_method_and_the_id_if_they_are_known() {
    // A message at level `warn`, and the method and id of the only record.
    let rows = [
        (r#"{"jsonrpc":"2.0","id":1,"method":"a b"}"#, Some("a b"), Some("1")),
        (r#"{"jsonrpc":"2.0","method":"x=\"y\""}"#, Some("x=\"y\""), None),
        (
            r#"{"jsonrpc":"2.0","id":"i","method":"setLogLevel"}"#,
            Some("setLogLevel"),
            Some("\"i\""),
        ),
        (r#"{"jsonrpc":"1.0","id":null,"method":"version"}"#, Some("version"), Some("null")),
        (r#"{"jsonrpc":"2.0","id":5}"#, None, Some("5")),
        (r#"{"jsonrpc":"2.0","id":5,"method":6}"#, None, Some("5")),
        (r#"{"jsonrpc":"2.0","id":5,"method":"version","params":6}"#, Some("version"), Some("5")),
        (r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#, Some("version"), None),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"version"}"#, Some("version"), None),
        (r#"{"jsonrpc":"2.0","id":8,"result":1}"#, None, Some("8")),
        (r#"{"jsonrpc":"2.0","id":8,"#, None, None),
        ("17", None, None),
    ];
    for (profile, format) in pairs(PROFILES, FORMATS) {
        for (text, method, id) in rows {
            let options = ["--log-format", format, "--log-level", "warn"];
            let records = daemon(profile, &options, &[text]).records(format);
            let [record] = &records[..] else { panic!("{profile} {text}: {records:?}") };
            let known = (record.method.as_deref(), record.id.as_deref());
            assert_eq!(known, (method, id), "{profile} {format} {text}");
        }
    }
    // The body of a frame with refused headers is known too (F12).
    let body = r#"{"jsonrpc":"2.0","id":9,"method":"version"}"#;
    let length = body.len();
    let input = format!("Content-Length: {length}\r\nContent-Type: text/html\r\n\r\n{body}");
    let life = live(rpc(&["--log-level", "warn"]), Framing::Lsp, input.as_bytes());
    let records = life.records("text");
    assert_eq!((records.len(), records[0].id.as_deref()), (1, Some("9")), "{records:?}");
}

#[test]
fn g3_long_methods_are_cut() {
    let name = "é".repeat(129);
    let text = request(1, &name, "[]");
    for format in FORMATS {
        let options = ["--log-format", format, "--log-level", "warn"];
        let records = daemon("agent", &options, &[&text]).records(format);
        assert_eq!(records[0].method.as_deref(), Some("é".repeat(128).as_str()), "{format}");
    }
}

#[test]
fn g4_the_first_record_describes_the_daemon() {
    let framings: [&[&str]; 5] = [
        &[],
        &["--framing", "lsp"],
        &["--framing", "ndjson"],
        &["--framing", "length"],
        &["--framing", "auto"],
    ];
    for profile in PROFILES {
        for (options, format) in framings.into_iter().zip(FORMATS.into_iter().cycle()) {
            let framing = match options.last() {
                Some(&"lsp") => Framing::Lsp,
                Some(&"length") => Framing::Length,
                Some(_) => Framing::Ndjson,
                None => framing_of(profile),
            };
            let common = ["--profile", profile, "--log-format", format];
            let mut pid = 0;
            let life = live_with(rpc(&[&common, options].concat()), framing, |daemon| {
                pid = daemon.process.id();
            });
            let first = &life.records(format)[0];
            let name = match framing_of(profile) {
                Framing::Lsp => "lsp",
                Framing::Length => "length",
                Framing::Ndjson => "ndjson",
            };
            let name = options.last().unwrap_or(&name);
            assert_eq!(first.severity, "info");
            for (field, value) in [
                ("version", "0.1.0"),
                ("pid", pid.to_string().as_str()),
                ("level", "info"),
                ("sink", "stderr"),
                ("profile", profile),
                ("framing", name),
            ] {
                assert_eq!(first.field(field), Some(value), "{field}: {first:?}");
            }
        }
    }
}

#[test]
fn g4_the_first_record_names_the_file_and_the_level() {
    let folder = Folder::new();
    for (name, level) in [("log", "debug"), ("a file", "info")] {
        let path = folder.path(name);
        let mut command = rpc(&["--log-level", level]);
        command.env("DUET_RPC_LOG", &path);
        let life = live(command, Framing::Lsp, b"");
        assert_eq!(life.stderr, b"");
        let records = parse(&std::fs::read(&path).expect("the file exists"), "text");
        assert_eq!(records[0].field("level"), Some(level));
        let path = path.to_str().expect("the path is text");
        let sink = if name == "log" { path.to_owned() } else { format!("\"{path}\"") };
        assert!(records[0].message.contains(&format!(" sink={sink} ")), "{records:?}");
    }
}

/// A message to the test bed at level `warn`, and the severity of its only record.
#[test]
fn g5_m10_the_cause_decides_the_severity() {
    let failure = r#"{"code":-32001,"message":"no","data":null}"#;
    let rows = [
        (request(1, "unknown", "[]"), "warn"),
        (notification("unknown", "[]"), "warn"),
        (request(1, "setLogLevel", "[\"loud\"]"), "warn"),
        (request(1, "test.sleep", "{}"), "warn"),
        (request(1, "test.fail", failure), "warn"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"version"}"#.to_owned(), "warn"),
        (r#"{"jsonrpc":"2.0","id":1,"result":1}"#.to_owned(), "warn"),
        ("[]".to_owned(), "warn"),
        ("{".to_owned(), "warn"),
        (notification("setLogLevel", "[\"loud\"]"), "error"),
        (notification("test.sleep", "{}"), "error"),
        (notification("test.fail", failure), "error"),
        (notification("test.panic", "[]"), "error"),
        (request(1, "test.panic", "[]"), "error"),
    ];
    for profile in PROFILES {
        let framing = framing_of(profile);
        for (text, severity) in &rows {
            let mut command = command(profile);
            command.args(["--log-level", "warn"]).env_remove("TESTBED_TELLS");
            let records = live(command, framing, &frame(framing, text)).records("text");
            assert_eq!(severities(&records), [*severity], "{profile} {text}: {records:?}");
        }
    }
    // Bytes outside of frames, in the framings that can detect them.
    for (profile, bytes) in [("editor", "stray\r\n\r\n"), ("desktop", "stray")] {
        let life = live(
            rpc(&["--profile", profile, "--log-level", "warn"]),
            framing_of(profile),
            bytes.as_bytes(),
        );
        let records = life.records("text");
        assert_eq!(severities(&records), ["warn"], "{profile}: {records:?}");
    }
}

/// A server may ignore notifications that begin with `$/`; requests of that kind must be answered.
#[test]
fn m10_an_ignorable_unknown_notification_is_logged_at_debug() {
    let rows = [
        (notification("$/setTrace", r#"{"value":"off"}"#), "debug"),
        (notification("$setTrace", "[]"), "warn"),
        (request(1, "$/setTrace", "[]"), "warn"),
    ];
    for (text, severity) in &rows {
        let records = daemon("editor", &["--log-level", "debug"], &[text]).records("text");
        let about = records.iter().filter(|record| record.message.contains("unknown method"));
        let about: Vec<_> = about.map(|record| record.severity.as_str()).collect();
        assert_eq!(about, [*severity], "{text}: {records:?}");
    }
}

#[test]
fn g5_traffic_is_logged_at_debug_and_in_the_desktop_profile_at_info() {
    for (profile, format) in pairs(PROFILES, FORMATS) {
        let text = request(7, "version", "[]");
        let options = ["--log-level", "debug", "--log-format", format];
        let records = daemon(profile, &options, &[&text]).records(format);
        let traffic = if profile == "desktop" { "info" } else { "debug" };
        let about: Vec<_> =
            records.iter().filter(|record| record.id.as_deref() == Some("7")).collect();
        assert_eq!(about.len(), 2, "a request and a response: {records:?}");
        for record in about {
            assert_eq!(record.method.as_deref(), Some("version"));
            assert_eq!(record.severity, traffic, "{profile}");
        }
        // There are also records for the frame, the start and the end.
        let others = records.iter().filter(|record| record.id.is_none());
        let others: Vec<_> = others.map(|record| record.severity.as_str()).collect();
        assert_eq!(others, ["info", "debug", "info"], "{records:?}");
    }
}

#[test]
fn g6_a_panic_is_logged_with_its_location_and_without_its_message() {
    for (profile, format) in pairs(PROFILES, FORMATS) {
        let mut command = command(profile);
        command.args(["--log-format", format, "--log-level", "debug"]);
        command.env_remove("TESTBED_TELLS").env("RUST_BACKTRACE", "full");
        let framing = framing_of(profile);
        let texts = [1, 2, 3].map(|id| request(id, "test.panic", "[]"));
        let input = texts.each_ref().map(|text| frame(framing, text)).concat();
        let life = live(command, framing, &input);
        let records = life.records(format);
        let errors: Vec<_> = records.iter().filter(|record| record.severity == "error").collect();
        assert_eq!(errors.len(), 3, "{records:?}");
        for error in errors {
            assert!(error.message.contains("testbed.rs:"), "{error:?}");
            assert_eq!(error.method.as_deref(), Some("test.panic"));
            assert!(error.id.is_some(), "{error:?}");
        }
        let log = String::from_utf8_lossy(&life.stderr);
        assert!(!log.contains("must not show") && !log.contains("backtrace"), "{log}");
        let is_internal = |answer: &Value| answer["error"]["message"] == "Internal error";
        assert!(life.end.answers.iter().all(is_internal));
    }
}

/// The level can change while a client follows the log over its connection. The events hold the same records
/// as the file.
#[test]
fn g3_events_contain_the_same_records_as_the_log() {
    for profile in ["desktop", "agent"] {
        let folder = Folder::new();
        let path = folder.path("log");
        let mut command = rpc(&["--profile", profile, "--log-format", "json"]);
        command.env("DUET_RPC_LOG", &path);
        let life = live_with(command, framing_of(profile), |daemon: &mut Daemon| {
            daemon.ask(1, "events.subscribe", r#"{"topics":["log"]}"#);
            daemon.request(2, "unknown", "[]");
            daemon.request(3, "setLogLevel", "[\"error\"]");
            daemon.request(4, "unknown", "[]");
        });
        let log = std::fs::read_to_string(&path).expect("the file exists");
        let events = life.end.answers.iter().filter(|message| message["method"] == "event");
        let mut count = 0;
        for event in events {
            assert_eq!(event["params"]["topic"], "log");
            let is_it = |line: &str| {
                serde_json::from_str::<Value>(line).expect("JSON") == event["params"]["data"]
            };
            assert!(log.lines().any(is_it), "{event} is not in the log: {log}");
            count += 1;
        }
        assert!(count >= 1, "{log}");
    }
}
