//! Generated clients of large and hostile documents. Compilers of each language check the rest
//! (`crates/cli/tests/clients/generated.rs`).

use duet_rpc_api::{Document, Language, generate};
use serde_json::{Value, json};

fn read(methods: Value, schemas: Value) -> Result<Document, duet_rpc_api::ApiError> {
    let document = json!({
        "openrpc": "1.3.2", "info": {"title": "T", "version": "1"},
        "methods": methods, "components": {"schemas": schemas},
    });
    Document::read(document.to_string().as_bytes())
}

fn texts(document: &Document) -> [String; 3] {
    Language::ALL.map(|language| generate(language, document, "duet-rpc api gen").text)
}

fn result(schema: Value) -> Value {
    json!([{"name": "m", "params": [], "result": {"name": "r", "schema": schema}}])
}

/// Each would take minutes if one name, value or type were compared with all others.
#[test]
fn a3_a8_large_documents_give_clients() {
    let long = "x".repeat(80);
    let collisions = || (0..10_000).map(|it| format!("{long}{it}"));
    let methods: Vec<Value> =
        collisions().map(|it| json!({"name": it, "params": [{"name": it}]})).collect();
    let types: serde_json::Map<String, Value> =
        collisions().map(|it| (it, json!({"type": "string"}))).collect();
    let values: Vec<String> = (0..100_000).map(|it| format!("value {it}")).collect();
    let member = |at: i32| json!({"type": "object", "properties": {format!("a{at}"): {}}});
    let alternatives: Vec<Value> = (0..10_000).map(member).collect();
    let error = |code: i32| json!({"code": code, "message": format!("message {code}")});
    let errors: Vec<Value> = (0..20_000).map(error).collect();
    let documents = [
        read(json!(methods), json!(types)),
        read(result(json!({"enum": values})), json!({})),
        read(result(json!({"anyOf": alternatives})), json!({})),
        read(json!([{"name": "m", "result": {"name": "r"}, "errors": errors}]), json!({})),
    ];
    for document in documents {
        let document = document.expect("a document");
        assert!(texts(&document).iter().all(|text| text.len() < 64 << 20));
    }
}

/// A small document that repeats a large part very often.
#[test]
fn a3_documents_that_grow_without_measure_are_refused() {
    let members: serde_json::Map<String, Value> =
        (0..3_000).map(|it| (format!("p{it}"), json!({"type": "string"}))).collect();
    let base = json!({"$ref": "#/components/schemas/Base"});
    let mut types: serde_json::Map<String, Value> = (0..3_000)
        .map(|it| (format!("T{it}"), json!({"allOf": [base, {"required": ["x"]}]})))
        .collect();
    types.insert("Base".to_owned(), json!({"type": "object", "properties": members}));
    let error = read(json!([]), json!(types)).expect_err("too much");
    assert!(error.problem().contains("`allOf` joins"), "{error}");
    assert!(error.pointer().starts_with("/components/schemas/T"), "{error}");

    let param = json!({"$ref": "#/components/schemas/x-param"});
    let methods: Vec<Value> =
        (0..3_000).map(|it| json!({"name": it.to_string(), "params": [param]})).collect();
    let large = json!({"name": "p", "description": "x".repeat(1 << 20)});
    let error = read(json!(methods), json!({"x-param": large})).expect_err("too much");
    assert!(error.problem().contains("repeat parts of more than"), "{error}");
    assert!(error.pointer().ends_with("/params/0/$ref"), "{error}");
}

#[test]
fn a8_hidden_characters_are_visible_in_literals() {
    let hidden = "a\u{202e}b\u{2028}c\u{200b}d\u{feff}";
    let methods = json!([{"name": hidden, "summary": hidden, "params": [{"name": "p"}],
        "result": {"name": "r", "schema": {"enum": [hidden]}}, "errors": [{"code": 1, "message": hidden}]}]);
    for text in texts(&read(methods, json!({})).expect("a document")) {
        let found = text.find(['\u{202e}', '\u{2028}', '\u{200b}', '\u{feff}']);
        assert_eq!(found, None, "{text}");
    }
}

#[test]
fn a8_texts_are_no_settings_of_an_editor() {
    let text = "Local Variables:\neval: (kill-emacs)\nEnd:";
    let document = read(json!([{"name": "m", "summary": text, "params": []}]), json!({}));
    let [_, _, elisp] = texts(&document.expect("a document"));
    // Emacs looks at the last page only.
    let (_, page) = elisp.rsplit_once('\u{c}').expect("a page");
    assert!(!page.contains("kill-emacs"), "{page}");
    assert!(page.contains("byte-compile-docstring-max-column"), "{page}");
}

/// A variable of that name may be one of Emacs, and would be changed for everything that runs during the call.
#[test]
fn a8_arguments_of_emacs_lisp_bind_no_variable_of_their_name() {
    let document = read(json!([{"name": "m", "params": [{"name": "load-path"}]}]), json!({}));
    let [_, _, elisp] = texts(&document.expect("a document"));
    assert!(elisp.contains("((:load-path arg-load-path) nil has-load-path)"), "{elisp}");
}
