//! Documents as the model, row by row: references, shapes of schemas, errors with their pointers.

use std::fmt::Write as _;

use duet_rpc_api::{ApiError, Document};

fn document(members: &str) -> String {
    format!(r#"{{"openrpc": "1.3.2", "info": {{"title": "T", "version": "1"}}, {members}}}"#)
}

fn read(members: &str) -> Result<Document, ApiError> {
    Document::read(document(members).as_bytes())
}

/// The text of the type that a schema becomes.
#[track_caller]
fn check_type(schema: &str, text: &str) {
    let members = format!(
        r#""methods": [{{"name": "m", "params": [{{"name": "p", "schema": {schema}}}]}}],
        "components": {{"schemas": {{"Pet": {{"type": "object"}}, "a/b~c d": {{"type": "string"}}}}}}"#
    );
    let read = read(&members).unwrap_or_else(|error| panic!("{schema}: {error}"));
    assert_eq!(read.type_text(&read.methods[0].params[0].schema), text, "{schema}");
}

#[test]
fn a2_shapes_of_schemas_have_one_form() {
    let rows = [
        ("{}", "any"),
        ("true", "any"),
        ("false", "never"),
        (r#"{"type": "null"}"#, "null"),
        (r#"{"type": "boolean"}"#, "boolean"),
        (r#"{"type": "integer", "format": "int64"}"#, "integer"),
        (r#"{"type": "number"}"#, "number"),
        (r#"{"type": "any"}"#, "any"),
        (r#"{"type": ["string", "null"]}"#, "string | null"),
        (r#"{"type": ["string"]}"#, "string"),
        (r#"{"type": "string", "nullable": true}"#, "string | null"),
        (r#"{"type": ["string", "null"], "nullable": true}"#, "string | null"),
        (r#"{"nullable": true}"#, "any"),
        (r#"{"enum": ["a", 1, null]}"#, r#""a" | 1 | null"#),
        (r#"{"type": "string", "enum": ["a", "b"]}"#, r#""a" | "b""#),
        (r#"{"enum": []}"#, "never"),
        (r#"{"const": "x"}"#, r#""x""#),
        (r#"{"const": null}"#, "null"),
        (r#"{"oneOf": [{"type": "string"}, {"type": "null"}]}"#, "string | null"),
        (r#"{"anyOf": [{"type": "string"}]}"#, "string"),
        (
            r#"{"anyOf": [{"oneOf": [{"type": "string"}, {"type": "null"}]}, {"type": "boolean"}]}"#,
            "string | null | boolean",
        ),
        (r##"{"allOf": [{"$ref": "#/components/schemas/Pet"}]}"##, "Pet"),
        (
            r##"{"allOf": [{"type": "object"}, {"$ref": "#/components/schemas/Pet"}]}"##,
            "object & Pet",
        ),
        (r##"{"$ref": "#/components/schemas/Pet", "description": "mine"}"##, "Pet"),
        (r##"{"$ref": "#/components/schemas/Pet", "required": ["x"]}"##, "Pet & {x: any}"),
        (r##"{"$ref": "#/components/schemas/a~1b~0c d"}"##, "a/b~c d"),
        (r##"{"$ref": "#/components/schemas/a~1b~0c%20d"}"##, "a/b~c d"),
        (r#"{"type": "array"}"#, "any[]"),
        (r#"{"type": "array", "items": {"type": "string"}}"#, "string[]"),
        (r#"{"items": {"enum": ["a", "b"]}}"#, r#"("a" | "b")[]"#),
        (r#"{"items": {"type": ["string", "null"]}}"#, "(string | null)[]"),
        (
            r#"{"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false}"#,
            "[string, integer]",
        ),
        (
            r#"{"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}}"#,
            "[string, …null[]]",
        ),
        (r#"{"type": "object"}"#, "object"),
        (r#"{"type": "object", "additionalProperties": {"type": "integer"}}"#, "{[name]: integer}"),
        (r#"{"patternProperties": {"^x": {"type": "integer"}}}"#, "{[/^x/]: integer}"),
        (
            r#"{"properties": {"z": {}, "a": {}, "m": {}}, "required": ["a", "q"]}"#,
            "{z?: any, a: any, m?: any, q: any}",
        ),
        (r#"{"properties": {"two words": {"required": true}}}"#, r#"{"two words"?: object}"#),
        (r#"{"minimum": 1}"#, "number"),
        (r#"{"pattern": "x"}"#, "string"),
        (r#"{"not": {"type": "null"}}"#, r#"not {"type":"null"}"#),
        (r##"{"$defs": {"In": {"type": "string"}}, "items": {"$ref": "#/$defs/In"}}"##, "In[]"),
        (
            r##"{"definitions": {"In": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/In"}}}"##,
            "{a?: In}",
        ),
        (r##"{"properties": {"next": {"$ref": "#"}}}"##, "{next?: schema}"),
    ];
    for (schema, text) in rows {
        check_type(schema, text);
    }
}

#[track_caller]
fn check_error(text: &str, pointer: &str, problem: &str) {
    let error = Document::read(text.as_bytes()).expect_err(text);
    assert_eq!(
        (error.pointer(), error.problem().contains(problem)),
        (pointer, true),
        "{text}\n{error}"
    );
}

#[test]
fn a3_errors_name_the_pointer_and_what_was_expected() {
    let schema = |schema: &str| {
        document(&format!(
            r#""methods": [{{"name": "m", "params": [{{"name": "p", "schema": {schema}}}]}}]"#
        ))
    };
    let at = "/methods/0/params/0/schema";
    let types =
        |types: &str| document(&format!(r#""methods": [], "components": {{"schemas": {types}}}"#));
    let rows = [
        (String::new(), "", "not JSON"),
        ("[".to_owned(), "", "line 1 column 1"),
        (r#"{"a": 1, "a": 2}"#.to_owned(), "", r#"the member "a" occurs twice"#),
        ("[".repeat(100_000), "", "recursion limit"),
        ("[]".to_owned(), "", "not an OpenRPC document: expected an object, found an array"),
        ("{}".to_owned(), "", "`openrpc` is missing"),
        (r#"{"openapi": "3.0.0"}"#.to_owned(), "", "OpenAPI"),
        (r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#.to_owned(), "", "response of a server"),
        (r#"{"openrpc": "2.0"}"#.to_owned(), "/openrpc", "expected version 1"),
        (r#"{"openrpc": "1.0.0"}"#.to_owned(), "", "`info` is missing"),
        (
            r#"{"openrpc": "1.0.0", "info": {"title": 1}}"#.to_owned(),
            "/info/title",
            "expected a string, found a number",
        ),
        (document(r#""x": 1"#), "", "`methods` is missing"),
        (
            r#"{"openrpc": "1.0.0", "info": []}"#.to_owned(),
            "/info",
            "expected an object, found an array",
        ),
        (
            document(r#""methods": [], "components": null"#),
            "/components",
            "expected an object, found null",
        ),
        (document(r#""methods": {}"#), "/methods", "expected an array, found an object"),
        (document(r#""methods": [1]"#), "/methods/0", "expected an object"),
        (document(r#""methods": [{}]"#), "/methods/0", "`name` is missing"),
        (document(r#""methods": [{"name": "a"}, {"name": "a"}]"#), "/methods/1", "twice"),
        (
            document(r#""methods": [{"name": "a", "params": [{"name": "p"}, {"name": "p"}]}]"#),
            "/methods/0/params/1",
            "twice",
        ),
        (
            document(r#""methods": [{"name": "a", "paramStructure": "x"}]"#),
            "/methods/0/paramStructure",
            "by-position",
        ),
        (
            document(r#""methods": [{"name": "a", "errors": [{"code": 1.5, "message": ""}]}]"#),
            "/methods/0/errors/0/code",
            "expected a whole number, found 1.5",
        ),
        (
            document(r##""methods": [{"$ref": "#/methods/0"}]"##),
            "/methods/0/$ref",
            "leads back to itself",
        ),
        (
            document(
                r##""methods": [{"name": "a", "params": [{"$ref": "#/components/contentDescriptors/X"}]}]"##,
            ),
            "/methods/0/params/0/$ref",
            "does not exist",
        ),
        (schema("1"), at, "expected a schema, found a number"),
        (schema(r#"{"type": "text"}"#), &format!("{at}/type"), "`text` is not a type"),
        (schema(r#"{"type": [1]}"#), &format!("{at}/type/0"), "expected a string"),
        (schema(r#"{"anyOf": []}"#), &format!("{at}/anyOf"), "at least one schema"),
        (
            schema(r#"{"type": "string", "maxLength": -1}"#),
            &format!("{at}/maxLength"),
            "at least 0",
        ),
        (
            schema(r#"{"properties": {"a/b": {"items": 5}}}"#),
            &format!("{at}/properties/a~1b/items"),
            "expected a schema",
        ),
        (
            schema(r##"{"$ref": "#/components/schemas/No"}"##),
            &format!("{at}/$ref"),
            "`#/components/schemas/No` does not exist",
        ),
        (schema(r##"{"$ref": "#/methods/9"}"##), &format!("{at}/$ref"), "does not exist"),
        (
            schema(r#"{"$ref": "https://x.test/s.json#/a"}"#),
            &format!("{at}/$ref"),
            "another document",
        ),
        (schema(r##"{"$ref": "#name"}"##), &format!("{at}/$ref"), "anchor"),
        (
            types(
                r##"{"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}"##,
            ),
            "/components/schemas/A",
            "defined as itself",
        ),
        (
            types(r##"{"A": {"anyOf": [{"$ref": "#/components/schemas/A"}, {"type": "null"}]}}"##),
            "/components/schemas/A",
            "defined as itself",
        ),
        (types(&chain(300)), "/components/schemas/T43", "more than 256 references"),
    ];
    for (text, pointer, problem) in &rows {
        check_error(text, pointer, problem);
    }
}

/// Types that are each the next one.
fn chain(length: usize) -> String {
    let mut types = String::from("{");
    for at in 0..length {
        let _ = write!(types, r##""T{at}": {{"$ref": "#/components/schemas/T{}"}},"##, at + 1);
    }
    let _ = write!(types, r#""T{length}": {{"type": "string"}}}}"#);
    types
}

#[test]
fn a2_parts_of_every_kind_are_found_through_references() {
    let read = read(
        r##""methods": [{"$ref": "#/components/x/m"}],
        "x-client-methods": [{"name": "ask", "params": []}],
        "components": {
            "x": {"m": {
                "name": "m", "tags": [{"$ref": "#/components/tags/T"}],
                "params": [{"$ref": "#/components/contentDescriptors/P"}],
                "result": {"$ref": "#/components/contentDescriptors/P"},
                "errors": [{"$ref": "#/components/errors/Busy"}, {"code": 2, "message": "no"}],
                "x-errors": {"2": {"name": "Refused", "summary": "S", "data": {"type": "string"}}},
                "examples": [{"$ref": "#/components/examplePairings/E"}]
            }},
            "tags": {"T": {"name": "group"}},
            "contentDescriptors": {"P": {"name": "p", "required": true, "schema": {"$ref": "#/components/schemas/Node"}}},
            "errors": {"Busy": {"code": -1, "message": "busy", "data": {"wait": 1}}},
            "examples": {"V": {"name": "p", "value": {"b": 1, "a": 2}}},
            "examplePairings": {"E": {"name": "e", "params": [{"$ref": "#/components/examples/V"}], "result": {"name": "r", "value": null}}},
            "schemas": {"Node": {"properties": {"next": {"$ref": "#/components/schemas/Node"}}}}
        }"##,
    )
    .unwrap();
    let method = &read.methods[0];
    assert_eq!(
        (method.tags.as_slice(), method.params[0].is_required),
        (["group".to_owned()].as_slice(), true)
    );
    assert_eq!(read.type_text(&method.result.as_ref().unwrap().schema), "Node");
    assert_eq!((method.errors[0].name.as_deref(), method.errors[0].code), (Some("Busy"), -1));
    assert_eq!(method.errors[1].name.as_deref(), Some("Refused"));
    assert_eq!(read.type_text(method.errors[1].data_schema.as_ref().unwrap()), "string");
    assert_eq!(method.examples[0].params[0].1.to_string(), r#"{"b":1,"a":2}"#);
    assert!(read.client_methods[0].is_notification() && !method.is_notification());
    assert_eq!(read.type_text(&read.types[0].schema), "{next?: Node}");
}

#[test]
fn a2_two_types_of_one_name_get_a_number() {
    let read = read(
        r##""methods": [{"name": "m", "params": [
            {"name": "a", "schema": {"$defs": {"In": {"type": "string"}}, "$ref": "#/$defs/In"}},
            {"name": "b", "schema": {"$defs": {"In": {"type": "null"}}, "$ref": "#/$defs/In"}}]}]"##,
    )
    .unwrap();
    let texts = read.types.iter().map(|it| (it.name.as_str(), read.type_text(&it.schema)));
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [("In", "string".to_owned()), ("In2", "null".to_owned())]
    );
}

#[test]
fn a2_all_of_joins_objects_once() {
    // Each type is the one before, twice: unfolded, the last would have 2^60 parts.
    let mut types =
        r#""T0": {"properties": {"a": {"type": "string"}}, "required": ["a"]}"#.to_owned();
    for at in 1..60 {
        let before = format!(r##"{{"$ref": "#/components/schemas/T{}"}}"##, at - 1);
        let _ = write!(
            types,
            r#", "T{at}": {{"allOf": [{before}, {before}, {{"properties": {{"m{at}": {{}}}}}}]}}"#
        );
    }
    let read =
        read(&format!(r#""methods": [], "components": {{"schemas": {{{types}}}}}"#)).unwrap();
    let object = read.as_object(&read.types[59].schema).unwrap();
    assert_eq!(object.members.len(), 60);
    assert!(object.members[0].is_required);
}
