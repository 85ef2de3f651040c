//! Changes between two versions, as rows: each breaking one is found with its path, and no compatible one is breaking.

use duet_rpc_api::{Change, Comparison, Document, compare};

/// A document with these methods and named types.
fn document(methods: &str, types: &str) -> Document {
    let text = format!(
        r#"{{"openrpc": "1.3.2", "info": {{"title": "T", "version": "1"}}, {methods}, "components": {{"schemas": {{{types}}}}}}}"#
    );
    Document::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A document in which one method has this member.
fn method(member: &str) -> Document {
    document(&format!(r#""methods": [{{"name": "m", {member}}}]"#), "")
}

fn server(methods: &str) -> Document {
    document(&format!(r#""methods": [{methods}]"#), "")
}

fn client(methods: &str) -> Document {
    document(&format!(r#""methods": [], "x-client-methods": [{methods}]"#), "")
}

/// A method with one required param of this type.
fn param(schema: &str) -> Document {
    method(&format!(r#""params": [{{"name": "p", "required": true, "schema": {schema}}}]"#))
}

fn result(schema: &str) -> Document {
    method(&format!(r#""params": [], "result": {{"name": "r", "schema": {schema}}}"#))
}

fn client_param(schema: &str) -> Document {
    client(&format!(
        r#"{{"name": "c", "params": [{{"name": "p", "required": true, "schema": {schema}}}]}}"#
    ))
}

fn client_result(schema: &str) -> Document {
    client(&format!(
        r#"{{"name": "c", "params": [], "result": {{"name": "r", "schema": {schema}}}}}"#
    ))
}

fn params(list: &str) -> Document {
    method(&format!(r#""params": [{list}]"#))
}

fn breaking(comparison: &Comparison) -> Vec<&Change> {
    comparison.breaking().collect()
}

/// Each kind of document, the old part, the new part; then the path and the sentence of the one breaking change.
type Row = (fn(&str) -> Document, &'static str, &'static str, &'static str, &'static str);
#[rustfmt::skip]
const BREAKING: &[Row] = &[
    (server, r#"{"name": "a"}, {"name": "b"}"#, r#"{"name": "b"}"#, "", "the method was removed"),
    (server, r#"{"name": "a", "params": [{"name": "x"}]}"#, r#"{"name": "b", "params": [{"name": "x"}]}"#, "", "the method was removed; was it renamed to `b`?"),
    (server, r#"{"name": "a", "x-aliases": ["b"]}"#, r#"{"name": "a"}"#, "", "the alias `b` was removed"),
    (server, r#"{"name": "a", "x-idempotent": true}"#, r#"{"name": "a"}"#, "", "repeating a call is no longer safe (`x-idempotent`)"),
    (server, r#"{"name": "a", "result": {"name": "r", "schema": true}}"#, r#"{"name": "a"}"#, "result", "the method is a notification now: there is no answer"),
    (server, r#"{"name": "a"}"#, r#"{"name": "a", "result": {"name": "r", "schema": true}}"#, "result", "the notification is a method with an answer now"),
    (params, r#"{"name": "x"}, {"name": "y"}"#, r#"{"name": "x"}"#, "params.y", "the param was removed"),
    (params, r#"{"name": "x", "schema": {"type": "string"}}"#, r#"{"name": "y", "schema": {"type": "string"}}"#, "params.x", "the param was renamed to `y`"),
    (params, "", r#"{"name": "x", "required": true}"#, "params.x", "the param is new and required"),
    (params, r#"{"name": "x"}"#, r#"{"name": "x", "required": true}"#, "params.x", "required now"),
    (params, r#"{"name": "x"}"#, r#"{"name": "w"}, {"name": "x"}"#, "params.x", "the position changed from 1 to 2"),
    (params, r#"{"name": "x", "schema": {"type": "integer", "default": 1}}"#, r#"{"name": "x", "schema": {"type": "integer", "default": 2}}"#, "params.x", "the default changed from 1 to 2"),
    (method, r#""params": [{"name": "x"}]"#, r#""params": [{"name": "x"}], "paramStructure": "by-name""#, "params", "the params are sent by-name now; it was either"),
    (method, r#""params": [{"name": "x"}], "paramStructure": "by-name""#, r#""params": [{"name": "x"}], "paramStructure": "by-position""#, "params", "the params are sent by-position now; it was by-name"),
    (method, r#""params": [], "x-params": {"type": "string"}"#, r#""params": [], "x-params": {"type": "boolean"}"#, "params", "the type changed from `string` to `boolean`"),
    (method, r#""errors": [{"code": 1, "message": "busy"}]"#, r#""errors": [{"code": 2, "message": "busy"}]"#, "errors.1", "the code changed from 1 to 2"),
    (method, r#""errors": [{"code": 1, "message": "a"}], "x-errors": {"1": {"name": "Busy"}}"#, r#""errors": [{"code": 2, "message": "b"}], "x-errors": {"2": {"name": "Busy"}}"#, "errors.1", "the code changed from 1 to 2"),
    (method, r#""errors": [{"code": 1, "message": "a"}], "x-errors": {"1": {"data": {"type": "string"}}}"#, r#""errors": [{"code": 1, "message": "a"}], "x-errors": {"1": {"data": {"type": ["string", "null"]}}}"#, "errors.1.data", "may be null now"),
    (param, r#"{"type": "string"}"#, r#"{"type": "integer"}"#, "params.p", "the type changed from `string` to `integer`"),
    (param, "{}", r#"{"type": "integer"}"#, "params.p", "the type changed from `any` to `integer`"),
    (param, r#"{"type": "number"}"#, r#"{"type": "integer"}"#, "params.p", "the type changed from `number` to `integer`"),
    (param, r#"{"type": ["string", "null"]}"#, r#"{"type": "string"}"#, "params.p", "null is no longer allowed"),
    (param, r#"{"type": "string"}"#, r#"{"enum": ["a", "b"]}"#, "params.p", r#"only these values are allowed now: "a", "b""#),
    (param, r#"{"enum": ["a", "b"]}"#, r#"{"const": "a"}"#, "params.p", r#"this value is no longer allowed: "b""#),
    (param, r#"{"anyOf": [{"type": "string"}, {"type": "array"}]}"#, r#"{"type": "string"}"#, "params.p", "`any[]` is no longer allowed"),
    (param, r#"{"type": "integer", "minimum": 1}"#, r#"{"type": "integer", "minimum": 2}"#, "params.p", "the minimum changed from 1 to 2"),
    (param, r#"{"type": "number", "minimum": 1}"#, r#"{"type": "number", "exclusiveMinimum": 1}"#, "params.p", "the minimum changed from 1 to 1 (exclusive)"),
    (param, r#"{"type": "integer", "minimum": 1}"#, r#"{"type": "integer", "exclusiveMinimum": 1}"#, "params.p", "the minimum changed from 1 to 2"),
    (param, r#"{"enum": [1, 50]}"#, r#"{"type": "integer", "maximum": 10}"#, "params.p", "this value is no longer allowed: 50"),
    (param, r#"{"additionalProperties": {"type": "string"}}"#, r#"{"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "string"}}"#, "params.p.a", ""),
    (params, r#"{"name": "x", "schema": {"default": 1}}"#, r#"{"name": "x"}"#, "params.x", "the default 1 was removed"),
    (param, r#"{"type": "integer"}"#, r#"{"type": "integer", "maximum": 9}"#, "params.p", "the maximum is 9 now; there was none"),
    (param, r#"{"type": "integer", "multipleOf": 2}"#, r#"{"type": "integer", "multipleOf": 4}"#, "params.p", "must be a multiple of 4 now, not of 2"),
    (param, r#"{"type": "integer", "format": "int64"}"#, r#"{"type": "integer", "format": "int32"}"#, "params.p", "the format changed from `int64` to `int32`"),
    (param, r#"{"type": "string", "maxLength": 9}"#, r#"{"type": "string", "maxLength": 8}"#, "params.p", "`maxLength` changed from 9 to 8"),
    (param, r#"{"type": "string"}"#, r#"{"type": "string", "minLength": 1}"#, "params.p", "`minLength` changed from 0 to 1"),
    (param, r#"{"type": "string"}"#, r#"{"type": "string", "pattern": "^a"}"#, "params.p", "the pattern `^a` is new"),
    (param, r#"{"type": "string", "pattern": "a"}"#, r#"{"type": "string", "pattern": "b"}"#, "params.p", "the pattern changed from `a` to `b`"),
    (param, r#"{"type": "string"}"#, r#"{"type": "string", "format": "date"}"#, "params.p", "the format `date` is new"),
    (param, r#"{"type": "array"}"#, r#"{"type": "array", "maxItems": 3}"#, "params.p", "`maxItems` is 3 now; there was no limit"),
    (param, r#"{"type": "array"}"#, r#"{"type": "array", "uniqueItems": true}"#, "params.p", "duplicates are refused now"),
    (param, r#"{"type": "array", "items": {"type": "string"}}"#, r#"{"type": "array", "items": {"type": "boolean"}}"#, "params.p[]", "the type changed from `string` to `boolean`"),
    (param, r#"{"prefixItems": [{"type": "string"}]}"#, r#"{"prefixItems": [{"type": "boolean"}]}"#, "params.p[0]", "the type changed from `string` to `boolean`"),
    (param, r#"{"type": "object", "additionalProperties": {"type": "string"}}"#, r#"{"type": "object", "additionalProperties": {"type": "null"}}"#, "params.p[name]", "`string` is no longer allowed"),
    (param, r#"{"type": "object"}"#, r#"{"type": "object", "additionalProperties": false}"#, "params.p", "other members are refused now"),
    (param, r#"{"properties": {"a": {}}}"#, r#"{"properties": {"a": {}, "b": {}}, "required": ["b"]}"#, "params.p.b", "the member is new and required"),
    (param, r#"{"properties": {"a": {}, "b": {}}}"#, r#"{"properties": {"a": {}}}"#, "params.p.b", "the member was removed"),
    (param, r#"{"properties": {"a": {}}}"#, r#"{"properties": {"a": {}}, "required": ["a"]}"#, "params.p.a", "required now"),
    (param, r#"{"properties": {"a": {"properties": {"b": {"type": "string"}}}}}"#, r#"{"properties": {"a": {"properties": {"b": {"type": "null"}}}}}"#, "params.p.a.b", ""),
    (param, r#"{"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}"#, r#"{"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]}"#, "params.p.b", "required now"),
    (param, r#"{"type": "string"}"#, r#"{"type": "string", "not": {"const": "x"}}"#, "params.p", r#"`not {"const":"x"}` is a new condition"#),
    (param, r#"{"not": {"const": "x"}}"#, r#"{"not": {"const": "y"}}"#, "params.p", r#"the keyword `not` changed from {"const":"x"} to {"const":"y"}"#),
    (param, r#"{"oneOf": [{"properties": {"t": {"const": "a"}, "x": {}}}, {"properties": {"t": {"const": "b"}}}]}"#, r#"{"oneOf": [{"properties": {"t": {"const": "b"}}}, {"properties": {"t": {"const": "a"}, "x": {}}, "required": ["x"]}]}"#, "params.p.x", "required now"),
    (result, r#"{"type": "string"}"#, r#"{"type": ["string", "null"]}"#, "result", "may be null now"),
    (result, r#"{"enum": ["a"]}"#, r#"{"enum": ["a", "b", "c"]}"#, "result", r#"these values are new: "b", "c""#),
    (result, r#"{"enum": ["a"]}"#, r#"{"type": "string"}"#, "result", "every `string` is allowed now"),
    (result, r#"{"type": "integer"}"#, r#"{"type": "number"}"#, "result", "the type changed from `integer` to `number`"),
    (result, r#"{"type": "integer", "format": "int32"}"#, r#"{"type": "integer", "format": "int64"}"#, "result", "the format changed from `int32` to `int64`"),
    (result, r#"{"type": "string"}"#, "{}", "result", "the type changed from `string` to `any`"),
    (result, r#"{"type": "string", "maxLength": 5}"#, r#"{"type": "string"}"#, "result", "`maxLength` was 5; there is no limit now"),
    (result, r#"{"type": "integer", "minimum": 0}"#, r#"{"type": "integer"}"#, "result", "the minimum was 0; there is none now"),
    (result, r#"{"properties": {"a": {}}, "required": ["a"]}"#, r#"{"properties": {"a": {}}}"#, "result.a", "may be missing now"),
    (result, r#"{"properties": {"a": {}, "b": {}}, "required": ["a"]}"#, r#"{"properties": {"b": {}}}"#, "result.a", "the member was removed"),
    (result, r#"{"properties": {"a": {}}, "additionalProperties": false}"#, r#"{"properties": {"a": {}, "b": {}}, "additionalProperties": false}"#, "result.b", "the member is new, where there were no others"),
    (result, r#"{"oneOf": [{"properties": {"t": {"const": "a"}}}]}"#, r#"{"oneOf": [{"properties": {"t": {"const": "a"}}}, {"properties": {"t": {"const": "b"}}}]}"#, "result", r#"`{t?: "b"}` is allowed now"#),
    (result, r#"{"items": {"properties": {"a": {"type": "string"}}}}"#, r#"{"items": {"properties": {"a": {"type": ["string", "null"]}}}}"#, "result[].a", "may be null now"),
    (client, "", r#"{"name": "c", "result": {"name": "r", "schema": true}}"#, "", "the method is new"),
    (client_param, r#"{"type": "string"}"#, r#"{"type": ["string", "null"]}"#, "params.p", "may be null now"),
    (client_param, r#"{"enum": [1]}"#, r#"{"enum": [1, 2]}"#, "params.p", "this value is new: 2"),
    (client_result, r#"{"type": ["string", "null"]}"#, r#"{"type": "string"}"#, "result", "null is no longer allowed"),
    (client_result, r#"{"properties": {"a": {}}}"#, r#"{"properties": {"a": {}}, "required": ["a"]}"#, "result.a", "required now"),
    (client, r#"{"name": "c", "params": [{"name": "p", "required": true}]}"#, r#"{"name": "c", "params": [{"name": "p"}]}"#, "params.p", "may be missing now"),
    (client, r#"{"name": "c", "params": [{"name": "p", "required": true}]}"#, r#"{"name": "c", "params": []}"#, "params.p", "the param was removed"),
    (client, r#"{"name": "c", "params": [{"name": "p"}], "paramStructure": "by-name"}"#, r#"{"name": "c", "params": [{"name": "p"}]}"#, "params", "the params are sent either now; it was by-name"),
];

#[test]
fn a4_each_breaking_change_is_found_with_its_path() {
    for (document, old, new, path, text) in BREAKING {
        let comparison = compare(&document(old), &document(new));
        let found = breaking(&comparison);
        let row = format!("{old}\n{new}\n{:#?}", comparison.changes);
        assert_eq!(found.len(), 1, "{row}");
        assert_eq!(found[0].path, *path, "{row}");
        assert!(text.is_empty() || found[0].text == *text, "{text}\n{row}");
    }
    assert!(BREAKING.len() >= 60);
}

/// Kind of document, the old and the new part, and whether the change is listed.
type CompatibleRow = (fn(&str) -> Document, &'static str, &'static str, bool);

#[rustfmt::skip]
const COMPATIBLE: &[CompatibleRow] = &[
    (server, r#"{"name": "a"}"#, r#"{"name": "a"}"#, false),
    (server, "", r#"{"name": "a"}"#, true),
    (server, r#"{"name": "a"}"#, r#"{"name": "b", "x-aliases": ["a"]}"#, true),
    (server, r#"{"name": "a"}"#, r#"{"name": "a", "deprecated": true, "x-deprecated": "use b"}"#, true),
    (server, r#"{"name": "a"}"#, r#"{"name": "a", "summary": "s", "description": "d", "tags": [{"name": "t"}]}"#, false),
    (server, r#"{"name": "a"}"#, r#"{"name": "a", "x-idempotent": true, "x-aliases": ["b"]}"#, false),
    (server, r#"{"name": "a"}, {"name": "b"}"#, r#"{"name": "b"}, {"name": "a"}"#, false),
    (params, r#"{"name": "x"}"#, r#"{"name": "x"}, {"name": "y"}"#, true),
    (params, r#"{"name": "x", "required": true}"#, r#"{"name": "x"}"#, true),
    (params, r#"{"name": "x", "schema": {"type": "integer"}}"#, r#"{"name": "x", "schema": {"type": "integer", "default": 2}}"#, false),
    (method, r#""params": [{"name": "x"}], "paramStructure": "by-name""#, r#""params": [{"name": "x"}]"#, true),
    (method, r#""params": [{"name": "x"}, {"name": "y"}], "paramStructure": "by-name""#, r#""params": [{"name": "y"}, {"name": "x"}], "paramStructure": "by-name""#, false),
    (method, r#""params": [{"name": "x"}], "paramStructure": "by-position""#, r#""params": [{"name": "y"}], "paramStructure": "by-position""#, true),
    (method, r#""params": []"#, r#""params": [], "paramStructure": "by-name""#, false),
    (method, r#""errors": [{"code": 1, "message": "a"}]"#, r#""errors": [{"code": 1, "message": "b"}]"#, true),
    (method, r#""errors": [{"code": 1, "message": "a"}, {"code": 1, "message": "b"}]"#, r#""errors": [{"code": 1, "message": "b"}, {"code": 1, "message": "a"}]"#, false),
    (method, r#""errors": [{"code": 1, "message": "a"}]"#, r#""errors": [{"code": 1, "message": "a"}, {"code": 2, "message": "b"}]"#, true),
    (method, r#""errors": [{"code": 1, "message": "a"}, {"code": 2, "message": "b"}]"#, r#""errors": [{"code": 2, "message": "b"}]"#, true),
    (method, r#""examples": [{"name": "e", "params": []}]"#, r#""params": []"#, false),
    (param, r#"{"type": "string"}"#, "{}", true),
    (param, r#"{"type": "integer"}"#, r#"{"type": "number"}"#, true),
    (param, r#"{"type": "string"}"#, r#"{"type": ["string", "null"]}"#, true),
    (param, r#"{"type": ["string", "null"]}"#, r#"{"anyOf": [{"type": "null"}, {"type": "string"}]}"#, false),
    (param, r#"{"type": "string", "nullable": true}"#, r#"{"oneOf": [{"type": "string"}, {"const": null}]}"#, false),
    (param, r#"{"enum": ["a"]}"#, r#"{"enum": ["b", "a"]}"#, true),
    (param, r#"{"enum": ["a"]}"#, r#"{"type": "string"}"#, true),
    (param, r#"{"const": 1}"#, r#"{"type": "integer"}"#, true),
    (param, r#"{"type": "integer", "minimum": 2, "maximum": 5}"#, r#"{"type": "integer", "minimum": 1, "maximum": 6}"#, true),
    (param, r#"{"type": "integer", "minimum": 1}"#, r#"{"type": "integer", "minimum": 1.0}"#, true),
    (param, r#"{"type": "integer", "format": "uint32"}"#, r#"{"type": "integer", "format": "int64"}"#, true),
    (param, r#"{"type": "integer", "multipleOf": 4}"#, r#"{"type": "integer", "multipleOf": 2}"#, true),
    (param, r#"{"type": "string", "pattern": "a", "maxLength": 3}"#, r#"{"type": "string"}"#, true),
    (param, r#"{"properties": {"a": {}}, "required": ["a"]}"#, r#"{"properties": {"a": {}, "b": {}}}"#, true),
    (param, r#"{"properties": {"b": {}, "a": {}}}"#, r#"{"properties": {"a": {}, "b": {}}}"#, false),
    (param, r#"{"type": "object", "additionalProperties": false}"#, r#"{"type": "object"}"#, true),
    (param, r#"{"type": "array", "uniqueItems": true, "minItems": 1}"#, r#"{"type": "array"}"#, true),
    (param, r#"{"type": "string"}"#, r#"{"anyOf": [{"type": "string", "maxLength": 3}, {"type": "string"}]}"#, false),
    (param, r#"{"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}"#, r#"{"properties": {"a": {}, "b": {}}}"#, false),
    (param, r#"{"type": "string", "not": {"const": "x"}}"#, r#"{"type": "string"}"#, true),
    (param, r#"{"oneOf": [{"properties": {"t": {"const": "a"}}}, {"properties": {"t": {"const": "b"}}}]}"#, r#"{"oneOf": [{"properties": {"t": {"const": "c"}}}, {"properties": {"t": {"const": "b"}}}, {"properties": {"t": {"const": "a"}}}]}"#, true),
    (result, "{}", r#"{"type": "string"}"#, true),
    (result, r#"{"type": ["string", "null"]}"#, r#"{"type": "string"}"#, true),
    (result, r#"{"enum": ["a", "b"]}"#, r#"{"const": "a"}"#, true),
    (result, r#"{"type": "string"}"#, r#"{"enum": ["a"]}"#, true),
    (result, r#"{"type": "number"}"#, r#"{"type": "integer"}"#, true),
    (result, r#"{"properties": {"a": {}}}"#, r#"{"properties": {"a": {}, "b": {}}, "required": ["a", "b"]}"#, true),
    (result, r#"{"properties": {"a": {}, "b": {}}}"#, r#"{"properties": {"a": {}}}"#, true),
    (result, r#"{"type": "integer", "default": 1}"#, r#"{"type": "integer", "default": 2}"#, false),
    (result, r#"{"type": "string"}"#, r#"{"type": "string", "format": "date"}"#, true),
    (client, r#"{"name": "c", "result": {"name": "r"}}"#, "", true),
    (client, "", r#"{"name": "c"}"#, true),
    (client_param, r#"{"type": ["string", "null"]}"#, r#"{"type": "string"}"#, true),
    (client_result, r#"{"type": "string"}"#, r#"{"type": ["string", "null"]}"#, true),
    (client, r#"{"name": "c", "params": [{"name": "p"}]}"#, r#"{"name": "c", "params": []}"#, true),
    (client, r#"{"name": "c", "params": []}"#, r#"{"name": "c", "params": [{"name": "p", "required": true}]}"#, true),
    (client, r#"{"name": "c", "params": [{"name": "p"}]}"#, r#"{"name": "c", "params": [{"name": "p"}], "paramStructure": "by-name"}"#, true),
];

#[test]
fn a4_no_compatible_change_is_breaking() {
    for (document, old, new, is_listed) in COMPATIBLE {
        let comparison = compare(&document(old), &document(new));
        let row = format!("{old}\n{new}\n{:#?}", comparison.changes);
        assert!(breaking(&comparison).is_empty(), "{row}");
        assert_eq!(!comparison.changes.is_empty(), *is_listed, "{row}");
    }
    assert!(COMPATIBLE.len() >= 50);
}

/// Changes found by people who looked for what the comparison misses: each line of the file has the two versions.
#[test]
fn a4_changes_in_unusual_forms_are_judged_by_their_effect() {
    let rows = include_str!("changes.jsonl");
    let (mut count, mut wrong) = ([0, 0], Vec::new());
    for row in rows.lines() {
        let row: serde_json::Value = serde_json::from_str(row).expect("a row");
        let read = |version: &str| {
            let mut document = row[version].clone();
            document["openrpc"] = "1.3.2".into();
            document["info"] = serde_json::json!({"title": "T", "version": "1"});
            Document::read(document.to_string().as_bytes()).expect("a document")
        };
        let comparison = compare(&read("old"), &read("new"));
        let breaks = row["breaks"].as_bool().expect("true or false");
        count[usize::from(breaks)] += 1;
        if breaks == breaking(&comparison).is_empty() {
            wrong.push(format!("{}: {:#?}", row["change"], comparison.changes));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count.iter().all(|it| *it >= 50), "{count:?}");
}

/// Methods with a param and a result of the type `Node`, which contains itself.
fn tree(node: &str) -> Document {
    let methods = r##""methods": [{"name": "put", "params": [{"name": "n", "schema": {"$ref": "#/components/schemas/Node"}}],
        "result": {"name": "r", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}}]"##;
    document(
        methods,
        &format!(
            r##""Node": {{"properties": {{"next": {{"$ref": "#/components/schemas/Node"}}, {node}}}}}"##
        ),
    )
}

#[test]
fn a4_types_that_contain_themselves_are_compared_once_in_each_direction() {
    let comparison =
        compare(&tree(r#""v": {"type": "string"}"#), &tree(r#""v": {"type": "integer"}"#));
    let paths: Vec<_> = breaking(&comparison).iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["params.n.v", "result[].v"]);
    let comparison =
        compare(&tree(r#""v": {"type": "string"}"#), &tree(r#""v": {"type": ["string", "null"]}"#));
    let paths: Vec<_> = breaking(&comparison).iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["result[].v"]);
}

#[test]
fn a5_changelog_has_four_sections_and_marks_breaking_changes() {
    let old = server(r#"{"name": "a"}, {"name": "b"}, {"name": "c", "params": [{"name": "x"}]}"#);
    let new = server(
        r#"{"name": "b", "deprecated": true}, {"name": "c", "params": [{"name": "x", "required": true}]}, {"name": "`d`"}"#,
    );
    let text = compare(&old, &new).changelog(&old, &new);
    assert_eq!(
        text,
        "# T 1\n\n2 breaking changes.\n\n## Added\n\n- `` `d` ``: the method is new\n\n## Changed\n\n\
         - **Breaking:** `c` `params.x`: required now\n\n## Deprecated\n\n- `b`: the method is deprecated\n\n\
         ## Removed\n\n- **Breaking:** `a`: the method was removed\n"
    );
    assert_eq!(compare(&old, &old).changelog(&old, &old), "# T 1\n\nNo changes.\n");
}
