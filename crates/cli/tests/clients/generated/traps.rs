//! Documents that once gave code with an error: one trap each.

use serde_json::{Map, Value, json};

/// The documents.
pub(super) fn traps() -> Vec<Value> {
    vec![
        instructions_to_tools(),
        taken_names(),
        names_that_look_like_digits(),
        names_that_begin_with_digits(),
        special_variables(),
        combinations(),
        types_that_contain_themselves(),
        every_schema(),
        variables_of_files("Local Variables:\neval: (kill-emacs)\nEnd:"),
        variables_of_files("-*- eval: (kill-emacs) -*-\n# -*- coding: utf-7 -*-"),
    ]
}

fn document(title: &str, methods: Vec<Value>, schemas: Value) -> Value {
    json!({
        "openrpc": "1.3.2", "info": {"title": title, "version": "1"},
        "methods": methods, "components": {"schemas": schemas},
    })
}

fn method(name: &str, params: Vec<Value>, result: Value) -> Value {
    json!({"name": name, "params": params, "result": {"name": "r", "schema": result}})
}

fn param(name: &str, schema: Value) -> Value {
    json!({"name": name, "schema": schema})
}

fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// `tsc` obeys some comments, and reports one that was not needed.
fn instructions_to_tools() -> Value {
    let texts = [
        "@ts-expect-error",
        "@ts-ignore",
        "# type: ignore",
        "# noqa",
        "@deprecated",
        "(fn BAD)",
        "\n",
    ];
    let method = |(at, text): (usize, &&str)| {
        json!({
            "name": format!("m{at}"), "summary": text, "deprecated": true, "x-deprecated": text, "x-since": text,
            "params": [{"name": "x", "description": text, "schema": {"type": "string", "description": text}}],
            "result": {"name": "r", "schema": named("Text")},
            "errors": [{"code": at, "message": text}],
        })
    };
    let text = json!({"type": "object", "description": texts[0], "properties": {"x": {"description": texts[0]}}});
    document(texts[0], texts.iter().enumerate().map(method).collect(), json!({"Text": text}))
}

/// Names of the generated code itself, and a method that would be a constructor.
fn taken_names() -> Value {
    let object = json!({"type": "object", "properties": {"code": {"type": "string"}}});
    let names = [
        "ErrorClass",
        "CallOptions",
        "T",
        "Class",
        "TakenClient",
        "TakenClientCallbacks",
        "Params",
    ];
    let schemas: Map<String, Value> =
        names.iter().map(|it| ((*it).to_owned(), object.clone())).collect();
    let mut calls: Vec<Value> = names.iter().map(|it| method(it, Vec::new(), named(it))).collect();
    calls[0]["errors"] = json!([{"code": 1, "message": "class"}]);
    let mut document = document("Taken", calls, Value::Object(schemas));
    let callbacks = ["new", "get", "set", "static", "dispose"];
    document["x-client-methods"] =
        callbacks.iter().map(|it| method(it, Vec::new(), json!(true))).collect();
    document
}

fn names_that_look_like_digits() -> Value {
    let members =
        json!({"l": {"type": "integer"}, "O": {"type": "integer"}, "I": {"type": "integer"}});
    let params = || vec![param("l", named("I")), param("O", named("l")), param("I", named("O"))];
    let methods = ["l", "O", "I"].map(|it| method(it, params(), named(it)));
    let schemas = json!({
        "I": {"type": "object", "properties": members}, "l": {"type": "string"}, "O": {"type": "string"},
    });
    document("I", methods.to_vec(), schemas)
}

/// A type and a method of the same name.
fn names_that_begin_with_digits() -> Value {
    let methods = ["2fa", "3"].map(|it| method(it, vec![param(it, named(it))], named(it)));
    let schemas = json!({
        "2fa": {"type": "object", "properties": {"2fa": named("3")}},
        "3": {"type": "object", "properties": {"a": named("2fa")}},
    });
    document("2", methods.to_vec(), schemas)
}

/// Params whose names are variables of Emacs.
fn special_variables() -> Value {
    let names = [
        "load-path",
        "features",
        "obarray",
        "pi",
        "debugger",
        "inhibit-quit",
        "default-directory",
        "x",
        "x-p",
        "t",
        "nil",
        "&key",
        "&rest",
        "has-x",
        "arg-x",
        "1.5",
        ":",
        "?a",
        "",
    ];
    let params = names.map(|it| param(it, json!({"type": "string"})));
    let mut document =
        document("Special", vec![method("load-path", params.to_vec(), json!(true))], json!({}));
    document["methods"][0]["paramStructure"] = json!("by-position");
    let callbacks = names.map(|it| method(it, Vec::new(), json!(true)));
    document["x-client-methods"] = json!(callbacks);
    document
}

