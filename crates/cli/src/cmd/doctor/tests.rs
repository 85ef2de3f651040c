//! What needs no process: how answers are compared, and how the table is made.

use std::time::Duration;

use serde_json::{Value, from_str};

use super::apart::is_version;
use super::child::Combination;
use super::logs::{is_json_record, is_timestamp};
use super::probes::{PROBES, compare};
use super::report::{Check, Finding, Note, Outcome, Verdict, render, shown};
use super::{PROFILES, combinations};
use crate::args::ProfileName;

#[test]
fn each_combination_is_there_once() {
    let all: Vec<_> = combinations().collect();
    assert_eq!(all.len(), 18);
    for it in &all {
        assert_eq!(all.iter().filter(|other| *other == it).count(), 1, "{it:?}");
    }
    assert!(PROFILES.map(Combination::own).iter().all(|own| all.contains(own)));
}

/// An answer that is as it should be for all that is known of it.
const GOOD: [(&str, &str); 3] = [
    ("unknown method", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}"#),
    (
        "first answer",
        r#"{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"duet-rpc","version":"1.2.3"},"protocolVersion":"2.0","more":1}}"#,
    ),
    (
        "batch",
        r#"[{"jsonrpc":"2.0","id":"b","error":{"code":-32601}},{"jsonrpc":"2.0","id":"a","result":{"version":"1.2.3"}}]"#,
    ),
];

