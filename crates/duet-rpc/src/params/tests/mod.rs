//! Parameters that fit, and the errors of those that do not.
//!
//! A row is a type, a text for it, and its error, as `param: expected, not received`.

mod props;
mod types;

use std::collections::HashMap;
use std::num::NonZeroU8;

use allocation_counter::measure;
use duet_rpc_proto::message::{Id, ParamProblem, Params, write_error};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::{LARGEST_ASKED, explain_result, read};
use types::*;

/// Marks text of the remote that must not appear in an answer. The rows contain it too.
const CANARY: &str = "cAnArY";

fn params(text: &str) -> Params<'_> {
    match text.bytes().next() {
        None => Params::Absent,
        Some(b'n') => Params::Null,
        Some(b'[') => Params::Array(text),
        _ => Params::Object(text),
    }
}

/// The error as it goes on the wire; null if the parameters fit.
fn wire<T: DeserializeOwned>(text: &str) -> Value {
    let Err(error) = read::<T>(&params(text)) else { return Value::Null };
    let mut out = Vec::new();
    write_error(&mut out, &Id::NULL, &error);
    let response: Value = serde_json::from_slice(&out).expect("a response is JSON");
    response["error"].clone()
}

type Row = (fn(&str) -> Value, &'static str, &'static str);

fn check(rows: &[Row]) {
    for (wire, text, expect) in rows {
        let error = wire(text);
        assert_eq!(error["code"], -32602, "{text}");
        assert_eq!(error["message"], "Invalid params", "{text}");
        assert_eq!(said(&error), *expect, "{text}");
        assert!(!error.to_string().contains(CANARY), "E1: {text}: {error}");
    }
}

fn said(error: &Value) -> String {
    let word = |name| error["data"][name].as_str().unwrap_or("nothing");
    format!("{}: {}, not {}", word("param"), word("expected"), word("received"))
}

