//! Converters: logs of other tools become traces and the same logs again; exports have the members
//! that their formats require.

mod support;

use duet_rpc_trace::{
    Entry, ExportFormat, Exporter, Header, ImportFormat, Reader, Record, Writer, import,
};
use serde_json::Value;
use support::records;

fn header() -> Header {
    let mut header = Header::new("s-1");
    header.start = "2026-01-02T03:04:05.000000Z".to_owned();
    header.command = vec!["/usr/bin/my server".to_owned()];
    header
}

fn export(format: ExportFormat, records: &[Record<'_>]) -> String {
    let mut out = Vec::new();
    let mut exporter = Exporter::new(format, &mut out);
    exporter.header(&header()).expect("memory can be written");
    for record in records {
        exporter.record(record, true).expect("memory can be written");
    }
    exporter.finish().expect("memory can be written");
    String::from_utf8(out).expect("it is text")
}

/// Converts a trace file.
fn export_file(format: ExportFormat, file: &[u8]) -> String {
    let mut out = Vec::new();
    let mut exporter = Exporter::new(format, &mut out);
    let mut reader = Reader::new(file);
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        match entry {
            Entry::Header(header) => exporter.header(&header),
            Entry::Record(record) => exporter.record(&record, true),
            other => panic!("{other:?}"),
        }
        .expect("memory can be written");
    }
    exporter.finish().expect("memory can be written");
    String::from_utf8(out).expect("it is text")
}

fn import_text(format: ImportFormat, text: &str) -> Result<Vec<u8>, String> {
    let mut file = Vec::new();
    import(format, text.as_bytes(), &mut file).map_err(|error| error.to_string())?;
    Ok(file)
}

/// The records of a file, without its header.
fn read(file: &[u8]) -> (Header, Vec<Record<'static>>) {
    let mut reader = Reader::new(file);
    let Some(Entry::Header(header)) = reader.next_entry().expect("memory can be read") else {
        panic!("no header");
    };
    let mut records = Vec::new();
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        let Entry::Record(record) = entry else { panic!("{entry:?}") };
        records.push(record.into_owned());
    }
    (header, records)
}

const SESSION: &str = r#"
    0 > {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"a":[1.0,{}],"b":"x"}}
    1 ! starting
    35 < {"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}
    36 > {"jsonrpc":"2.0","method":"initialized","params":{}}
    36 > {"jsonrpc":"2.0","method":"exit"}
    40 < {"jsonrpc":"2.0","id":"a-b","method":"workspace/configuration","params":[{"section":"x"}]}
    45 > {"jsonrpc":"2.0","id":"a-b","result":[null]}
    50 > {"jsonrpc":"2.0","id":1,"method":"shutdown"}
    1055 < {"jsonrpc":"2.0","id":1,"result":null}
    1060 > {"jsonrpc":"2.0","id":2,"method":"foo"}
    1065 < {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found","data":{"m":"foo"}}}
    1070 > {"jsonrpc":"2.0","id":3,"method":"bar"}
    1075 < {"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"it (really) failed"}}
    1080 > {"jsonrpc":"2.0","id":4,"method":"never","params":{}}
    1090 < noise hello </script> "; end
    1100 > eof
    1101 . exit code=0
    1102 . end
"#;

#[test]
fn r7_a_text_trace_of_vscode_becomes_a_trace_and_the_same_text_again() {
    let text = "\
[Trace - 18:47:28] Sending request 'initialize - (0)'.
Params: {
    \"processId\": 35928,
    \"list\": [
        1.50,
        {}
    ]
}


[Info  - 18:47:29] a line of the server
[Trace - 18:47:29] Received response 'initialize - (0)' in 1035ms.
Result: {
    \"capabilities\": {}
}


[Trace - 18:47:29] Sending notification 'initialized'.
Params: {}


[Trace - 18:47:29] Sending notification 'exit'.
No parameters provided.


[Trace - 18:47:30] Received request 'window/showStatus - (90261e77-782b)'.
Params: [
    null
]


[Trace - 18:47:30] Sending response 'window/showStatus - (90261e77-782b)'. Processing request took 25ms
No result returned.


[Trace - 23:59:59] Sending request 'shutdown - (1)'.
[Trace - 00:00:01] Received response 'shutdown - (1)' in 2000ms. Request failed: it (really) failed (-32000).
[Trace - 00:00:01] Sending request 'foo - (2)'.
[Trace - 00:00:01] Received response 'foo - (2)' in 0ms. Request failed: no (-32601).
Error data: \"x\"


[Trace - 00:00:02] Received response 9 without active response promise.
Result: 7


";
    for text in [text.to_owned(), text.replace('\n', "\r\n")] {
        let file = import_text(ImportFormat::Vscode, &text).expect("it is a log");
        let again = export_file(ExportFormat::Vscode, &file);
        assert_eq!(again, text.replace("\r\n", "\n"));
        let (header, records) = read(&file);
        assert_eq!(header.start, "1970-01-01T18:47:28.000000Z");
        let answer = &records[2];
        assert_eq!((answer.of, answer.took, answer.at), (Some(1), Some(1_035_000), 1_035_000));
        assert_eq!(answer.method.as_deref(), Some("initialize"));
        assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at), "{records:#?}");
    }
    let twelve = "[Trace - 4:21:27 PM] Sending notification 'a'.\n[Trace - 4:21:28 p.m. PM] Sending notification 'b'.\n";
    let (header, records) = read(&import_text(ImportFormat::Vscode, twelve).expect("a log"));
    assert_eq!((&*header.start, records[1].at), ("1970-01-01T16:21:27.000000Z", 1_000_000));
}