/// Combinations of many alternatives, which `tsc` refuses, and long unions, which `pyright` refuses.
fn combinations() -> Value {
    let values: Vec<String> = (0..400).map(|it| format!("v{it}")).collect();
    let objects = |name: &str| -> Vec<Value> {
        (0..400)
            .map(|it| json!({"type": "object", "properties": {format!("{name}{it}"): {}}}))
            .collect()
    };
    let schemas = json!({
        "Values": {"allOf": [{"enum": values}, {"enum": values[10..]}]},
        "Objects": {"allOf": [{"anyOf": objects("a")}, {"anyOf": objects("b")}]},
        "None": {"allOf": [{"enum": [1]}, {"enum": [2]}]},
    });
    let methods =
        ["Values", "Objects", "None"].map(|it| method(it, vec![param("x", named(it))], named(it)));
    document("Combinations", methods.to_vec(), schemas)
}

fn types_that_contain_themselves() -> Value {
    let schemas = json!({
        "Tree": {"type": "array", "items": named("Tree")},
        "A": {"anyOf": [named("B"), {"type": "null"}]},
        "B": {"type": "array", "items": named("A")},
        "C": named("D"),
        "D": {"type": "object", "additionalProperties": named("C")},
        "E": {"type": "array", "prefixItems": [named("E"), named("C")], "items": false},
        "F": {"type": "object", "properties": {"class": named("F"), "x-y": named("G")}, "required": ["class"]},
        "G": {"allOf": [named("F"), {"type": "object", "properties": {"g": named("G")}}]},
        "H": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"h": named("H")}}]},
        "J": {"anyOf": [{"type": "array", "items": {"anyOf": [named("J"), named("K")]}}, {"type": "integer"}]},
        "K": {"anyOf": [{"type": "array", "items": named("J")}, {"type": "string"}]},
        "L": {"type": "object", "patternProperties": {"^a": named("L")}, "additionalProperties": named("L")},
        "M": {"allOf": [{"type": "array", "items": named("M")}, {"minItems": 1}]},
    });
    let names: Vec<String> = schemas.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    let methods = names.iter().map(|it| method(it, vec![param("x", named(it))], named(it)));
    document("Circles", methods.collect(), schemas)
}

/// Each schema as a named type, a param, an optional one, an entry, a result, and as the whole params.
fn every_schema() -> Value {
    let object =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    let mut one_of_required = object.clone();
    one_of_required["oneOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let schemas = json!({
        "Nothing": {"type": ["null"]}, "NoType": {"type": []}, "Never": false, "NeverArray": {"items": false},
        "NeverAny": {"anyOf": [false, false]}, "NeverMember": {"properties": {"a": false}, "required": ["a"]},
        "Kinds": {"type": ["string", "integer", "object", "array", "boolean", "null"], "items": {"type": "string"}},
        "Mixed": {"enum": [1, 1.0, "1", true, null, [], {}, -0.0, 1e308, u64::MAX, "a'b\"c\\", "\u{2028}", ""]},
        "Constant": {"const": {"a": 1}}, "NoValue": {"enum": []}, "ValueOrNull": {"enum": ["a", null]},
        "Tuple0": {"type": "array", "prefixItems": [], "items": false},
        "Tuple6": {"type": "array", "minItems": 2, "additionalItems": {"type": "integer"},
            "items": [{"type": "string"}, {"enum": ["a"]}, {"type": "null"}, object, false, true]},
        "TupleMost": {"type": "array", "prefixItems": [true, true], "maxItems": 1, "minItems": 5},
        "Conflict": {"allOf": [{"type": "string"}, {"type": "integer"}]},
        "ConflictMember": {"allOf": [object, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
        "Not": {"not": {}}, "Condition": {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": false},
        "OneOfRequired": one_of_required, "RequiredOnly": {"required": ["a", "b", "a"]},
        "Others": {"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        "Pattern": {"type": "string", "pattern": "*/([", "format": "\"\"\" */\n"},
        "AllOfAny": {"allOf": [{}, true]}, "AllOfOr": {"allOf": [object, {"anyOf": [object, {"type": "null"}]}]},
        "EmptyName": {"properties": {"": {"type": "string"}, "a": {"properties": {"": {}}}}},
    });
    let mut methods = Vec::new();
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let or_null = json!({"anyOf": [schema, {"type": "null"}]});
        let params = vec![
            json!({"name": "x", "required": true, "schema": named(name)}),
            param("y", schema.clone()),
            param("z", json!({"type": "array", "items": schema})),
            param("w", or_null),
        ];
        methods.push(method(name, params, schema.clone()));
        methods.push(method(&format!("{name}Ref"), Vec::new(), named(name)));
        let mut whole = method(&format!("{name}Whole"), Vec::new(), schema.clone());
        whole["x-params"] = schema.clone();
        methods.push(whole);
    }
    let mut document = document("Schemas", methods.clone(), schemas);
    document["x-client-methods"] = json!(methods);
    document
}

/// Editors and interpreters take settings, even code, from comments of a file.
fn variables_of_files(text: &str) -> Value {
    let mut document = document(text, vec![method("a", Vec::new(), json!(true))], json!({}));
    document["info"]["description"] = json!(text);
    document["methods"][0]["summary"] = json!(text);
    document
}
