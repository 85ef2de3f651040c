//! Traces for the tests and for the screenshots.

use std::fmt::Write;

use serde_json::{Value, json};

/// Writes a trace, record by record.
pub(crate) struct TraceText {
    text: String,
    seq: u64,
}

/// A request: its number in the trace, its time, its id and its method.
type Asked<'a> = (u64, u64, u64, &'a str);

/// The server that the traces name.
const COMMAND: [&str; 2] = ["/usr/bin/clangd", "--background-index"];

impl TraceText {
    /// A trace of a session whose recorder has this process id.
    pub(crate) fn new(session: &str, start: &str, pid: u32) -> Self {
        let header = json!({
            "duet": 1, "session": session, "start": start, "command": COMMAND,
            "cwd": "/home/ada/app", "pid": pid, "version": "duet-rpc 0.1.0",
        });
        TraceText { text: format!("{header}\n"), seq: 0 }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Adds a record, and returns its number.
    pub(crate) fn record(&mut self, at: u64, dir: &str, kind: &str, members: Value) -> u64 {
        self.seq += 1;
        let mut line = json!({"seq": self.seq, "at": at, "dir": dir, "kind": kind});
        if let (Value::Object(line), Value::Object(members)) = (&mut line, members) {
            line.extend(members);
        }
        let _ = writeln!(self.text, "{line}");
        self.seq
    }

    pub(crate) fn request(&mut self, at: u64, id: u64, method: &str, params: Value) -> u64 {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let size = message.to_string().len();
        let members =
            json!({"id": id, "method": method, "size": size, "wire": "lsp", "msg": message});
        self.record(at, "c2s", "request", members)
    }

    pub(crate) fn notification(&mut self, at: u64, dir: &str, method: &str, params: Value) -> u64 {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let size = message.to_string().len();
        let members = json!({"method": method, "size": size, "wire": "lsp", "msg": message});
        self.record(at, dir, "notification", members)
    }

    /// Answers the request `of`, with a result or an error.
    pub(crate) fn answer(&mut self, at: u64, request: Asked<'_>, answer: Value) {
        let (of, sent, id, method) = request;
        let mut message = json!({"jsonrpc": "2.0", "id": id});
        let is_error = answer.get("code").is_some();
        message[if is_error { "error" } else { "result" }] = answer;
        let members = json!({
            "id": id, "method": method, "of": of, "took": at - sent,
            "size": message.to_string().len(), "wire": "lsp", "msg": message,
        });
        self.record(at, "s2c", if is_error { "error" } else { "response" }, members);
    }

    pub(crate) fn stderr(&mut self, at: u64, line: &str) {
        let members = json!({"size": line.len(), "wire": "line", "text": line});
        self.record(at, "err", "stderr", members);
    }

    pub(crate) fn end(&mut self, at: u64) {
        self.record(at, "c2s", "eof", json!({}));
        self.record(at + 1_900, "tap", "exit", json!({"code": 0}));
        self.record(at + 2_000, "tap", "end", json!({"lossless": true}));
    }
}

/// A session with one record of most kinds. `views.mjs` knows it.
pub(crate) fn known() -> String {
    let mut trace = TraceText::new("known", "2026-01-02T03:04:05.000000Z", 0);
    let opened = trace.request(1_000, 1, "initialize", json!({"processId": 7, "rootUri": null}));
    trace.stderr(1_500, "I[03:04:05.001] starting");
    trace.answer(4_500, (opened, 1_000, 1, "initialize"), json!({"capabilities": {"hover": true}}));
    trace.notification(5_000, "c2s", "initialized", json!({}));
    let position = |line: u32| json!({"position": {"line": line, "character": 4}});
    let hover = trace.request(10_000, 2, "textDocument/hover", position(1));
    trace.answer(22_000, (hover, 10_000, 2, "textDocument/hover"), json!({"contents": "int"}));
    let again = trace.request(30_000, 3, "textDocument/hover", position(2));
    let error = json!({"code": -32801, "message": "content modified"});
    trace.answer(31_000, (again, 30_000, 3, "textDocument/hover"), error);
    let slow = trace.request(40_000, 4, "workspace/symbol", json!({"query": "it's"}));
    trace.request(50_000, 5, "textDocument/definition", position(3));
    trace.request(60_000, 6, "textDocument/rename", json!({"newName": "x"}));
    trace.notification(65_000, "c2s", "$/cancelRequest", json!({"id": 6}));
    let noise = json!({"size": 27, "text": "debug: cache miss for 0x7f\n"});
    trace.record(70_000, "s2c", "noise", noise);
    let symbols = json!([{"name": "main"}, {"name": "it's"}]);
    trace.answer(2_440_000, (slow, 40_000, 4, "workspace/symbol"), symbols);
    trace.end(2_500_000);
    trace.into_text()
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A latency with many short and few long values.
    fn latency(&mut self, usual: u64) -> u64 {
        let parts = (0..4).map(|_| 20 + self.below(100));
        let product = parts.product::<u64>();
        usual * product / (70_u64.pow(4)) + 200
    }
}

const METHODS: [(&str, u64); 6] = [
    ("textDocument/hover", 12_000),
    ("textDocument/completion", 40_000),
    ("textDocument/definition", 8_000),
    ("textDocument/semanticTokens/full", 70_000),
    ("textDocument/documentSymbol", 25_000),
    ("workspace/symbol", 90_000),
];

/// A session of this many records, with one slow request, one that is never answered, and one stray print.
pub(crate) fn long(records: u64, pid: u32, start: &str) -> String {
    let mut trace = TraceText::new("long", start, pid);
    let mut dice = Dice(7);
    let mut open: Vec<(u64, Asked<'_>)> = Vec::new();
    let (mut at, mut id) = (0, 0);
    let (slow, lost, print) = (records / 12, records / 8, records * 2 / 3);
    let mut has_printed = false;
    while trace.seq < records {
        at += 50 + dice.below(8_000);
        open.sort_by_key(|(due, _)| *due);
        while open.first().is_some_and(|(due, _)| *due <= at) {
            let (due, request) = open.remove(0);
            let range = json!({"start": {"line": dice.below(400), "character": 4}, "end": {"line": 9, "character": 8}});
            let answer = match dice.below(40) {
                0 => json!({"code": -32801, "message": "content modified"}),
                _ => {
                    json!({"contents": {"kind": "markdown", "value": "```cpp\nint main()\n```"}, "range": range})
                }
            };
            trace.answer(due, request, answer);
        }
        let uri = "file:///home/ada/app/src/main.cpp";
        match dice.below(20) {
            0..=8 => {
                id += 1;
                let (method, usual) = METHODS[dice.below(6) as usize];
                let position = json!({"line": dice.below(400), "character": dice.below(80)});
                let params = json!({"textDocument": {"uri": uri}, "position": position});
                let seq = trace.request(at, id, method, params);
                let took = if id == slow { 2_400_000 } else { dice.latency(usual) };
                if id != lost {
                    open.push((at + took, (seq, at, id, method)));
                }
            }
            9..=10 => {
                let change = json!([{"text": "x".repeat(dice.below(2_000) as usize)}]);
                let params = json!({"textDocument": {"uri": uri, "version": trace.seq}, "contentChanges": change});
                trace.notification(at, "c2s", "textDocument/didChange", params);
            }
            11 => {
                let params = json!({"uri": uri, "diagnostics": []});
                trace.notification(at, "s2c", "textDocument/publishDiagnostics", params);
            }
            12 => trace.stderr(
                at,
                &format!("I[12:00:00] ASTWorker building file {uri} version {}", trace.seq),
            ),
            _ => {}
        }
        if trace.seq > print && !has_printed {
            has_printed = true;
            trace.record(
                at,
                "s2c",
                "noise",
                json!({"size": 27, "text": "debug: cache miss for 0x7f\n"}),
            );
        }
    }
    if pid == 0 {
        for (due, request) in open {
            trace.answer(due.max(at), request, json!(null));
        }
        trace.end(at + 300_000);
    }
    trace.into_text()
}

/// Content that tries to break out of the page.
pub(crate) fn hostile() -> String {
    let mut trace = TraceText::new("hostile", "2026-01-02T03:04:05.000000Z", 0);
    let markup = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=2>";
    let bidi = "safe\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}\u{0}\u{7f}";
    trace.request(1_000, 1, markup, json!({"<b onclick=window.pwned=3>": markup}));
    trace.request(2_000, 2, bidi, json!({bidi: bidi}));
    trace.stderr(3_000, &format!("{markup}{bidi}"));
    trace.record(4_000, "s2c", "noise", json!({"size": 4, "b64": "AP/+gA=="}));
    let deep = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    trace.record(5_000, "s2c", "broken", json!({"size": deep.len(), "text": deep, "why": markup}));
    trace.request(6_000, 3, &"m".repeat(100_000), json!({"javascript:window.pwned=4": 1e300}));
    let huge = json!({"text": "\u{202e}x</script>".repeat(10_000_000 / 13)});
    trace.request(7_000, 4, "huge", huge);
    trace.notification(8_000, "s2c", "many", json!((0..20_000).collect::<Vec<_>>()));
    trace.into_text()
}