#[test]
fn p7_parameters_become_a_type() {
    assert_eq!(read::<(i64, String)>(&params(r#"[1,"a"]"#)).expect("the params fit").1, "a");
    let range: Range =
        read(&params(r#"{"start":{"line":1},"end":{"line":2}}"#)).expect("the params fit");
    assert_eq!((range.start.line, range.end.line), (1, 2));
    let range: Range = read(&params(r#"[{"line":1},[2]]"#)).expect("the params fit");
    assert_eq!((range.start.line, range.end.line), (1, 2));
    assert_eq!(
        read::<Level>(&params(r#"["warn"]"#)).expect("the params fit").level,
        Severity::Warn
    );
    for text in ["", "null", "{}", "[]", r#"{"more":[1]}"#] {
        read::<IgnoredAny>(&params(text)).expect("everything is ignored");
    }
}

#[test]
fn p7_absent_and_null_are_read_as_null_and_then_as_empty() {
    for text in ["", "null"] {
        read::<()>(&params(text)).expect("null is nothing");
        read::<Nothing>(&params(text)).expect("null is nothing");
        assert!(read::<Option<Range>>(&params(text)).expect("null is none").is_none());
        assert_eq!(read::<Value>(&params(text)).expect("null is a value"), Value::Null);
        assert_eq!(read::<Choices>(&params(text)).expect("all members are optional").verbose, None);
        read::<Empty>(&params(text)).expect("an empty array");
        assert!(read::<Vec<u8>>(&params(text)).expect("an empty array").is_empty());
        assert!(read::<HashMap<String, u8>>(&params(text)).expect("an empty object").is_empty());
    }
    check(&[
        (wire::<Level>, "", "level: string, not missing"),
        (wire::<Level>, "null", "level: string, not missing"),
        (wire::<(u8, u8)>, "", "params: array, not missing"),
        (wire::<(u8, u8)>, "null", "params: array, not null"),
        (wire::<Even>, "", "params: integer, not missing"),
        (wire::<Even>, "null", "params: integer, not null"),
        (wire::<Either>, "", "params: a valid value, not missing"),
    ]);
}

#[test]
fn p7_the_culprit_is_named_by_its_path() {
    type Points = HashMap<String, Point>;
    check(&[
        (wire::<Range>, r#"{"start":{"line":"cAnArY"}}"#, "start.line: integer, not string"),
        (wire::<Range>, r#"{"start":{"line":1},"end":[true]}"#, "end.line: integer, not boolean"),
        (wire::<Vec<Point>>, r#"[{"line":1},{"line":"cAnArY"}]"#, "[1].line: integer, not string"),
        (wire::<Choices>, r#"{"names":["a","b",3]}"#, "names[2]: string, not number"),
        (wire::<(u8, u8)>, r#"[1,"cAnArY"]"#, "[1]: integer, not string"),
        (wire::<Vec<Vec<u8>>>, "[[], [1, null]]", "[1][1]: integer, not null"),
        (wire::<Range>, "[1]", "start: object, not number"),
        (wire::<(u8, u8)>, r#"{"cAnArY":1}"#, "params: array, not object"),
        (wire::<Wrapped>, r#"{"inner":{"line":"cAnArY"}}"#, "inner.line: integer, not string"),
        (wire::<Choices>, r#"{"verbose":"cAnArY"}"#, "verbose: boolean, not string"),
        (wire::<Choices>, r#"{"at":{"line":"cAnArY"}}"#, "at.line: integer, not string"),
        // The error names the first wrong member in the text, not in the alphabet.
        (wire::<Range>, r#"{"start":1,"end":1}"#, "start: object, not number"),
        // The remote chooses the names in a map.
        (wire::<Points>, r#"{"cAnArY":{"line":"cAnArY"}}"#, "*.line: integer, not string"),
        (wire::<HashMap<u32, Vec<u8>>>, r#"{"7":["cAnArY"]}"#, "*[0]: integer, not string"),
        (wire::<HashMap<Topic, u8>>, r#"{"cAnArY":"cAnArY"}"#, "*: integer, not string"),
    ]);
}

#[test]
fn p7_errors_in_numbers_strings_and_arrays_name_the_expected_value() {
    check(&[
        (wire::<(u8,)>, "[300]", "[0]: integer from 0 to 255, not number"),
        (wire::<(u8,)>, "[-1]", "[0]: integer from 0 to 255, not number"),
        (wire::<(u8,)>, "[1.5]", "[0]: integer, not number"),
        (wire::<(i32,)>, "[-0]", "[0]: integer, not number"),
        (wire::<(i32,)>, "[1e3]", "[0]: integer, not number"),
        (
            wire::<(u64,)>,
            "[18446744073709551616]",
            "[0]: integer from 0 to 18446744073709551615, not number",
        ),
        (wire::<(i128,)>, "[true]", "[0]: integer, not boolean"),
        (wire::<(NonZeroU8,)>, "[0]", "[0]: integer in range, not 0, not number"),
        (wire::<(f32,)>, r#"["cAnArY"]"#, "[0]: number, not string"),
        (wire::<(f64,)>, "[1e999]", "[0]: a valid value, not number"),
        (wire::<(char,)>, r#"["cAnArY"]"#, "[0]: string of one character, not string"),
        (wire::<(String,)>, r#"["cAnArY\ud800"]"#, "[0]: a valid value, not string"),
        (wire::<(bool,)>, "[0]", "[0]: boolean, not number"),
        (wire::<(Nothing,)>, r#"["cAnArY"]"#, "[0]: null, not string"),
        (wire::<()>, "{}", "params: null, not object"),
        (wire::<(Text,)>, "[1]", "[0]: array, not number"),
        (wire::<(u8, u8)>, "[1]", "params: array of 2 elements, not array"),
        (wire::<(u8, u8)>, "[1, 2, 3]", "params: array of 2 elements, not array"),
        (wire::<Pair>, "[1]", "params: array of 2 elements, not array"),
        (wire::<Pair>, r#"[1, "a", 3]"#, "params: array of 2 elements, not array"),
        (wire::<[u8; 1]>, "[]", "params: array of 1 element, not array"),
        (wire::<Point>, "[1, 2]", "params: array of fewer elements, not array"),
        (wire::<HashMap<u32, u8>>, r#"{"cAnArY":1}"#, "params: integer as member name, not object"),
        (
            wire::<HashMap<u8, u8>>,
            r#"{"300":1}"#,
            "params: integer from 0 to 255 as member name, not object",
        ),
        (wire::<HashMap<bool, u8>>, r#"{"0":1}"#, "params: boolean as member name, not object"),
    ]);
}

#[test]
fn p7_missing_extra_and_duplicate_members_are_named() {
    check(&[
        (wire::<Range>, "{}", "start: object, not missing"),
        (wire::<Range>, r#"{"start":{}}"#, "start.line: integer, not missing"),
        (wire::<Range>, r#"{"start":{"line":1},"end":{}}"#, "end.line: integer, not missing"),
        (wire::<Vec<Range>>, r#"[{"start":[1]}]"#, "[0].end: object, not missing"),
        // The value may have any type, so the error names no type. The null after it is not the culprit.
        (wire::<(Hard, u8)>, r#"[{"raw":1,"wide":1}, null]"#, "[0].any: value, not missing"),
        (wire::<Strict>, r#"{"cAnArY":1}"#, "params: object without other members, not object"),
        (wire::<Strict>, r#"{"at":{"x":1}}"#, "at: object without other members, not object"),
        (
            wire::<Point>,
            r#"{"line":1,"line":2}"#,
            "params: object with one member line, not object",
        ),
        (
            wire::<Range>,
            r#"{"start":{"line":1,"line":1}}"#,
            "start: object with one member line, not object",
        ),
    ]);
}

#[test]
fn e4_p7_params_by_position_are_named_where_a_struct_knows_their_names() {
    check(&[
        (wire::<Range>, "[]", "start: object, not missing"),
        (wire::<Range>, r#"[{"line":1}]"#, "end: object, not missing"),
        (wire::<Range>, r#"[{"line":1},{}]"#, "end.line: integer, not missing"),
        (wire::<Range>, r#"[{"line":1},[]]"#, "end.line: integer, not missing"),
        (wire::<Range>, r#"[[1],["cAnArY"]]"#, "end.line: integer, not string"),
        (wire::<Range>, "[[1],[2],[3]]", "params: array of fewer elements, not array"),
        (wire::<Vec<Range>>, "[[[1],[2]],[[1],[true]]]", "[1].end.line: integer, not boolean"),
        (wire::<Wrapped>, r#"[["cAnArY"]]"#, "inner.line: integer, not string"),
        (wire::<Choices>, "[1]", "verbose: boolean, not number"),
        (wire::<Drawing>, r#"[{"Square":["cAnArY"]}]"#, "shape.Square.side: integer, not string"),
        (wire::<Drawing>, r#"[{"Square":[]}]"#, "shape.Square.side: integer, not missing"),
        // Elements before the missing one may be left out.
        (wire::<Late>, "[]", "needed: value, not missing"),
        (wire::<Late>, r#"["cAnArY"]"#, "spare: integer, not string"),
        (wire::<Late>, "[1]", "needed: boolean, not missing"),
        // A tuple has no names.
        (wire::<(u8, Point)>, r#"[1,["cAnArY"]]"#, "[1].line: integer, not string"),
        (wire::<Pair>, r#"["cAnArY"]"#, "[0]: integer, not string"),
        // serde lists an alias as one more member, so the positions are not known.
        (wire::<Renamed>, r#"["cAnArY"]"#, "[0]: integer, not string"),
        (wire::<Renamed>, "[1]", "params: array of 2 elements, not array"),
        (wire::<Renamed>, r#"{"first":1,"b":"cAnArY"}"#, "b: boolean, not string"),
        (wire::<Spares>, r#"[1,"cAnArY"]"#, "[1]: integer, not string"),
        // A struct of optional members asks for each of them.
        (wire::<Optional>, r#"[1,"cAnArY"]"#, "b: integer, not string"),
        (wire::<(u8, Optional)>, r#"[1,["cAnArY"]]"#, "[1].a: integer, not string"),
        (wire::<Vec<Optional>>, r#"[[],[1,2],[1,"cAnArY"]]"#, "[2].b: integer, not string"),
    ]);
}

#[test]
fn p7_names_are_looked_for_in_a_bounded_number_of_steps() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for (depth, param) in [(3, "next.next.value"), (100, "")] {
        let error = wire::<Chain>(&nested(depth).replace("[]", "[null]"));
        assert!(error["data"]["param"].as_str().is_some_and(|it| it.starts_with(param)), "{error}");
    }
}

#[test]
fn p7_wrong_enum_values_are_located() {
    check(&[
        (wire::<Level>, r#"{"level":1}"#, "level: string, not number"),
        (wire::<Level>, r#"{"level":{}}"#, "level: object with one member, not object"),
        (
            wire::<Level>,
            r#"{"level":{"cAnArY":1}}"#,
            "level: an accepted value as member name, not object",
        ),
        (wire::<Level>, r#"{"level":{"info":"cAnArY"}}"#, "level.info: null, not string"),
        (wire::<Drawing>, r#"{"shape":"Circle"}"#, "shape: object, not string"),
        (wire::<Drawing>, r#"{"shape":{"Circle":"cAnArY"}}"#, "shape.Circle: integer, not string"),
        (wire::<Drawing>, r#"{"shape":{"Square":{}}}"#, "shape.Square.side: integer, not missing"),
        (
            wire::<Drawing>,
            r#"{"shape":{"Line":[[1],{"line":"cAnArY"}]}}"#,
            "shape.Line[1].line: integer, not string",
        ),
        (
            wire::<Drawing>,
            r#"{"shape":{"Line":[[1]]}}"#,
            "shape.Line: array of 2 elements, not array",
        ),
        (
            wire::<Drawing>,
            r#"{"shape":{"Dot":null,"cAnArY":1}}"#,
            "shape: object with one member, not object",
        ),
        (wire::<Tagged>, r#"{"kind":1}"#, "kind: string, not number"),
        (wire::<Tagged>, r#"{"cAnArY":"open"}"#, "kind: string, not missing"),
        (wire::<Tagged>, r#"{"kind":"open"}"#, "path: string, not missing"),
        (
            wire::<Tagged>,
            r#"{"kind":"close","force":"cAnArY"}"#,
            "params: a valid member (boolean), not string",
        ),
        (wire::<Adjacent>, r#"{"kind":"open"}"#, "data: object, not missing"),
        (wire::<Adjacent>, r#"{"kind":"open","data":{}}"#, "data.line: integer, not missing"),
        (wire::<Adjacent>, r#"{"kind":2}"#, "kind: string, not number"),
        (wire::<Holder>, r#"{"either":"cAnArY"}"#, "either: a valid value, not string"),
    ]);
}

#[test]
fn p7_a_closed_list_is_shown_with_the_string_that_was_sent() {
    let long = "x".repeat(100);
    let severities = json!(["info", "warn"]);
    let row = |param: &str, expected: &str, received: &str, accepted: &Value| {
        json!({
            "param": param, "expected": expected, "received": received, "accepted": accepted,
        })
    };
    let one = "one of the accepted values";
    let rows = [
        (wire::<Level>(r#"{"level":"loud"}"#), row("level", one, "loud", &severities)),
        (wire::<Level>(r#"["loud"]"#), row("level", one, "loud", &severities)),
        (wire::<Level>("[]"), row("level", "string", "missing", &severities)),
        (wire::<Level>("[7]"), row("level", "string", "number", &severities)),
        (
            wire::<Level>(&format!(r#"{{"level":"{long}"}}"#)),
            row("level", one, &long[..64], &severities),
        ),
        (wire::<Level>("{}"), row("level", "string", "missing", &severities)),
        (wire::<Level>(r#"{"level":7}"#), row("level", "string", "number", &severities)),
        (wire::<Tagged>(r#"{"kind":"move"}"#), row("kind", one, "move", &json!(["open", "close"]))),
    ];
    for (error, expect) in rows {
        assert_eq!(error["data"], expect);
    }
}

#[test]
fn p7_errors_in_flattened_params_are_located() {
    check(&[
        (wire::<Flat>, r#"{"id":"cAnArY","line":1}"#, "id: integer, not string"),
        (
            wire::<Flat>,
            r#"{"id":1,"line":"cAnArY"}"#,
            "params: a valid member (integer), not string",
        ),
        (wire::<Flat>, r#"{"id":1,"cAnArY":1}"#, "line: integer, not missing"),
        (wire::<Flat>, r#"{"line":1}"#, "id: integer, not missing"),
        (wire::<Rest>, r#"{"cAnArY":{"a":[1,"cAnArY"]}}"#, "id: integer, not missing"),
        (wire::<(Rest,)>, r#"["cAnArY"]"#, "[0]: object, not string"),
    ]);
}

#[test]
fn e1_serde_message_of_the_application_is_not_sent() {
    check(&[
        (wire::<Custom>, r#"{"even":3}"#, "even: a valid value, not number"),
        (wire::<Custom>, r#"{"loud":"cAnArY"}"#, "loud: a valid value, not string"),
        (wire::<Custom>, r#"{"loud":[]}"#, "loud: string, not array"),
        // The text of `expecting` does not depend on the value, so it is sent.
        (wire::<Custom>, r#"{"colour":"cAnArY"}"#, "colour: a colour, as #rrggbb, not string"),
        (wire::<Custom>, r#"{"colour":{"cAnArY":1}}"#, "colour: a colour, as #rrggbb, not object"),
    ]);
}

#[test]
fn p7_error_names_the_wrong_param_and_not_a_valid_one() {
    let hard = |raw: &str| {
        let number = "-170141183460469231731687303715884105728";
        format!(r#"{{"raw":{raw},"any":{raw},"wide":{number},"bytes":"é","last":"cAnArY"}}"#)
    };
    for raw in ["null", "[1, {\"a\": 1e2}]", "18446744073709551616", r#""cAnArY""#] {
        let said = wire::<Hard>(&hard(raw))["data"].clone();
        assert_eq!(said, json!({"param": "last", "expected": "boolean", "received": "string"}));
    }
}

#[test]
fn p7_large_parameters_are_read_again_only_once() {
    for (size, level, line) in [
        (0, "level: string, not missing", "[1].end.line: integer, not string"),
        (LARGEST_ASKED, "level: value, not missing", "[1][1][0]: integer, not string"),
    ] {
        let pad = "x".repeat(size);
        let by_name = format!(r#"{{"pad":"{pad}"}}"#);
        let by_position = format!(r#"["{pad}",[[1],["cAnArY"]]]"#);
        let rows =
            [(wire::<Level>(&by_name), level), (wire::<(String, Range)>(&by_position), line)];
        for (error, expect) in rows {
            assert_eq!(said(&error), expect);
        }
    }
}

#[test]
fn p7_large_parameters_cost_no_more_memory_than_their_text() {
    type Explain = fn(&str) -> ParamProblem;
    let rows: [(Explain, &str, &str, &str); 6] = [
        (explain_result::<(IgnoredAny, u8)>, "[[", "1,", "1], null]"),
        (explain_result::<(Range, u8)>, "[[", "1,", "1], null]"),
        (explain_result::<(Value, Level)>, "[1, [\"", "x", "\"]]"),
        (explain_result::<Point>, "{", r#""a":[],"#, r#""a":1}"#),
        (explain_result::<Drawing>, r#"{"shape":{"#, r#""a":[],"#, r#""a":1}}"#),
        (explain_result::<HashMap<u32, u8>>, "{\"", "7", "\": 1}"),
    ];
    for (explain, start, part, end) in rows {
        let text = format!("{start}{}{end}", part.repeat((4 << 20) / part.len()));
        let cost = measure(|| drop(explain(&text)));
        assert!(cost.bytes_max < text.len() as u64 + (1 << 16), "{start}: {cost:?}");
    }
}

#[test]
fn m9_parameters_that_are_nested_deeply_are_refused_and_harm_nothing() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(wire::<Nested>(&nested(127)), Value::Null);
    for depth in [128, 129, 130, 131, 1_024, 100_000] {
        let whole = json!({"param": "params", "expected": "valid parameters", "received": "array"});
        assert_eq!(wire::<Nested>(&nested(depth))["data"], whole, "{depth}");
        assert_eq!(wire::<(Value, u8)>(&nested(depth))["code"], -32602, "{depth}");
    }
    // Deep and large: one pass for each level would take too long.
    let large = nested(100).replacen("[]", &format!("[{}[]]", "[],".repeat(1 << 20)), 1);
    let error = wire::<(Nested, u8)>(&format!("[{large},null]"));
    assert_eq!(error["data"]["expected"], "valid parameters");
    // A type that does not read that deep accepts it.
    let error = wire::<Range>(&format!(r#"{{"start":{},"end":1}}"#, nested(1_024)));
    assert_eq!(error["data"]["param"], "start.line");
}
