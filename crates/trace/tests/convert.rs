//! Converters: logs of other tools become traces, and the same logs again.

#[path = "support/export.rs"]
mod export;
mod support;

use duet_rpc_trace::{
    Entry, ExportFormat, Exporter, Header, ImportFormat, Reader, Record, Writer, import,
};
use export::{SESSION, export, header};
use support::records;

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

#[test]
fn r7_messages_of_the_lsp_inspector_keep_their_spaces() {
    let message = r#"{ "jsonrpc":"2.0", "id" : 1,"method":"a",  "params":[ 1.0 ]}"#;
    let log = format!(r#"{{"type":"send-request","message":{message},"timestamp":1514503287700}}"#);
    let (_, records) = read(&import_text(ImportFormat::LspInspector, &log).expect("it is a log"));
    assert_eq!(records[0].json(), Some(message));
}

/// Not all white space of Unicode is white space of JSON.
#[test]
fn r7_white_space_after_a_value_of_vscode_is_left_out() {
    let log =
        "[Trace - 4:21:27 PM] Sending request 'a - (0)'.\nParams: {\n    \"b\": 0\n}\u{b}\n\n";
    let (_, records) = read(&import_text(ImportFormat::Vscode, log).expect("it is a log"));
    assert_eq!(
        records[0].json(),
        Some(r#"{"jsonrpc":"2.0","id":0,"method":"a","params":{"b":0}}"#)
    );
}
