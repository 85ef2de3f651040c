//! The errors of section 3 as they go out, and what never goes out (E1, M12).

use duet_rpc_proto::Limits;
use duet_rpc_proto::frame::{Decoder, Framing};
use duet_rpc_proto::message::{
    Code, ErrorObject, Id, Incoming, ParamProblem, Reason, Reply, write_error,
};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::Text;
use serde_json::{Value, json};

fn error_json(error: &ErrorObject) -> Value {
    let mut out = Vec::new();
    write_error(&mut out, &Id::NULL, error);
    let mut answer: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(answer["jsonrpc"], "2.0");
    answer["error"].take()
}

#[test]
fn m12_and_section_3_the_errors_as_they_go_out() {
    let long_name = "é".repeat(200);
    let rows = [
        (ErrorObject::parse_error(), json!({"code": -32700, "message": "Parse error"})),
        (ErrorObject::invalid_request(), json!({"code": -32600, "message": "Invalid Request"})),
        (
            ErrorObject::method_not_found("no/such"),
            json!({"code": -32601, "message": "Method not found: no/such"}),
        ),
        (
            ErrorObject::method_not_found(&long_name),
            json!({"code": -32601, "message": format!("Method not found: {}", "é".repeat(128))}),
        ),
        (
            ErrorObject::invalid_params(ParamProblem::wrong_type("level", "string", "missing")),
            json!({"code": -32602, "message": "Invalid params",
                "data": {"param": "level", "expected": "string", "received": "missing"}}),
        ),
        (
            ErrorObject::invalid_params(
                ParamProblem::wrong_type("level", "string", "missing").accepting(&["debug"]),
            ),
            json!({"code": -32602, "message": "Invalid params",
                "data": {"param": "level", "expected": "string", "received": "missing",
                    "accepted": ["debug"]}}),
        ),
        (
            ErrorObject::invalid_params(ParamProblem::not_accepted(
                "level",
                &"x".repeat(100),
                &["debug", "info"],
            )),
            json!({"code": -32602, "message": "Invalid params",
                "data": {"param": "level", "expected": "one of the accepted values",
                    "received": "x".repeat(64), "accepted": ["debug", "info"]}}),
        ),
        (ErrorObject::internal_error(), json!({"code": -32603, "message": "Internal error"})),
        (
            ErrorObject::server_busy(1024),
            json!({"code": -32000, "message": "Server busy",
                "data": {"reason": "overloaded", "limit": 1024}}),
        ),
        (ErrorObject::request_cancelled(), json!({"code": -32800, "message": "Request cancelled"})),
        (
            ErrorObject::application(
                Code(-32050),
                "Not today",
                serde_json::value::RawValue::from_string("[ 1 ]".to_owned()).ok(),
            ),
            json!({"code": -32050, "message": "Not today", "data": [1]}),
        ),
    ];
    for (error, expect) in rows {
        assert_eq!(error_json(&error), expect);
    }
    for (reason, name) in [
        (Reason::UnsupportedContentType, "unsupported-content-type"),
        (Reason::BadCharset, "bad-charset"),
        (Reason::Oversize, "oversize"),
        (Reason::HeaderTooLarge, "header-too-large"),
        (Reason::InvalidIdType, "invalid-id-type"),
        (Reason::BatchNotSupported, "batch-not-supported"),
        (Reason::DuplicateId, "duplicate-id"),
    ] {
        let error = error_json(&ErrorObject::invalid_request_because(reason));
        assert_eq!((&error["code"], &error["data"]), (&json!(-32600), &json!({"reason": name})));
    }
}

#[test]
fn e1_no_piece_of_a_payload_is_in_an_answer() {
    let canary = "CANARY";
    for json in [
        r#"{"jsonrpc":"CANARY","id":1,"method":"a"}"#,
        r#"{"jsonrpc":"2.0","id":{"CANARY":1},"method":"a"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":["CANARY"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":"CANARY"}"#,
        r#"{"jsonrpc":"2.0","id":1,"CANARY":1}"#,
        r#""CANARY""#,
        r#"[["CANARY"],"CANARY",{"CANARY":1}]"#,
    ] {
        let text = Text::check(json.as_bytes(), 128).expect(json);
        for batch in [BatchRule::Allow, BatchRule::Reject] {
            let incoming = Incoming::classify(&text, batch, &Limits::default());
            let replies: Vec<Reply> = match incoming {
                Incoming::Invalid(reply) => vec![reply],
                Incoming::Batch(entries) => entries
                    .map(|entry| match entry {
                        Incoming::Invalid(reply) => reply,
                        other => panic!("{other:?}"),
                    })
                    .collect(),
                other => panic!("{other:?}"),
            };
            for reply in replies {
                let mut out = Vec::new();
                reply.write(&mut out);
                let answer = String::from_utf8(out).expect("UTF-8");
                assert!(!answer.contains(canary), "{json}: {answer}");
            }
        }
        let limits = Limits::default();
        let incoming = Incoming::classify(&text, BatchRule::Allow, &limits);
        assert!(!format!("{text:?} {incoming:?}").contains(canary), "nor in debug output");
    }
    let not = Text::check(b"{\"CANARY\": CANARY}", 128).expect_err("not JSON");
    assert!(!format!("{not} {not:?}").contains(canary));
}

#[test]
fn e1_no_debug_output_shows_what_was_received() {
    let params = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":["CANARY"]}"#;
    let result = r#"{"jsonrpc":"2.0","id":1,"result":["CANARY"]}"#;
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"message":"CANARY","data":"CANARY"}}"#;
    for json in [params, result, error] {
        let text = Text::check(json.as_bytes(), 128).expect("JSON");
        let incoming = Incoming::classify(&text, BatchRule::Allow, &Limits::default());
        let mut shown = format!("{incoming:?}");
        if let Incoming::Response(response) = &incoming {
            shown += &format!("{:?}", response.settled.error());
        }
        let mut decoder = Decoder::new(Framing::Ndjson, &Limits::default());
        assert_eq!(decoder.feed(json.as_bytes()), json.len());
        shown += &format!("{decoder:?}");
        assert!(!shown.contains("CANARY"), "{shown}");
    }
}
