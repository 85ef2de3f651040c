//! The language server follows a document as it is edited.

use serde_json::{Value, json};

use crate::language_server::{
    URI, bye, diagnostics, hover, open, open_document, publication, range,
};
use crate::process::Process;

fn change(server: &mut Process, version: u32, changes: &Value) {
    let document = json!({"uri": URI, "version": version});
    let params = json!({"textDocument": document, "contentChanges": changes});
    server.notify("textDocument/didChange", params);
}

/// A text that replaces the range from one position to another.
fn put(start: (u32, u32), end: (u32, u32), text: &str) -> Value {
    let position = |(line, character)| json!({"line": line, "character": character});
    json!({"range": {"start": position(start), "end": position(end)}, "text": text})
}

#[test]
fn changes_apply_at_their_positions() {
    // A text, its changes, and then a word that must be there: its line, start, end and the hover's first
    // line.
    type Row<'a> = (&'a str, Value, &'a [(u32, u32, u32, &'a str)]);
    let rows: [Row<'_>; 12] = [
        ("one two", json!([put((0, 0), (0, 3), "three")]), &[(0, 0, 5, "three"), (0, 6, 9, "two")]),
        ("one", json!([put((0, 3), (0, 3), " two")]), &[(0, 0, 3, "one"), (0, 4, 7, "two")]),
        ("one", json!([put((0, 0), (0, 3), "")]), &[]),
        // Each change counts positions in the result of the one before it.
        (
            "a",
            json!([put((0, 1), (0, 1), "\nb"), put((1, 1), (1, 1), "c")]),
            &[(0, 0, 1, "a"), (1, 0, 2, "bc")],
        ),
        ("a\r\nb\nc", json!([put((0, 1), (2, 0), "")]), &[(0, 0, 2, "ac")]),
        ("a\r\nb", json!([put((0, 9), (1, 0), " ")]), &[(0, 0, 1, "a"), (0, 2, 3, "b")]),
        // Two units of UTF-16 are one character; a position inside it counts as its beginning.
        ("😀one", json!([put((0, 2), (0, 5), "two")]), &[(0, 2, 5, "two")]),
        ("😀one", json!([put((0, 0), (0, 2), "")]), &[(0, 0, 3, "one")]),
        ("😀one", json!([put((0, 1), (0, 1), "x ")]), &[(0, 0, 1, "x"), (0, 4, 7, "one")]),
        // A position beyond the text is at its end; a reversed range is put in order.
        ("one", json!([put((7, 7), (8, 8), " two")]), &[(0, 0, 3, "one"), (0, 4, 7, "two")]),
        ("one two", json!([put((0, 3), (0, 0), "x")]), &[(0, 0, 1, "x"), (0, 2, 5, "two")]),
        // A change that replaces the whole text, between two others.
        (
            "one",
            json!([put((0, 0), (0, 0), "?"), {"text": "ab"}, put((0, 1), (0, 1), " ")]),
            &[(0, 0, 1, "a"), (0, 2, 3, "b")],
        ),
    ];
    let (mut server, _) = open(json!({}));
    for (text, changes, words) in rows {
        open_document(&mut server, text);
        change(&mut server, 2, &changes);
        diagnostics(&server, json!(2));
        for &(line, start, end, word) in words {
            let found = hover(&mut server, line, start).expect("the hover is answered");
            assert_eq!(found["range"], range(line, start, end), "{text:?} {changes}");
            let value = found["contents"]["value"].as_str().and_then(|value| value.lines().next());
            assert_eq!(value, Some(word), "{text:?} {changes}");
        }
        if words.is_empty() {
            assert_eq!(hover(&mut server, 0, 0), Ok(Value::Null));
        }
    }
    bye(server);
}

