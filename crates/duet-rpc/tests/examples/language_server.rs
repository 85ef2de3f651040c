//! The language server as an editor drives it: its life cycle, its answers, its diagnostics.

use serde_json::{Value, json};

use crate::process::{Process, Wire};

pub(crate) const URI: &str = "file:///notes.txt";

/// A server that was started and initialised by an editor with these capabilities.
pub(crate) fn open(capabilities: Value) -> (Process, Value) {
    let mut server = Process::start("language_server", Wire::Headers);
    let params = json!({"processId": null, "rootUri": null, "capabilities": capabilities});
    let introduction = server.call("initialize", params).expect("the call is answered");
    server.notify("initialized", json!({}));
    (server, introduction)
}

/// Opens a document, and returns its diagnostics.
pub(crate) fn open_document(server: &mut Process, text: &str) -> Value {
    let document = json!({"uri": URI, "languageId": "text", "version": 1, "text": text});
    server.notify("textDocument/didOpen", json!({"textDocument": document}));
    diagnostics(server, json!(1))
}

pub(crate) fn publication(params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params})
}

/// Receives the next diagnostics, which must be for this version of the document.
pub(crate) fn diagnostics(server: &Process, version: Value) -> Value {
    let mut published = server.next();
    let found = published["params"]["diagnostics"].take();
    let params = json!({"uri": URI, "version": version, "diagnostics": null});
    assert_eq!(published, publication(&params));
    found
}

pub(crate) fn hover(server: &mut Process, line: u32, character: u32) -> Result<Value, Value> {
    let position = json!({"line": line, "character": character});
    let document = json!({"uri": URI});
    server.call("textDocument/hover", json!({"textDocument": document, "position": position}))
}

pub(crate) fn bye(mut server: Process) {
    assert_eq!(server.call("shutdown", Value::Null), Ok(Value::Null));
    server.notify("exit", Value::Null);
    assert_eq!(server.wait(), Some(0));
}

pub(crate) fn range(line: u32, start: u32, end: u32) -> Value {
    json!({
        "start": {"line": line, "character": start}, "end": {"line": line, "character": end},
    })
}

#[test]
fn initialize_returns_the_server_info_and_the_position_encoding() {
    let rows = [
        (json!({}), "utf-16"),
        (json!({"general": {"positionEncodings": null}}), "utf-16"),
        (json!({"general": {"positionEncodings": ["utf-16"]}}), "utf-16"),
        (json!({"general": {"positionEncodings": ["utf-32", "utf-16"]}}), "utf-16"),
        (json!({"general": {"positionEncodings": ["utf-16", 8, "utf-8"]}}), "utf-8"),
    ];
    for (capabilities, encoding) in rows {
        let (server, introduction) = open(capabilities);
        let wanted = json!({
            "capabilities": {
                "positionEncoding": encoding,
                "textDocumentSync": {"openClose": true, "change": 2},
                "hoverProvider": true,
                "executeCommandProvider": {"commands": ["plain-text.trim"]},
            },
            "serverInfo": {"name": "plain-text", "version": env!("CARGO_PKG_VERSION")},
        });
        assert_eq!(introduction, wanted);
        bye(server);
    }
}