#[test]
fn answers_are_compared_part_by_part() {
    for (name, answer) in GOOD {
        check(name, answer, None);
    }
    let [(unknown, error), (first, initialized), (batch, entries)] = GOOD;
    for (name, answer, place) in [
        (unknown, error.replace("2.0", "1.0"), "what came is no answer"),
        (unknown, error.replace(r#""id":1,"#, ""), "what came is no answer"),
        (unknown, error.replace(r#""id":1,"#, r#""id":1,"result":2,"#), "what came is no answer"),
        (unknown, "7".to_owned(), "what came is no answer"),
        (unknown, error.replace("error", "result"), "another answer"),
        (unknown, error.replace("-32601", "-32600"), "another answer in error.code"),
        (
            first,
            initialized.replace("1.2.3", "1.2.4"),
            "another answer in result.serverInfo.version",
        ),
        (
            first,
            initialized.replace("duet-rpc", "solo"),
            "another answer in result.serverInfo.name",
        ),
        (first, initialized.replace("protocol", ""), "another answer in result"),
        (batch, entries.replace("1.2.3", "2"), "another answer in 0.result.version"),
        (batch, entries.replace(r#"{"version":"1.2.3"}"#, "null"), "another answer in 0.result"),
        (batch, "[]".to_owned(), "another answer"),
        (batch, error.to_owned(), "another answer"),
    ] {
        check(name, &answer, Some(place));
    }
}

#[track_caller]
fn check(name: &str, answer: &str, why: Option<&str>) {
    let probe = PROBES.iter().find(|probe| probe.name == name).expect("there is such a probe");
    let answer: Value = from_str(answer).expect("JSON");
    let found = probe.compare(&answer, ProfileName::Agent, Some("1.2.3")).err();
    let found = found.map(|finding| finding.why);
    match (&found, why) {
        (Some(found), Some(why)) => assert!(found.starts_with(why), "{found}: {answer}"),
        _ => assert_eq!(found.as_deref(), why, "{answer}"),
    }
}

#[test]
fn every_expectation_is_json() {
    for probe in PROBES {
        let expected = probe.expected(Some("1.2.3"));
        assert!(expected.starts_with("the methods") || from_str::<Value>(&expected).is_ok());
    }
    assert!(compare(&Value::Null, "{}", None).is_err());
}

#[test]
fn methods_are_compared_by_name() {
    let six =
        ["initialize", "listMethods", "describeMethods", "version", "setLogLevel", "shutdown"];
    let probe = PROBES.iter().find(|probe| probe.name == "listMethods").expect("it is there");
    let why = |names: &[&str], description: &str| {
        let entries: Vec<_> = names
            .iter()
            .map(|name| format!(r#"{{"name":"{name}","description":"{description}"}}"#))
            .collect();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":[{}]}}"#, entries.join(","));
        let answer = from_str(&answer).expect("JSON");
        probe.compare(&answer, ProfileName::Editor, None).map_err(|finding| finding.why)
    };
    assert_eq!(why(&six, "d"), Ok(()));
    assert_eq!(why(&six, ""), Err("a method has no description".to_owned()));
    assert_eq!(why(&six[1..], "d"), Err("methods are missing".to_owned()));
    for more in ["system.ping", "version"] {
        let seven = [&six[..], &[more]].concat();
        assert_eq!(why(&seven, "d"), Err("there are too many methods".to_owned()));
    }
}

#[test]
fn what_others_wrote_is_made_fit_to_show() {
    for (text, expect) in [
        ("plain \"text\"", "plain \"text\""),
        ("\x1b[31mred\r\n\0", "\\u{1b}[31mred\\r\\n\\0"),
        ("a\u{202e}b\u{85}c", "a\\u{202e}b\\u{85}c"),
        ("at /home/me/x.rs, sink=/tmp/log 1/2", "at PATH, sink=PATH 1/2"),
        (
            r#"{"path":"/home/me","method":"$/cancelRequest"}"#,
            r#"{"path":"PATH","method":"$/cancelRequest"}"#,
        ),
    ] {
        assert_eq!(shown(text), expect);
    }
    let long = shown(&"é".repeat(81));
    assert_eq!((long.chars().count(), long.ends_with("é…")), (80, true));
    assert_eq!(shown(&"é".repeat(80)), "é".repeat(80));
}

#[test]
fn versions_and_times_are_told_from_others() {
    for text in ["0.1.0", "10.20.30", "1.0.0-rc.1", "1.0.0-x+y.z"] {
        assert!(is_version(text), "{text}");
    }
    for text in
        ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.03", "1.2.x", "1.2.3-", "1.2.3 x", "1..3"]
    {
        assert!(!is_version(text), "{text}");
    }
    for text in ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z"] {
        assert!(is_timestamp(text), "{text}");
    }
    for text in [
        "",
        "now",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05x1Z",
    ] {
        assert!(!is_timestamp(text), "{text}");
    }
    let record =
        r#"{"timestamp":"2026-01-02T03:04:05.678Z","severity":"info","message":"m","id":7}"#;
    assert!(is_json_record(record));
    for (good, bad) in [("info", "INFO"), ("message", "text"), ("05.678Z", "05"), ("{", "[{")] {
        assert!(!is_json_record(&record.replace(good, bad)), "{bad}");
    }
}

#[test]
fn the_table_groups_what_passed_and_shows_what_failed() {
    let outcome = |framing, step, verdict| Outcome {
        check: Check::Ends,
        profile: "editor",
        framing,
        step,
        verdict,
    };
    let took = |milliseconds| Verdict::Passed(Note::Took(Duration::from_millis(milliseconds)));
    let failed = || Verdict::Failed(Finding::new("it still runs").sent("a|b").saw("c"));
    let outcomes = [
        outcome("lsp", "SIGTERM", took(2)),
        outcome("length", "SIGTERM", failed()),
        outcome("ndjson", "SIGTERM", took(30)),
        outcome("auto (length)", "SIGTERM", failed()),
        outcome("lsp", "SIGHUP", Verdict::NotMade),
    ];
    let expect = "\
| check | profile | framing               | result   | detail |
| ----- | ------- | --------------------- | -------- | ------ |
| ends  | editor  | lsp, ndjson           | ok       | SIGTERM 30 ms |
| ends  | editor  | length, auto (length) | FAILED: SIGTERM: it still runs | sent a\\|b; saw c |
| ends  | editor  | lsp                   | not made | something above failed first, or took too long |

2 of 5 checks FAILED, 1 could not be made
";
    assert_eq!(render(&outcomes, false), expect);
    let colored = render(&outcomes, true);
    assert!(colored.contains("| \x1b[32mok\x1b[0m       | SIGTERM 30 ms |"), "{colored}");
    assert!(colored.contains("| \x1b[31mFAILED: SIGTERM: it still runs\x1b[0m |"), "{colored}");
    assert!(render(&outcomes[..1], false).ends_with("\nall 1 checks passed\n"));
    assert!(render(&outcomes[..2], false).ends_with("\n1 of 2 checks FAILED\n"));
}
