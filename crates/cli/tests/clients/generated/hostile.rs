//! The worst document: every name is a keyword, not an identifier or taken, and every text tries to end its comment.

use serde_json::{Value, json};

/// Ends comments, strings and docstrings, and starts code, in each language.
const TEXT: &str = "*/ \"\"\" ''' \\ \\\" ;; // `x` ${y} \\[foo] \\{bar} (defun\n(in column 0\n\r\n\0\u{1b}\u{2028} \
                    \u{202e} #| @ts-ignore \\";

const NAMES: [&str; 40] = [
    "class",
    "delete",
    "then",
    "constructor",
    "toString",
    "int",
    "list",
    "str",
    "self",
    "type",
    "import",
    "from",
    "$/a.b",
    "a.b",
    "a_b",
    "aB",
    "1st",
    "größe",
    "🦀",
    "",
    "nil",
    "t",
    "error",
    "timeout",
    "connection",
    "serve",
    "defun",
    "async",
    "await",
    "None",
    "__proto__",
    "..",
    "serve_2",
    "callbacks",
    "typing",
    "duet_rpc",
    "params",
    "is-given-p",
    "is-given",
    "a name that is much longer than any name in a program should be, so that lines become long",
];

/// A document without methods, title and version.
pub(super) fn empty() -> Value {
    json!({"openrpc": "1.3.2", "info": {"title": "", "version": ""}, "methods": []})
}

pub(super) fn hostile() -> Value {
    json!({
        "openrpc": "1.3.2",
        "info": {"title": TEXT, "version": TEXT, "description": TEXT},
        "methods": NAMES.iter().enumerate().map(|(at, name)| method(at, name)).collect::<Vec<_>>(),
        "x-client-methods": NAMES.iter().enumerate().map(|(at, name)| callback(at, name)).collect::<Vec<_>>(),
        "components": {"schemas": schemas()},
    })
}

fn method(at: usize, name: &str) -> Value {
    let structure = ["by-name", "by-position", "either"][at % 3];
    json!({
        "name": name,
        "summary": TEXT,
        "description": TEXT,
        "deprecated": true,
        // A few methods have all names as params.
        "params": if at.is_multiple_of(13) { params() } else { Vec::new() },
        "paramStructure": structure,
        "result": {"name": TEXT, "schema": {"$ref": "#/components/schemas/Node"}},
        "errors": [{"code": 1001 + at % 5, "message": TEXT}, {"code": -7, "message": name, "data": TEXT}],
    })
}

fn callback(at: usize, name: &str) -> Value {
    let result = json!({"name": "r", "schema": {"type": "object", "properties": members()}});
    let mut callback = json!({
        "name": name,
        "summary": TEXT,
        "params": if at.is_multiple_of(13) { params() } else { Vec::new() },
    });
    if at.is_multiple_of(2) {
        callback["result"] = result;
    }
    callback
}

fn params() -> Vec<Value> {
    let param = |(at, name): (usize, &&str)| {
        let schema = json!({"type": "string", "description": TEXT, "default": TEXT});
        json!({"name": name, "required": at % 2 == 0, "summary": TEXT, "description": TEXT, "schema": schema})
    };
    // Required params come first.
    let mut params: Vec<Value> = NAMES.iter().enumerate().map(param).collect();
    params.sort_by_key(|param| param["required"] != true);
    params
}

fn members() -> Value {
    NAMES
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "string", "description": TEXT})))
        .collect()
}

/// Every form of a schema.
fn schemas() -> Value {
    let json_type = json!({"$ref": "#/components/schemas/Json"});
    json!({
        "Node": {
            "type": "object",
            "description": TEXT,
            "properties": {
                "inside": {"type": "object", "properties": members(), "required": ["class"]},
                "next": {"$ref": "#/components/schemas/Node"},
                "deep": {"type": "object", "properties": {"deep": {"type": "object", "properties": {"x": {"type": "integer"}}}}},
            },
            "required": ["next"],
        },
        "Plain": {"type": "object", "properties": {
            "a": {"type": "integer"},
            "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "number"}}}},
            "Plain": {"type": ["string", "null"]},
        }},
        "Json": {"anyOf": [
            {"type": ["null", "boolean", "number", "string"]},
            {"type": "array", "items": json_type},
            {"type": "object", "additionalProperties": json_type},
        ]},
        "Values": {"enum": ["a", TEXT, 1, -1, 1.5, true, null, [1], {"a": 1}]},
        "Literals": {"enum": ["a", TEXT, 1, -1, true, null, 12_345_678_901_234_567_890_u64, 1e300]},
        "Constant": {"const": TEXT},
        "Nothing": {"const": null},
        "Tagged": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a b"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "class"}}, "required": ["kind"]},
            {"const": "plain"},
            {"const": "other"},
        ]},
        "Tuple": {"type": "array", "items": [{"type": "integer"}, {"type": ["string", "null"]}], "minItems": 1},
        "Pair": {"type": "array", "prefixItems": [{"type": "integer"}, {}], "items": false, "minItems": 2},
        "Map": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
        "Mixed": {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        "Pattern": {"type": "object", "patternProperties": {"^x": {"type": "integer"}}},
        "All": {"allOf": [
            {"$ref": "#/components/schemas/Plain"},
            {"type": "object", "properties": {"extra": {"type": "string"}}, "required": ["extra", "a"]},
        ]},
        "AllScalar": {"allOf": [{"type": "string"}, {"enum": ["a", "b"]}]},
        "Not": {"not": {"type": "string"}},
        "Every": true,
        "No": false,
        "Open": {"type": "object"},
        "Closed": {"type": "object", "additionalProperties": false},
        "plain": {"type": "string"},
        "Promise": {"type": "string"},
        "Error": {"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Promise"}}},
        "int": {"type": "integer"},
        "": {"type": "string"},
        "class": {"type": "string"},
        "None": {"type": "object", "properties": {"None": {"type": "null"}}},
        "Nullable": {"type": "array", "items": {"type": ["string", "null"]}},
        "Array": {"type": "array"},
    })
}