#[test]
fn r7_lines_of_the_lsp_inspector_become_a_trace_and_the_same_lines_again() {
    let lines = concat!(
        r#"{"isLSPMessage":true,"type":"send-request","message":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"n":1.0}},"timestamp":1534721620392}"#,
        "\r\n",
        r#"{"isLSPMessage":true,"type":"receive-response","message":{"jsonrpc":"2.0","id":0,"result":{}},"timestamp":1534721620399}"#,
        "\r\n",
        r#"{"isLSPMessage":true,"type":"send-notification","message":{"jsonrpc":"2.0","method":"initialized","params":{}},"timestamp":1534721620400}"#,
        "\r\n",
        r#"{"isLSPMessage":true,"type":"receive-request","message":{"jsonrpc":"2.0","id":"x","method":"a"},"timestamp":1534721620400}"#,
        "\r\n",
        r#"{"isLSPMessage":true,"type":"send-response","message":{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}},"timestamp":1534721620401}"#,
        "\r\n",
        r#"{"isLSPMessage":true,"type":"receive-notification","message":{"jsonrpc":"2.0","method":"b"},"timestamp":1534721620401}"#,
        "\r\n",
    );
    for text in [
        lines.to_owned(),
        lines.replace("\r\n", "\n\n"),
        lines.replace("{\"isLSPMessage\":true,", "[LSP   - 4:21:27 PM] {"),
    ] {
        let file = import_text(ImportFormat::LspInspector, &text).expect("it is a log");
        assert_eq!(export_file(ExportFormat::LspInspector, &file), lines);
        let (header, records) = read(&file);
        assert_eq!(header.start, "2018-08-19T23:33:40.392000Z");
        assert_eq!((records[1].of, records[1].took), (Some(1), Some(7_000)));
    }
}

#[test]
fn r7_a_trace_survives_the_way_through_both_text_formats() {
    let records = records(SESSION);
    let messages = |file: &[u8]| -> Vec<(String, String)> {
        let (_, records) = read(file);
        let records = records.into_iter().filter(|record| record.kind.is_message());
        let message =
            |it: Record<'_>| (it.dir.name().to_owned(), it.json().unwrap_or("").to_owned());
        records.map(message).collect()
    };
    let mut writer = Writer::new(Vec::new());
    writer.header(&header()).expect("memory can be written");
    for record in &records {
        writer.record(record).expect("memory can be written");
    }
    let original = messages(&writer.into_inner());
    for (to, from) in [
        (ExportFormat::LspInspector, ImportFormat::LspInspector),
        (ExportFormat::Vscode, ImportFormat::Vscode),
    ] {
        let file = import_text(from, &export(to, &records)).expect("our own export");
        assert_eq!(messages(&file), original, "{to:?}");
    }
}

