//! Any input is read without a panic: traces with wrong members, and logs that are not logs.

use std::sync::Arc;

use duet_rpc_proto::frame::Framing;
use duet_rpc_trace::{
    Action, CheckOptions, Checker, DiffOptions, Dir, Entry, ExportFormat, Exporter, FactsTable,
    Filter, ImportFormat, Mock, MockOptions, OnMiss, Options, Protocol, Reader, Record, Redactions,
    Replay, ReplayOptions, Script, Session, Stats, Writer, diff, import,
};
use proptest::prelude::*;

/// Lines that are records, almost records, and other text.
fn line() -> impl Strategy<Value = String> {
    let dir = prop::sample::select(vec!["c2s", "s2c", "err", "tap", "up"]);
    let kind = prop::sample::select(vec![
        "request",
        "notification",
        "response",
        "error",
        "batch",
        "invalid",
        "broken",
        "noise",
        "more",
        "stderr",
        "loss",
        "eof",
        "signal",
        "exit",
        "end",
        "other",
    ]);
    let body = prop::sample::select(vec![
        r#""msg":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"token":"a","_meta":{"progressToken":1}}}"#,
        r#""msg":{"id":1,"result":{"protocolVersion":"2025-06-18"}}"#,
        r#""msg":{"id":"1","error":{"code":-32601,"message":"\u0000\n"}}"#,
        r#""msg":{"id":1,"error":7}"#,
        r#""msg":{"method":"$/cancelRequest","params":{"id":1}}"#,
        r#""msg":{"method":"notifications/cancelled","params":[1]}"#,
        r#""msg":{"method":7,"id":{}}"#,
        r#""msg":[{"id":1,"method":"a"},7,{"id":1,"result":1e400}]"#,
        r#""msg":null"#,
        r#""text":"{\"id\":1,\"method\":\"ü\"}""#,
        r#""text":"Content-Length""#,
        r#""text":"","cut":true"#,
        r#""b64":"/wA=""#,
        r#""code":1,"signal":9,"left":2,"lost":7,"lossless":true"#,
    ]);
    let time = prop_oneof![0..5_u64, Just(u64::MAX)];
    let record = (dir, kind, body, time.clone(), time).prop_map(|(dir, kind, body, at, took)| {
        format!(r#"{{"seq":{at},"at":{at},"dir":"{dir}","kind":"{kind}","id":1,"took":{took},"size":{took},{body}}}"#)
    });
    prop_oneof![8 => record, 1 => Just(r#"{"duet":1,"start":"x"}"#.to_owned()), 1 => "\\PC{0,20}"]
}

proptest! {
    #[test]
    fn y7_k6_any_trace_is_played_without_a_panic(lines in prop::collection::vec(line(), 0..16)) {
        let file = lines.join("\n") + "\n";
        let (mut script, mut messages) = (Script::new(), Vec::new());
        let mut reader = Reader::new(file.as_bytes());
        while let Some(entry) = reader.next_entry().expect("memory can be read") {
            if let Entry::Record(record) = entry {
                script.handle(&record);
                messages.extend(record.json().map(str::to_owned));
            }
        }
        // Only JSON comes from a decoder.
        messages.retain(|json| serde_json::from_str::<serde_json::Value>(json).is_ok());
        let script = Arc::new(script);
        let mut replay = Replay::new(Arc::clone(&script), ReplayOptions::default());
        let (mut now, mut rest) = (0, messages.iter());
        for steps in 0.. {
            prop_assert!(steps < 1_000);
            match replay.poll(now) {
                Action::Finished(_) => break,
                Action::Send(_) => {}
                Action::Wait(until) => match rest.next() {
                    Some(json) => drop(replay.handle_message(now, json)),
                    None => now = until,
                },
            }
        }
        for on_miss in [OnMiss::Error, OnMiss::Nearest, OnMiss::Pass] {
            let mut options = MockOptions::default();
            options.on_miss = on_miss;
            let mut mock = Mock::new(Arc::clone(&script), options);
            for json in &messages {
                mock.handle_message(json);
                mock.handle_passed(json);
                while mock.poll().is_some() {}
            }
            mock.handle_lost_server();
        }
    }

    #[test]
    fn r3_any_trace_is_read_without_a_panic(lines in prop::collection::vec(line(), 0..12)) {
        let file = lines.join("\n") + "\n";
        let formats = [
            ExportFormat::LspInspector, ExportFormat::Vscode, ExportFormat::Har,
            ExportFormat::Otlp, ExportFormat::Mermaid, ExportFormat::Chrome,
        ];
        let mut outputs = formats.map(|_| Vec::new());
        let exporters = formats.into_iter().zip(&mut outputs);
        let mut exporters: Vec<_> = exporters.map(|(it, out)| (it, Exporter::new(it, out))).collect();
        let mut checkers: Vec<_> = [None, Some(Protocol::Lsp), Some(Protocol::Mcp)].map(|protocol| {
            let mut options = CheckOptions::default();
            (options.protocol, options.slow) = (protocol, Some(1));
            Checker::new(options)
        }).into();
        let (mut stats, mut table) = (Stats::new(), FactsTable::new(1));
        let filter = Filter::parse("(took:>1s | is:late|noise) text:a id:1").expect("well-formed");
        let mut rules = Redactions::default();
        rules.add("token").expect("a name");
        rules.add_value("[a-z]").expect("an expression");
        let mut reader = Reader::new(file.as_bytes());
        while let Some(entry) = reader.next_entry().expect("memory can be read") {
            let Entry::Record(mut record) = entry else { continue };
            checkers.iter_mut().for_each(|checker| checker.handle(&record, 1));
            stats.handle(&record, true);
            for (_, exporter) in &mut exporters {
                exporter.record(&record, true).expect("memory can be written");
            }
            table.handle(&mut record);
            filter.matches(&record, &table.get(record.seq));
            rules.apply_record(&mut record);
        }
        checkers.into_iter().for_each(|checker| drop(checker.finish()));
        stats.finish();
        table.finish();
        for (_, exporter) in exporters {
            exporter.finish().expect("memory can be written");
        }
        let [_, _, har, otlp, _, chrome] = &outputs;
        for json in [har, otlp, chrome] {
            let value = serde_json::from_slice::<serde_json::Value>(json);
            prop_assert!(value.is_ok(), "{:?}: {}", value, String::from_utf8_lossy(json));
        }
        let file = || std::io::Cursor::new(file.as_bytes());
        for is_unordered in [false, true] {
            let mut options = DiffOptions::default();
            options.is_unordered = is_unordered;
            // A trace is the same as itself.
            let mut is_same = true;
            let compared = diff(file(), file(), &options, |difference| {
                is_same &= matches!(difference, duet_rpc_trace::Difference::Same(_));
            });
            prop_assert!(compared.is_err() || is_same);
        }
    }

    #[test]
    fn r7_any_text_is_a_log_or_an_error(
        lines in prop::collection::vec(prop_oneof![
            "\\[Trace - [0-9]{1,2}:[0-9]{2}:[0-9]{2}( PM)?\\] (Sending|Received) (request|response|notification) ('a( - \\(1\\))?'|7)[ .]*(in 9999999999999ms)?",
            "(Params|Result|Error data): [{\\[\"0-9]?[}\\]\"]?",
            "[ }\\]]{0,2}",
            "\\{\"type\":\"send-x\",\"message\":[{}1]{0,2},\"timestamp\":[0-9]{1,20}\\}",
            "\\{\"ts\":\"2026-01-0[0-9]T0[0-9]:00:00Z\",\"direction\":\"(c2s|meta|stderr)\",\"raw\":[{}1]{0,2}\\}",
            "\\PC{0,20}",
        ], 0..12)
    ) {
        for format in [ImportFormat::LspInspector, ImportFormat::Vscode, ImportFormat::Mcpsnoop] {
            let mut file = Vec::new();
            if import(format, lines.join("\n").as_bytes(), &mut file).is_ok() {
                let mut reader = Reader::new(&file[..]);
                while let Some(entry) = reader.next_entry().expect("memory can be read") {
                    prop_assert!(!matches!(entry, Entry::Bad(_)), "{:?}", entry);
                }
            }
        }
    }
}

/// Bytes outside of frames have no line ends in this framing, so a secret may be cut by two reads.
#[test]
fn w8_secret_that_is_cut_by_two_reads_is_not_in_the_file() {
    for framing in [Framing::Length, Framing::Lsp, Framing::Ndjson] {
        let noise = b"start sk-12345 end\nmore sk-67890";
        for cut in 1..noise.len() {
            let mut options = Options::default();
            options.framing = Some(framing);
            options.redact.add_value("sk-[0-9]{5}").expect("an expression");
            let mut writer = Writer::new(Vec::new());
            let sink = |record: &Record<'_>| {
                writer.record(record).expect("memory can be written");
            };
            let mut session = Session::new(options, sink);
            session.handle_bytes(Dir::S2c, 1, &noise[..cut]);
            session.handle_bytes(Dir::S2c, 2, &noise[cut..]);
            let _ = session.handle_end(3);
            let file = String::from_utf8(writer.into_inner()).expect("text");
            for part in ["123", "345", "678", "890"] {
                assert!(!file.contains(part), "{framing:?} {cut}: {file}");
            }
        }
    }
}