#[test]
fn a_hover_sees_every_change_before_it() {
    let (mut server, _) = open(json!({}));
    open_document(&mut server, "");
    // All requests are sent before the first is answered.
    for version in 2..102 {
        change(&mut server, version, &json!([put((0, 0), (0, 0), "x")]));
        let position = json!({"line": 0, "character": 0});
        let params = json!({"textDocument": {"uri": URI}, "position": position});
        server.ask(i64::from(version), "textDocument/hover", params);
    }
    // Hovers run concurrently, so their answers come in any order. The diagnostics come in order.
    let (mut published, mut answered) = (2..102, 0);
    while answered < 100 || !published.is_empty() {
        let message = server.next();
        if message.get("method").is_some() {
            assert_eq!(message["params"]["version"], json!(published.next()));
            continue;
        }
        let version = message["id"].as_u64().and_then(|id| u32::try_from(id).ok()).expect("ours");
        assert_eq!(message["result"]["range"], range(0, 0, version - 1));
        answered += 1;
    }
    bye(server);
}

#[test]
fn diagnostics_follow_the_text() {
    let (mut server, _) = open(json!({}));
    let found = open_document(&mut server, "TODO");
    assert_eq!(found.as_array().map(Vec::len), Some(1));
    change(&mut server, 2, &json!([put((0, 0), (0, 4), "done")]));
    assert_eq!(diagnostics(&server, json!(2)), json!([]));
    change(&mut server, 3, &json!([{"text": "TODO"}]));
    assert_eq!(diagnostics(&server, json!(3)), found);

    server.notify("textDocument/didClose", json!({"textDocument": {"uri": URI}}));
    assert_eq!(server.next(), publication(&json!({"uri": URI, "diagnostics": []})));
    assert_eq!(hover(&mut server, 0, 0), Ok(Value::Null));
    // A change of a document that is not open is ignored, and the next document that is opened is served.
    change(&mut server, 4, &json!([{"text": "TODO"}]));
    assert_eq!(open_document(&mut server, "TODO"), found);
    bye(server);
}

/// The command that removes white space. The user answers only after `meanwhile` has run.
fn trim(server: &mut Process, meanwhile: impl FnOnce(&mut Process), answer: &Value) -> Value {
    let params = json!({"command": "plain-text.trim", "arguments": [URI]});
    server.ask(7, "workspace/executeCommand", params);
    let question = server.next();
    assert_eq!(question["method"], "window/showMessageRequest");
    assert_eq!(question["params"]["message"], "Remove white space at the end of 2 lines?");
    meanwhile(server);
    server.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    server.next()
}

#[test]
fn a_question_to_the_user_blocks_nothing_and_refers_to_its_own_version() {
    let (mut server, _) = open(json!({}));
    open_document(&mut server, "one \ntwo\nthree \n");
    let meanwhile = |server: &mut Process| {
        assert_eq!(hover(server, 0, 0).expect("the hover is answered")["range"], range(0, 0, 3));
        change(server, 2, &json!([{"text": "other"}]));
        diagnostics(server, json!(2));
        assert_eq!(hover(server, 0, 0).expect("the hover is answered")["range"], range(0, 0, 5));
    };
    let edit = trim(&mut server, meanwhile, &json!({"title": "Remove"}));
    assert_eq!(edit["method"], "workspace/applyEdit");
    let edits = [range(0, 3, 4), range(2, 5, 6)].map(|it| json!({"range": it, "newText": ""}));
    // The editor has version 2 now, and sees that this edit is for version 1.
    let change = json!({"textDocument": {"uri": URI, "version": 1}, "edits": edits});
    assert_eq!(edit["params"], json!({"edit": {"documentChanges": [change]}}));
    server.send(&json!({"jsonrpc": "2.0", "id": edit["id"], "result": {"applied": false}}));
    assert_eq!(server.next(), json!({"jsonrpc": "2.0", "id": 7, "result": null}));

    open_document(&mut server, "one \ntwo \n");
    let answer = trim(&mut server, |_| {}, &Value::Null);
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 7, "result": null}), "the user said no");
    bye(server);
}