#[test]
fn r7_session_logs_of_mcpsnoop_become_traces() {
    let log = r#"{"session_id":"s-1","server_label":"x","seq":1,"ts":"2026-01-02T04:04:05.000001234+01:00","direction":"meta","transport":"stdio","raw":{"command":["python3","s.py"],"cwd":"/app"}}
{"session_id":"s-1","server_label":"x","seq":2,"ts":"2026-01-02T03:04:05.5Z","direction":"c2s","transport":"stdio","raw":{"jsonrpc":"2.0","id":1,"method":"ping"}}
{"session_id":"s-1","server_label":"x","seq":3,"ts":"2026-01-02T03:04:05.6Z","direction":"stderr","transport":"stdio","text":"hello"}
{"session_id":"s-1","server_label":"x","seq":4,"ts":"2026-01-02T03:04:05.7Z","direction":"s2c","transport":"stdio","text":"print"}
{"session_id":"s-1","server_label":"x","seq":5,"ts":"2026-01-02T03:04:05.75Z","direction":"s2c","transport":"stdio","raw":{"jsonrpc":"2.0","id":1,"result":{}}}
"#;
    let (header, records) = read(&import_text(ImportFormat::Mcpsnoop, log).expect("it is a log"));
    assert_eq!(header.command, ["python3", "s.py"]);
    assert_eq!((&*header.session, header.cwd.as_deref()), ("s-1", Some("/app")));
    let shown: Vec<_> = records
        .iter()
        .map(|it| format!("{} {} {} {:?}", it.at, it.dir.name(), it.kind.name(), it.took))
        .collect();
    let expected = [
        "499999 c2s request None",
        "599999 err stderr None",
        "699999 s2c noise None",
        "749999 s2c response Some(250000)",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn r7_a_bad_log_names_the_line() {
    for (format, text, message) in [
        (ImportFormat::Vscode, "", "no message of this format found"),
        (
            ImportFormat::Vscode,
            "\n[Trace - 1:02:03] Sending notification 'a'.\nParams: {\n    \"a\": \n}\n",
            "line 5: not JSON: expected value (column 1)",
        ),
        (
            ImportFormat::Vscode,
            "[Trace - 1:02:03] Sending notification 'a'.\nParams: {\n    \"a\": 1\n",
            "line 3: not JSON: EOF while parsing an object (column 10)",
        ),
        (
            ImportFormat::LspInspector,
            "hello\n",
            "line 1: expected an object with type, message and timestamp: EOF while parsing a value (column 0)",
        ),
        (
            ImportFormat::LspInspector,
            "\n{\"type\":\"send-x\",\"message\":{}}\n",
            "line 2: expected an object with type, message and timestamp: missing field `timestamp` (column 30)",
        ),
        (
            ImportFormat::LspInspector,
            "{\"type\":\"x\",\"message\":{},\"timestamp\":1}\n",
            "line 1: unknown type \"x\"",
        ),
        (
            ImportFormat::LspInspector,
            "{\"type\":\"send-x\",\"message\":{},\"timestamp\":-1}\n",
            "line 1: the timestamp is not in milliseconds since 1970",
        ),
        (
            ImportFormat::Mcpsnoop,
            "{\"ts\":\"now\",\"direction\":\"c2s\"}\n",
            "line 1: \"now\" is not a time",
        ),
        (
            ImportFormat::Mcpsnoop,
            "{}\n",
            "line 1: expected an object with ts and direction: missing field `ts` (column 2)",
        ),
    ] {
        assert_eq!(import_text(format, text), Err(message.to_owned()), "{text}");
    }
}

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
    C-->>S: workspace/configuration (#34;a-b#34;) 5.0 ms
    C->>S: shutdown (1)
    S-->>C: shutdown (1) 1.00 s
    C->>S: foo (2)
    S--xC: foo (2) error -32601 Method not found 5.0 ms
    C->>S: bar (3)
    S--xC: bar (3) error -32000 it (really) failed 5.0 ms
    C->>S: never (4)
    Note right of S: noise hello #60;/script#62; #34;#59; end
    Note left of C: EOF
    Note right of S: exit 0
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
