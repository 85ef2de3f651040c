//! Tests of records as lines.

use duet_rpc::proto::message::Id;
use serde_json::{Value, json};

use super::{LogFormat, LoggedId, Record, Style, push_field};
use crate::logging::Level;

fn record(method: Option<&str>, id: Option<&str>) -> Record {
    let id = id.map(|raw| LoggedId::from_display(&Id::from_raw(raw).expect("an id").to_string()));
    Record { method: method.map(str::to_owned), id, ..Record::plain(Level::Info, "hello".into()) }
}

/// The line without its timestamp.
fn text(record: &Record) -> String {
    let line = record.to_line(Style { format: LogFormat::Text, in_color: false });
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
    line.split_once(' ').expect("a time").1.trim_end_matches('\n').to_owned()
}

fn json(record: &Record) -> Value {
    let line = record.to_line(Style { format: LogFormat::Json, in_color: true });
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1, "{line:?}");
    serde_json::from_str(&line).expect("JSON")
}

#[test]
fn g3_text_shows_method_and_id() {
    let rows = [
        (None, None, "INFO  hello"),
        (Some("version"), Some("7"), "INFO  hello method=version id=7"),
        (Some("version"), Some("\"7\""), "INFO  hello method=version id=\"7\""),
        (Some("version"), Some("null"), "INFO  hello method=version id=null"),
        (None, Some("1.0"), "INFO  hello id=1.0"),
        (Some(""), None, "INFO  hello method=\"\""),
        (Some("a b"), None, "INFO  hello method=\"a b\""),
        (Some("a=b"), None, "INFO  hello method=\"a=b\""),
        (Some("a\"b"), None, r#"INFO  hello method="a\"b""#),
        (Some("a\\b"), None, r#"INFO  hello method="a\\b""#),
        (
            Some("x\n2026-01-02T03:04:05.678Z ERROR forged"),
            None,
            r#"INFO  hello method="x\n2026-01-02T03:04:05.678Z ERROR forged""#,
        ),
        (Some("\u{1b}[31m"), None, r#"INFO  hello method="\u{1b}[31m""#),
        (Some("\u{2028}\u{202e}"), None, r#"INFO  hello method="\u{2028}\u{202e}""#),
        (Some("é😀"), Some("\"é\""), "INFO  hello method=é😀 id=\"é\""),
        (None, Some(r#""a\"b c=d\n""#), r#"INFO  hello id="a\"b c=d\n""#),
    ];
    for (method, id, expect) in rows {
        assert_eq!(text(&record(method, id)), expect);
    }
}

#[test]
fn g3_json_has_exactly_the_specified_members_and_the_id_unchanged() {
    for id in ["7", "\"7\"", "null", "1.0", "-0", "1e3", "18446744073709551616", r#""a\n\u00e9""#] {
        let line =
            record(Some("m"), Some(id)).to_line(Style { format: LogFormat::Json, in_color: false });
        assert!(line.ends_with(&format!(",\"method\":\"m\",\"id\":{id}}}\n")), "{line}");
    }
    let value = json(&record(Some("a\nb\u{7f}"), None));
    let names: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(names, ["message", "method", "severity", "timestamp"]);
    assert_eq!((&value["severity"], &value["method"]), (&json!("info"), &json!("a\nb\u{7f}")));
    assert_eq!(json(&record(None, None)).get("id"), None);
}

#[test]
fn g3_g6_long_methods_and_ids_are_cut() {
    let method = "é".repeat(200);
    let value = json(&record(Some(&method), None));
    assert_eq!(value["method"], json!("é".repeat(128)));
    assert_eq!(
        text(&record(Some(&method), None)),
        format!("INFO  hello method={}", "é".repeat(128))
    );

    let digits = "1".repeat(64);
    assert_eq!(text(&record(None, Some(&digits))), format!("INFO  hello id={digits}"));
    let line = record(None, Some(&digits)).to_json();
    assert!(line.ends_with(&format!("\"id\":{digits}}}")), "{line}");
    let long = "1".repeat(65);
    assert_eq!(text(&record(None, Some(&long))), format!("INFO  hello id={digits}"));
    assert_eq!(json(&record(None, Some(&long)))["id"], json!(digits));

    let letters = |count| format!("\"{}\"", "é".repeat(count));
    assert_eq!(json(&record(None, Some(&letters(64))))["id"], json!("é".repeat(64)));
    assert_eq!(json(&record(None, Some(&letters(65))))["id"], json!("é".repeat(64)));
    let expect = format!("INFO  hello id=\"{}\"", "é".repeat(64));
    assert_eq!(text(&record(None, Some(&letters(1000)))), expect);
}

#[test]
fn g3_text_that_is_not_an_id_becomes_a_string() {
    let half = r#""\ud800""#;
    for shown in ["two words", "{}", "[1]", "true", "1,\"x\":2", "", "\"a\nb\"", "\"a\" id=7", half]
    {
        let record = Record { id: Some(LoggedId::from_display(shown)), ..record(None, None) };
        assert_eq!(json(&record)["id"], json!(shown));
    }
}

#[test]
fn g6_messages_stay_on_one_line() {
    let mut message = "it broke".to_owned();
    push_field(&mut message, "error", &"a\nb\u{9b} = \"c\"");
    push_field(&mut message, "bytes", &7);
    assert_eq!(message, r#"it broke error="a\nb\u{9b} = \"c\"" bytes=7"#);
    let raw = Record::plain(Level::Error, "a\r\nb\u{1b}".into());
    assert_eq!(text(&raw), r"ERROR a\r\nb\u{1b}");
    assert_eq!(json(&raw)["message"], json!("a\r\nb\u{1b}"));
}

#[test]
fn c2_only_the_severity_is_coloured() {
    let style = Style { format: LogFormat::Text, in_color: true };
    let line = record(None, None).to_line(style);
    assert!(line.contains(" \u{1b}[32mINFO \u{1b}[0m hello"), "{line:?}");
}