#[test]
fn a_hover_shows_the_word_and_its_range() {
    // The position, the start of the word, the word, its length and its count. The 𝒳 is one letter: two
    // units of UTF-16, four bytes of UTF-8. The 😀 is not a letter.
    type Word<'a> = Option<(u32, u32, &'a str, &'a str)>;
    let text = "😀 𝒳y b\r\nünï_1 ünï_1\r\rb";
    let long = ("ünï_1", "5 characters, 2 times");
    let utf16: [(u32, u32, Word<'_>); 13] = [
        (0, 0, None),
        (0, 1, None),
        (0, 3, Some((3, 6, "𝒳y", "2 characters, once"))),
        (0, 4, Some((3, 6, "𝒳y", "2 characters, once"))),
        (0, 6, Some((3, 6, "𝒳y", "2 characters, once"))),
        (0, 7, Some((7, 8, "b", "1 character, 2 times"))),
        (0, 900, Some((7, 8, "b", "1 character, 2 times"))),
        (1, 0, Some((0, 5, long.0, long.1))),
        (1, 8, Some((6, 11, long.0, long.1))),
        (2, 0, None),
        (3, 1, Some((0, 1, "b", "1 character, 2 times"))),
        (9, 0, Some((0, 1, "b", "1 character, 2 times"))),
        (u32::MAX, u32::MAX, Some((0, 1, "b", "1 character, 2 times"))),
    ];
    let utf8: [(u32, u32, Word<'_>); 5] = [
        (0, 3, None),
        (0, 5, Some((5, 10, "𝒳y", "2 characters, once"))),
        (0, 10, Some((5, 10, "𝒳y", "2 characters, once"))),
        (0, 11, Some((11, 12, "b", "1 character, 2 times"))),
        (1, 9, Some((8, 15, long.0, long.1))),
    ];
    let plain = json!({});
    let markdown = json!({
        "general": {"positionEncodings": ["utf-8"]},
        "textDocument": {"hover": {"contentFormat": ["asciidoc", "markdown", "plaintext"]}},
    });
    for (capabilities, rows) in [(plain, &utf16[..]), (markdown, &utf8[..])] {
        let is_plain = capabilities == json!({});
        let (mut server, _) = open(capabilities);
        open_document(&mut server, text);
        for &(line, character, word) in rows {
            let wanted = word.map_or(Value::Null, |(start, end, word, facts)| {
                let (kind, word) = match is_plain {
                    true => ("plaintext", word.to_owned()),
                    false => ("markdown", format!("`{word}`")),
                };
                // A position after the last line counts as the end of that line.
                let line = line.min(3);
                let value = format!("{word}\n\n{facts} in this document");
                let contents = json!({"kind": kind, "value": value});
                json!({"contents": contents, "range": range(line, start, end)})
            });
            assert_eq!(hover(&mut server, line, character), Ok(wanted), "{line}:{character}");
        }
        bye(server);
    }
}

#[test]
fn each_kind_of_diagnostic_is_found() {
    let task = |line, start| (range(line, start, start + 4), 3, "A task is left here");
    let doubled = |line, start, end| (range(line, start, end), 2, "The word is doubled");
    let space =
        |line, start, end| (range(line, start, end), 2, "White space at the end of the line");
    let long =
        |line, start, end| (range(line, start, end), 4, "The line is longer than 100 characters");
    let crabs = "🦀".repeat(101);
    let mixed = format!("TODO the the \t\r\n{crabs}");
    let rows = [
        ("", vec![]),
        ("nothing to see\r\nhere.\n", vec![]),
        ("TODO: a TODO, no TODOs, no todo", vec![task(0, 0), task(0, 8)]),
        ("𝒳 TODO", vec![task(0, 3)]),
        ("a \n\t\nb", vec![space(0, 1, 2), space(1, 0, 1)]),
        ("the the\nThe, the theory theory_", vec![doubled(0, 4, 7), doubled(1, 0, 3)]),
        ("here and\nand there, and\n\nand 1 1", vec![doubled(1, 0, 3)]),
        ("a-a, a.a aa aa", vec![doubled(0, 12, 14)]),
        (&crabs[4..], vec![]),
        (&mixed, vec![task(0, 0), doubled(0, 9, 12), space(0, 12, 14), long(1, 200, 202)]),
    ];
    let (mut server, _) = open(json!({}));
    for (text, wanted) in rows {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(range, severity, message)| {
                json!({
                    "range": range, "severity": severity, "source": "plain-text",
                    "message": message,
                })
            })
            .collect();
        assert_eq!(open_document(&mut server, text), json!(wanted), "{text:?}");
    }
    let many = open_document(&mut server, &"TODO\n".repeat(5000));
    assert_eq!(many.as_array().map(Vec::len), Some(100), "the number of diagnostics is bounded");
    bye(server);
}

#[test]
fn requests_before_initialize_and_after_shutdown_are_refused() {
    let position = json!({"line": 0, "character": 0});
    let at = json!({"textDocument": {"uri": URI}, "position": position});
    let not_yet = json!({"code": -32002, "message": "The server is not initialized"});
    let no_more = json!({"code": -32600, "message": "Invalid Request"});

    let mut server = Process::start("language_server", Wire::Headers);
    assert_eq!(server.call("textDocument/hover", at.clone()), Err(not_yet.clone()));
    assert_eq!(server.call("shutdown", Value::Null), Err(not_yet));
    // A notification before `initialize` changes nothing.
    let document = json!({"uri": URI, "languageId": "text", "version": 1, "text": "TODO"});
    server.notify("textDocument/didOpen", json!({"textDocument": document}));
    server.call("initialize", json!({"capabilities": {}})).expect("the call is answered");
    assert_eq!(server.call("initialize", json!({"capabilities": {}})), Err(no_more.clone()));
    assert_eq!(server.call("textDocument/hover", at.clone()), Ok(Value::Null));
    // After `shutdown` the server still runs, and refuses everything except `exit`.
    assert_eq!(server.call("shutdown", Value::Null), Ok(Value::Null));
    for (method, params) in [("textDocument/hover", at), ("shutdown", Value::Null)] {
        assert_eq!(server.call(method, params), Err(no_more.clone()), "{method}");
    }
    assert_eq!(server.call("initialize", json!({"capabilities": {}})), Err(no_more));
    server.notify("exit", Value::Null);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn exit_without_shutdown_is_status_1_and_end_of_input_is_status_0() {
    let mut server = Process::start("language_server", Wire::Headers);
    server.notify("exit", Value::Null);
    assert_eq!(server.wait(), Some(1), "before all else");

    let (mut server, _) = open(json!({}));
    server.notify("exit", Value::Null);
    assert_eq!(server.wait(), Some(1), "without a shutdown");

    let (mut server, _) = open(json!({}));
    open_document(&mut server, "text");
    assert_eq!(server.close(), Some(0), "the end of its input");
}

#[test]
fn wrong_params_are_refused() {
    let (mut server, _) = open(json!({}));
    open_document(&mut server, "word");
    let wrong = |param: &str, expected: &str, received: &str| {
        let data = json!({"param": param, "expected": expected, "received": received});
        json!({"code": -32602, "message": "Invalid params", "data": data})
    };
    let document = json!({"uri": URI});
    let position = |line, character| json!({"line": line, "character": character});
    let rows = [
        (Value::Null, wrong("textDocument", "object", "missing")),
        (json!({"textDocument": document}), wrong("position", "object", "missing")),
        (
            json!({"textDocument": document, "position": position(json!(-1), json!(0))}),
            wrong("position.line", "integer from 0 to 4294967295", "number"),
        ),
        (
            json!({"textDocument": document, "position": position(json!(0), json!("0"))}),
            wrong("position.character", "integer", "string"),
        ),
    ];
    for (params, error) in rows {
        assert_eq!(server.call("textDocument/hover", params.clone()), Err(error), "{params}");
    }
    // These notifications have no answer, and change nothing.
    server.notify("textDocument/didOpen", json!({"textDocument": {"uri": URI, "text": 7}}));
    server.notify("textDocument/didChange", json!(["?"]));
    server.notify("$/somethingNew", json!({}));
    let method = json!({"code": -32601, "message": "Method not found: textDocument/rename"});
    assert_eq!(server.call("textDocument/rename", json!({})), Err(method));
    server.send(&json!([]));
    let batch = json!({
        "code": -32600, "message": "Batch requests not supported",
        "data": {"reason": "batch-not-supported"},
    });
    assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": null, "error": batch}));
    assert_eq!(hover(&mut server, 0, 0).expect("the hover is answered")["range"], range(0, 0, 4));
    bye(server);
}
