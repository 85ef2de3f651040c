//! Outgoing errors (section 3), and content that never goes out (E1, M12).

use duet_rpc_proto::Limits;
use duet_rpc_proto::fault::{Fault, FaultKind, Malformed};
use duet_rpc_proto::frame::{Decoder, Framing};
use duet_rpc_proto::message::{
    Code, ErrorObject, Id, Incoming, InvalidResponseReason, ParamProblem, Params, Reason, Settled,
    write_error,
};
use duet_rpc_proto::notice::{Notice, Severity};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::{NotJson, Text, Why};
use serde_json::{Value, json};

fn error_json(error: &ErrorObject) -> Value {
    let mut out = Vec::new();
    write_error(&mut out, &Id::NULL, error);
    let mut answer: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(answer["jsonrpc"], "2.0");
    answer["error"].take()
}

#[test]
fn m12_and_section_3_errors_are_written_as_specified() {
    let long_name = "é".repeat(200);
    let raw = serde_json::value::RawValue::from_string("[ 1 ]".to_owned()).ok();
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
        (ErrorObject::internal_error(), json!({"code": -32603, "message": "Internal error"})),
        (
            ErrorObject::server_busy(Code::SERVER_BUSY, 1024),
            json!({"code": -32000, "message": "Server busy",
                "data": {"reason": "overloaded", "limit": 1024}}),
        ),
        (ErrorObject::request_cancelled(), json!({"code": -32800, "message": "Request cancelled"})),
        (
            ErrorObject::application(Code(-32050), "Not today", raw),
            json!({"code": -32050, "message": "Not today", "data": [1]}),
        ),
    ];
    for (error, expect) in rows {
        assert_eq!(error_json(&error), expect);
    }
    let wrong_type = || ParamProblem::wrong_type("level", "string", "missing");
    for (problem, data) in [
        (wrong_type(), json!({"param": "level", "expected": "string", "received": "missing"})),
        (
            wrong_type().accepting(&["debug"]),
            json!({"param": "level", "expected": "string", "received": "missing",
                "accepted": ["debug"]}),
        ),
        (
            ParamProblem::not_accepted("level", &"x".repeat(100), &["debug", "info"]),
            json!({"param": "level", "expected": "one of the accepted values",
                "received": "x".repeat(64), "accepted": ["debug", "info"]}),
        ),
    ] {
        let expect = json!({"code": -32602, "message": "Invalid params", "data": data});
        assert_eq!(error_json(&ErrorObject::invalid_params(problem)), expect);
    }
    for (reason, name) in [
        (Reason::UnsupportedContentType, "unsupported-content-type"),
        (Reason::BadCharset, "bad-charset"),
        (Reason::Oversize, "oversize"),
        (Reason::HeaderTooLarge, "header-too-large"),
        (Reason::InvalidIdType, "invalid-id-type"),
        (Reason::BatchNotSupported, "batch-not-supported"),
        (Reason::DuplicateId, "duplicate-id"),
        (Reason::ShuttingDown, "shutting-down"),
        (Reason::UserNotAllowed, "user-not-allowed"),
    ] {
        let error = error_json(&ErrorObject::invalid_request_because(reason));
        assert_eq!((&error["code"], &error["data"]), (&json!(-32600), &json!({"reason": name})));
    }
}

