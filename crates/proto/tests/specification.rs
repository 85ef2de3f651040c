//! Examples of the JSON-RPC 2.0 specification, section 7, compared by meaning. A small router on
//! the core alone serves them.

use duet_rpc_proto::frame::{Decoder, Event, Framing};
use duet_rpc_proto::message::{ErrorObject, Incoming, Params, Reply, write_error, write_result};
use duet_rpc_proto::{Limits, Profile};
use serde_json::{Value, json};

/// Serves one text, and returns the answer.
fn serve(text: &str) -> Option<Value> {
    let profile = Profile::agent();
    let mut decoder = Decoder::new(Framing::Lsp, &profile.limits);
    let header = format!("Content-Length: {}\r\n\r\n", text.len());
    assert_eq!(decoder.feed(header.as_bytes()), header.len());
    assert_eq!(decoder.feed(text.as_bytes()), text.len());
    let answer = match decoder.next_event().expect("a frame is whole") {
        Event::Fault(fault) => Some(written(|out| Reply::to_fault(&fault).write(out))),
        Event::Frame(text) => answer(Incoming::classify(&text, profile.batch, &profile.limits)),
    };
    assert!(decoder.next_event().is_none());
    answer
}

fn answer(incoming: Incoming<'_>) -> Option<Value> {
    match incoming {
        Incoming::Request(request) => {
            Some(written(|out| match method(&request.method, request.params) {
                Some(result) => write_result(out, request.id, &result).expect("a Value is JSON"),
                None => {
                    let error = ErrorObject::method_not_found(&request.method);
                    write_error(out, request.id, &error);
                }
            }))
        }
        Incoming::Invalid(reply) => Some(written(|out| reply.write(out))),
        Incoming::Batch(entries) => {
            let answers: Vec<_> = entries.filter_map(answer).collect();
            (!answers.is_empty()).then(|| answers.into())
        }
        Incoming::Notification(_) | Incoming::Response(_) | Incoming::InvalidResponse(_) => None,
    }
}

fn method(name: &str, params: Params<'_>) -> Option<Value> {
    match name {
        "subtract" => {
            let named = |value: &Value, name: &str, place: usize| {
                value.get(name).or(value.get(place)).and_then(Value::as_i64)
            };
            let value: Value = params.parse().ok()?;
            let (minuend, subtrahend) =
                (named(&value, "minuend", 0)?, named(&value, "subtrahend", 1)?);
            Some(json!(minuend - subtrahend))
        }
        "sum" => {
            let numbers: Vec<i64> = params.parse().ok()?;
            Some(json!(numbers.iter().sum::<i64>()))
        }
        "get_data" => Some(json!(["hello", 5])),
        _ => None,
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    serde_json::from_slice(&out).expect("answers are JSON")
}

fn result(id: impl Into<Value>, result: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "result": result.into(), "id": id.into()})
}

fn error(id: impl Into<Value>, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": code}, "id": id.into()})
}

/// Compares by meaning. Of an expected error, only the code counts: we chose the message.
fn same(found: &Value, expect: &Value) -> bool {
    match (found, expect) {
        (Value::Array(found), Value::Array(expect)) => {
            found.len() == expect.len() && found.iter().zip(expect).all(|(a, b)| same(a, b))
        }
        _ => {
            found["jsonrpc"] == expect["jsonrpc"]
                && found["id"] == expect["id"]
                && found.get("result") == expect.get("result")
                && found["error"]["code"] == expect["error"]["code"]
        }
    }
}

#[test]
fn m6_the_examples_of_the_specification() {
    let (invalid, not_json) = (error((), -32600), error((), -32700));
    let rows = [
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
            Some(result(1, 19)),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
            Some(result(2, -19)),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
            Some(result(3, 19)),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
            Some(result(4, 19)),
        ),
        (r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, None),
        (r#"{"jsonrpc": "2.0", "method": "foobar"}"#, None),
        (r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#, Some(error("1", -32601))),
        (r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#, Some(not_json.clone())),
        (r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#, Some(invalid.clone())),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
                {"jsonrpc": "2.0", "method"]"#,
            Some(not_json),
        ),
        ("[]", Some(invalid.clone())),
        ("[1]", Some(json!([invalid]))),
        ("[1,2,3]", Some(json!([invalid, invalid, invalid]))),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
                {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
                {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
                {"foo": "boo"},
                {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
                {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]"#,
            Some(json!([
                result("1", 7),
                result("2", 19),
                invalid,
                error("5", -32601),
                result("9", json!(["hello", 5])),
            ])),
        ),
        (
            r#"[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
                {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]"#,
            None,
        ),
    ];
    for (text, expect) in rows {
        let found = serve(text);
        let alike = found.is_some() == expect.is_some()
            && found.iter().zip(&expect).all(|(found, expect)| same(found, expect));
        assert!(alike, "{text}\n  found {found:?}\n  not   {expect:?}");
    }
}

#[test]
fn m6_a_batch_over_its_limit_is_refused_as_one() {
    let entries = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    let limit = Limits::default().batch_entries;
    let served = serve(&entries(limit)).expect("it is answered");
    assert_eq!(served.as_array().map(Vec::len), Some(limit));
    let refused = serve(&entries(limit + 1)).expect("it is answered");
    assert_eq!(refused["error"]["data"]["reason"], "oversize");
}
