//! Exports have the members that their formats require.

#[path = "support/export.rs"]
mod session;
mod support;

use duet_rpc_trace::{ExportFormat, Exporter};
use serde_json::Value;
use session::{SESSION, export};
use support::records;

/// A path, and a check of the value there.
type Member = (&'static str, fn(&Value) -> bool);

/// Asserts that a value has members of these types.
fn has(value: &Value, members: &[Member]) {
    for (path, is_right) in members {
        let found = value.pointer(path);
        assert!(found.is_some_and(is_right), "{path} in {value:#}");
    }
}

#[test]
fn r8_har_has_every_member_that_version_1_2_requires() {
    let text = export(ExportFormat::Har, &records(SESSION));
    let har: Value = serde_json::from_str(&text).expect("it is JSON");
    let log = &har["log"];
    has(log, &[("/version", |it| it == "1.2"), ("/creator/name", Value::is_string)]);
    has(log, &[("/creator/version", Value::is_string), ("/entries", Value::is_array)]);
    let is_count: fn(&Value) -> bool = |it| it.as_f64().is_some_and(|it| it >= 0.0);
    let is_size: fn(&Value) -> bool = |it| it.as_i64().is_some_and(|it| it >= -1);
    let entries = log["entries"].as_array().expect("entries");
    for entry in entries {
        has(
            entry,
            &[
                ("/startedDateTime", |it| it.as_str().is_some_and(|it| it.ends_with('Z'))),
                ("/time", is_count),
                ("/request/method", Value::is_string),
                ("/request/url", |it| it.as_str().is_some_and(|it| it.starts_with("http://"))),
                ("/request/httpVersion", Value::is_string),
                ("/request/cookies", Value::is_array),
                ("/request/headers", Value::is_array),
                ("/request/queryString", Value::is_array),
                ("/request/postData/mimeType", Value::is_string),
                ("/request/postData/text", Value::is_string),
                ("/request/headersSize", is_size),
                ("/request/bodySize", is_size),
                ("/response/status", Value::is_u64),
                ("/response/statusText", Value::is_string),
                ("/response/httpVersion", Value::is_string),
                ("/response/cookies", Value::is_array),
                ("/response/headers", Value::is_array),
                ("/response/content/size", is_count),
                ("/response/content/mimeType", Value::is_string),
                ("/response/redirectURL", Value::is_string),
                ("/response/headersSize", is_size),
                ("/response/bodySize", is_size),
                ("/cache", Value::is_object),
                ("/timings/send", is_count),
                ("/timings/wait", is_count),
                ("/timings/receive", is_count),
            ],
        );
        let timings = &entry["timings"];
        let sum: f64 =
            ["send", "wait", "receive"].iter().filter_map(|it| timings[it].as_f64()).sum();
        assert_eq!(Some(sum), entry["time"].as_f64());
    }
    let rows: Vec<_> = entries
        .iter()
        .map(|it| {
            let url = it["request"]["url"].as_str().unwrap_or_default();
            format!("{url} {} {}", it["response"]["status"], it["time"])
        })
        .collect();
    let expected = [
        "http://my-server/initialize 200 35.0",
        "http://my-server/initialized 202 0",
        "http://my-server/exit 202 0",
        "http://client/workspace/configuration 200 5.0",
        "http://my-server/shutdown 200 1005.0",
        "http://my-server/foo 404 5.0",
        "http://my-server/bar 500 5.0",
        "http://my-server/never 0 0",
    ];
    assert_eq!(rows, expected);
    let empty: Value = serde_json::from_str(&export(ExportFormat::Har, &[])).expect("JSON");
    assert_eq!(empty["log"]["entries"], Value::Array(Vec::new()));
}

#[test]
fn r8_otlp_has_a_span_for_each_request_below_the_session() {
    let text = export(ExportFormat::Otlp, &records(SESSION));
    let otlp: Value = serde_json::from_str(&text).expect("it is JSON");
    let scope = &otlp["resourceSpans"][0]["scopeSpans"][0];
    let spans = scope["spans"].as_array().expect("spans");
    let (root, children) = spans.split_last().expect("a session");
    let is_hex = |it: &Value, length: usize| {
        let text = it.as_str().unwrap_or_default();
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut ids = std::collections::BTreeSet::new();
    for span in spans {
        assert!(is_hex(&span["traceId"], 32) && is_hex(&span["spanId"], 16), "{span}");
        assert!(ids.insert(span["spanId"].to_string()), "ids differ");
        let nanos = |name: &str| span[name].as_str().and_then(|it| it.parse::<u64>().ok());
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
        assert!(nanos("startTimeUnixNano") >= Some(1_767_323_045_000_000_000), "{span}");
    }
    assert_eq!(root["name"], "session");
    assert!(children.iter().all(|span| span["parentSpanId"] == root["spanId"]));
    let rows: Vec<_> = children
        .iter()
        .map(|it| format!("{} {} {}", it["name"], it["kind"], it["status"]["message"]))
        .collect();
    let expected = [
        "\"initialize\" 3 null",
        "\"initialized\" 4 null",
        "\"exit\" 4 null",
        "\"workspace/configuration\" 3 null",
        "\"shutdown\" 3 null",
        "\"foo\" 3 \"Method not found\"",
        "\"bar\" 3 \"it (really) failed\"",
        "\"never\" 3 \"no answer\"",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn r8_chrome_events_begin_and_end_in_pairs() {
    let text = export(ExportFormat::Chrome, &records(SESSION));
    let trace: Value = serde_json::from_str(&text).expect("it is JSON");
    let mut open = std::collections::BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        has(
            event,
            &[("/name", Value::is_string), ("/pid", Value::is_u64), ("/tid", Value::is_u64)],
        );
        let id = event["id"].to_string();
        match event["ph"].as_str() {
            Some("b") => assert_eq!(open.insert(id, event["ts"].as_u64()), None),
            Some("e") => assert!(open.remove(&id).is_some_and(|at| at <= event["ts"].as_u64())),
            Some("i") => has(event, &[("/ts", Value::is_u64), ("/s", |it| it == "p")]),
            Some("M") => has(event, &[("/args/name", Value::is_string)]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(open.len(), 0);
}

#[test]
fn r8_mermaid_shows_messages_and_escapes_their_text() {
    let expected = "\
sequenceDiagram
    participant C as client
    participant S as my server
    C->>S: initialize (0)
    S-->>C: initialize (0) 35.0 ms
    C-)S: initialized
    C-)S: exit
    S->>C: workspace/configuration (#34;a-b#34;)
    C-->>S: workspace/configuration (#34;a-b#34;) 5.00 ms
    C->>S: shutdown (1)
    S-->>C: shutdown (1) 1.01 s
    C->>S: foo (2)
    S--xC: foo (2) error -32601 Method not found 5.00 ms
    C->>S: bar (3)
    S--xC: bar (3) error -32000 it (really) failed 5.00 ms
    C->>S: never (4)
    Note right of S: noise hello #60;/script#62; #34;#59; end
    Note left of C: EOF
    Note right of S: exit 0
    Note right of S: no answer to never (4)
";
    assert_eq!(export(ExportFormat::Mermaid, &records(SESSION)), expected);
}

#[test]
fn r8_records_without_a_place_are_counted() {
    let mut exporter = Exporter::new(ExportFormat::Har, Vec::new());
    for record in records(SESSION) {
        exporter.record(&record, true).expect("memory can be written");
    }
    let omitted = exporter.finish().expect("memory can be written");
    let omitted: Vec<_> = omitted.into_iter().collect();
    assert_eq!(omitted, [("eof", 1), ("exit", 1), ("noise", 1), ("stderr", 1)]);
}