#[test]
fn e1_an_error_answer_quotes_nothing_of_a_payload() {
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
            let messages = match Incoming::classify(&text, batch, &Limits::default()) {
                Incoming::Batch(entries) => entries.collect(),
                message => vec![message],
            };
            for message in messages {
                let Incoming::Invalid(reply) = message else { panic!("{message:?}") };
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
fn e1_debug_output_shows_nothing_that_was_received() {
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

#[test]
fn e3_an_error_object_gives_its_reason_and_param_to_the_process() {
    let rows = [
        (ErrorObject::parse_error(), None, None, "Parse error (-32700)"),
        (
            ErrorObject::invalid_request_because(Reason::DuplicateId),
            Some(Reason::DuplicateId),
            None,
            "Invalid Request (-32600)",
        ),
        (
            ErrorObject::invalid_params(ParamProblem::wrong_type("level", "string", "number")),
            None,
            Some(("level", "string")),
            "Invalid params (-32602)",
        ),
        (ErrorObject::server_busy(Code::SERVER_BUSY, 7), None, None, "Server busy (-32000)"),
        // The name comes from the remote; control characters are escaped.
        (
            ErrorObject::method_not_found("a\n\u{1b}[2J"),
            None,
            None,
            "Method not found: a\\n\\u{1b}[2J (-32601)",
        ),
    ];
    for (error, reason, param, shown) in rows {
        let told = error.param_problem().map(|problem| (problem.param(), problem.expected()));
        assert_eq!((error.reason(), told), (reason, param), "{shown}");
        assert_eq!(error.to_string(), shown);
    }
}

/// Checks that all of these texts differ.
fn all_differ(said: impl IntoIterator<Item = String>) {
    let mut said: Vec<_> = said.into_iter().collect();
    assert!(said.iter().all(|text| text.len() > 10 && text.contains(' ')), "{said:?}");
    let count = said.len();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), count, "{said:?}");
}

#[test]
fn g5_every_fault_and_notice_has_its_own_text_for_the_log() {
    let not_json = |why| FaultKind::NotJson(NotJson { at: 3, why });
    let kinds = [
        FaultKind::Malformed(Malformed::HeaderLine),
        FaultKind::Malformed(Malformed::BareLineFeed),
        FaultKind::Malformed(Malformed::LengthValue),
        FaultKind::Malformed(Malformed::LengthConflict),
        FaultKind::Malformed(Malformed::LengthMissing),
        FaultKind::Malformed(Malformed::ZeroLength),
        FaultKind::Malformed(Malformed::NoPrefix),
        FaultKind::Malformed(Malformed::NoTerminator),
        FaultKind::Malformed(Malformed::ZeroByte),
        not_json(Why::Syntax),
        not_json(Why::TooDeep),
        not_json(Why::NotUtf8),
        not_json(Why::TooLong),
        FaultKind::CutShort,
        FaultKind::Oversize,
        FaultKind::HeaderTooLarge,
        FaultKind::UnsupportedContentType,
        FaultKind::BadCharset,
    ];
    all_differ(kinds.iter().map(ToString::to_string));
    for kind in kinds {
        assert_eq!(Fault { kind, body: None }.to_string(), kind.to_string());
    }
    let reasons = [
        InvalidResponseReason::BadId,
        InvalidResponseReason::BadVersion,
        InvalidResponseReason::MemberTwice,
        InvalidResponseReason::ResultAndError,
    ];
    let notices = [
        Notice::UnknownNotification,
        Notice::NotificationDropped,
        Notice::BadCancellation,
        Notice::UnmatchedResponse,
        Notice::Muted(7),
    ];
    let of_responses = reasons.iter().map(|&why| Notice::InvalidResponse(why));
    all_differ(notices.into_iter().chain(of_responses).map(|notice| notice.to_string()));
    assert_eq!(
        Notice::InvalidResponse(InvalidResponseReason::BadId).to_string(),
        InvalidResponseReason::BadId.to_string()
    );
    assert!(Notice::Muted(7).to_string().starts_with("7 more"));
}

#[test]
fn g5_a_mistake_of_the_remote_is_a_warning_and_a_loss_here_an_error() {
    let dropped = Notice::NotificationDropped;
    assert_eq!(dropped.severity(), Severity::Error);
    let others = [Notice::UnknownNotification, Notice::UnmatchedResponse, Notice::Muted(1)];
    assert!(others.iter().all(|notice| notice.severity() == Severity::Warn));
}

#[test]
fn g6_debug_output_shows_shapes_and_sizes() {
    let rows = [
        (format!("{:?}", Settled::Result("[1]")), "Result(3 bytes)"),
        (format!("{:?}", Settled::Error("{}")), "Error(2 bytes)"),
        (format!("{:?}", Params::Absent), "Absent"),
        (format!("{:?}", Params::Null), "Null"),
        (format!("{:?}", Params::Array("[1,2]")), "Array(5 bytes)"),
        (format!("{:?}", Params::Object("{}")), "Object(2 bytes)"),
        (format!("{:?}", Id::from(7)), "Id(7)"),
        (
            format!("{:?}", Settled::Error("{\"code\":7}").error()),
            "Some(ReceivedError { code: 7, .. })",
        ),
    ];
    for (shown, expect) in rows {
        assert_eq!(shown, expect);
    }
    let text = Text::check(b" [1,2]", 128).expect("JSON");
    assert_eq!(format!("{text:?}"), "Text(Array, 6 bytes)");
    assert_eq!(format!("{:?}", text.elements()), "Elements { next: Some(2), .. }");
}

#[test]
fn e1_e4_the_detail_of_a_param_problem_is_neither_written_nor_shown() {
    let problem = ParamProblem::wrong_type("at", "a valid value", "string").with_detail("CANARY");
    assert_eq!(problem.detail(), Some("CANARY"));
    let error = ErrorObject::invalid_params(problem);
    let mut out = Vec::new();
    write_error(&mut out, &Id::from(1), &error);
    let out = String::from_utf8_lossy(&out).into_owned();
    assert!(!format!("{out} {error} {error:?}").contains("CANARY"), "{out} {error} {error:?}");
    assert_eq!(error.param_problem().and_then(ParamProblem::detail), Some("CANARY"));
}
