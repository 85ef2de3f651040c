//! Classification of texts: M1 to M10, and the errors of section 3.

mod support;

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::{
    ErrorObject, Id, Incoming, InvalidResponseReason, LogFields, Params, Reason, Settled,
    write_error, write_notification, write_raw_result, write_request, write_result,
};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::Text;
use serde_json::Value;
use support::short;

/// Short form of a message: its kind and its relevant members.
fn describe(incoming: Incoming<'_>) -> String {
    let params = |params: Params<'_>| params.as_raw().unwrap_or("absent").to_owned();
    match incoming {
        Incoming::Request(it) => format!("request {} {} {}", it.id, it.method, params(it.params)),
        Incoming::Notification(it) => format!("notification {} {}", it.method, params(it.params)),
        Incoming::Response(it) => match it.settled {
            Settled::Result(raw) => format!("response {} result {raw}", it.id),
            Settled::Error(raw) => format!("response {} error {raw}", it.id),
        },
        Incoming::Batch(entries) => entries.map(describe).collect::<Vec<_>>().join("; "),
        Incoming::Invalid(reply) => short(&reply),
        Incoming::InvalidResponse(it) => format!("invalid response {:?} {:?}", it.why, it.id),
    }
}

fn classified(json: &str, batch: BatchRule) -> String {
    let limits = Limits::default().with(|it| it.batch_entries = 3);
    let text = Text::check(json.as_bytes(), limits.depth).expect(json);
    describe(Incoming::classify(&text, batch, &limits))
}

fn rows(rows: &[(&str, &str)]) {
    for (json, expect) in rows {
        assert_eq!(classified(json, BatchRule::Allow), *expect, "{json}");
    }
}

#[test]
fn m1_requests_and_notifications() {
    rows(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, "request 1 a absent"),
        (r#"{"method":"a","id":"x","jsonrpc":"2.0","params":[1]}"#, r#"request "x" a [1]"#),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "request null a absent"),
        (r#"{"jsonrpc":"2.0","method":"a","params":{"b":1}}"#, r#"notification a {"b":1}"#),
        (r#"{"jsonrpc":"2.0","id":1,"method":""}"#, "request 1  absent"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"\u0061\n\"é"}"#, "request 1 a\n\"é absent"),
        (" { \"jsonrpc\" :\n\"2.0\" , \"id\" : 1 , \"method\" : \"a\" } ", "request 1 a absent"),
        (r#"{"jsonrpc":"2\u002e0","\u0069d":1,"m\u0065thod":"a"}"#, "request 1 a absent"),
        (r#"{"\u006asonrpc":"2.0","id":1,"method":"a","p\u0061rams":[1]}"#, "request 1 a [1]"),
        // The longest member name, in its longest spelling.
        (
            r#"{"\u006a\u0073\u006f\u006e\u0072\u0070\u0063":"2.0","id":1,"method":"a"}"#,
            "request 1 a absent",
        ),
    ]);
}

#[test]
fn m2_ids_are_echoed_as_they_were_written() {
    let forty = "1234567890123456789012345678901234567890";
    let long = format!("\"{}\"", "é".repeat(500));
    for id in ["1.0", "1e3", "-0", "18446744073709551616", forty, "\"1\"", r#""\u0031""#, &long] {
        let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        let text = Text::check(json.as_bytes(), 128).expect("JSON");
        let Incoming::Request(request) =
            Incoming::classify(&text, BatchRule::Allow, &Limits::default())
        else {
            panic!("{json}");
        };
        let mut out = Vec::new();
        write_raw_result(&mut out, request.id, "null");
        let expect = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#);
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }
    for id in ["true", "false", "{}", "[]", r#"{"a":1}"#] {
        let json = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        rows(&[(&json, "!-32600 invalid-id-type")]);
    }
}

#[test]
fn m3_params_are_an_object_an_array_null_or_absent() {
    rows(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":null}"#, "request 1 a null"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{}}"#, "request 1 a {}"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[ ]}"#, "request 1 a [ ]"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":"x"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":1}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":true}"#, "!-32600 id=1"),
    ]);
}

#[test]
fn m4_unknown_members_are_ignored_and_repeated_known_members_refused() {
    rows(&[
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":2,"ID":3}"#, "request 1 a absent"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1,"error":2}"#, "request 1 a absent"),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, "!-32600"),
        (r#"{"jsonrpc":"2.0","id":1,"\u0069\u0064":2,"method":"a"}"#, "!-32600"),
        (r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[],"params":[]}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","method":"a","method":"a"}"#, "!-32600"),
        // This name is a backslash and six letters, not `id`.
        (r#"{"jsonrpc":"2.0","method":"a","\\u0069d":2}"#, "notification a absent"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","\\u0069d":2}"#, "request 1 a absent"),
        // Names that begin like the name of a member of the envelope, and continue.
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","jsonrpc2:":3}"#, "request 1 a absent"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","params:":[],"error:":1}"#, "request 1 a absent"),
        // A later colon is not the one after the name.
        (r#"{ "method": "abc:1","id":1,"jsonrpc":"2.0"}"#, "request 1 abc:1 absent"),
        (r#"{ "params": ["ab:1"],"id":1,"method":"a","jsonrpc":"2.0"}"#, r#"request 1 a ["ab:1"]"#),
        (r#"{ "result": "abc:1","id":1,"jsonrpc":"2.0"}"#, r#"response 1 result "abc:1""#),
    ]);
}

#[test]
fn m5_checks_run_in_order_and_an_invalid_request_is_always_answered() {
    rows(&[
        // An invalid id is reported before all other errors.
        (r#"{"id":true,"method":1,"params":1}"#, "!-32600 invalid-id-type"),
        (r#"{"jsonrpc":"1.0","id":true,"method":"a"}"#, "!-32600 invalid-id-type"),
        (r#"{"id":1,"method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":null,"id":1,"method":"a"}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "!-32600 id=1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":["a"]}"#, "!-32600 id=1"),
        // Not notifications, because they are invalid.
        (r#"{"jsonrpc":"2.0","method":"a","params":"x"}"#, "!-32600"),
        (r#"{"jsonrpc":"2.0","method":1}"#, "!-32600"),
        ("{}", "!-32600"),
        (r#"{"foo":"boo"}"#, "!-32600"),
        ("1", "!-32600"),
        ("\"a\"", "!-32600"),
        ("null", "!-32600"),
    ]);
}

#[test]
fn m6_a_batch_is_rejected_or_served() {
    for json in ["[]", "[1]", "[[]]", r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#] {
        assert_eq!(classified(json, BatchRule::Reject), "!-32600 batch-not-supported");
    }
    let error = ErrorObject::invalid_request_because(Reason::BatchNotSupported);
    assert_eq!(error.message(), "Batch requests not supported");
    let notification = r#"{"jsonrpc":"2.0","method":"a"}"#;
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"b","params":[1]}"#;
    rows(&[
        ("[]", "!-32600"),
        (" [ \n ] ", "!-32600"),
        ("[1]", "!-32600"),
        ("[1,2,3]", "!-32600; !-32600; !-32600"),
        ("[1,2,3,4]", "!-32600 oversize"),
        ("[[],[[1]]]", "!-32600; !-32600"),
        (
            &format!("[{notification},{notification}]"),
            "notification a absent; notification a absent",
        ),
        (
            &format!(" [ {request} , {notification} , \"x\" ] "),
            "request 1 b [1]; notification a absent; !-32600",
        ),
    ]);
}

#[test]
fn m7_a_response_is_recognised_by_its_members_and_never_answered() {
    let bad_id = format!("invalid response {:?} None", InvalidResponseReason::BadId);
    let invalid =
        |why: InvalidResponseReason| format!("invalid response {why:?} {:?}", Some(Id::from(1)));
    rows(&[
        (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#, r#"response 1 result {"a":1}"#),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response 1 result null"),
        (r#"{"jsonrpc":"2.0","id":"x","error":{}}"#, "response \"x\" error {}"),
        (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, "response null error {}"),
        (r#"{"jsonrpc":"2.0","id":1,"\u0072esult":2}"#, "response 1 result 2"),
        (r#"{"jsonrpc":"2.0","id":1,"err\u006fr":2}"#, "response 1 error 2"),
        (r#"{"jsonrpc":"2.0","result":1}"#, &bad_id),
        (r#"{"jsonrpc":"2.0","id":[],"result":1}"#, &bad_id),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":1}"#, &bad_id),
        (r#"{"jsonrpc":"1.0","id":1,"result":1}"#, &invalid(InvalidResponseReason::BadVersion)),
        (r#"{"id":1,"result":1}"#, &invalid(InvalidResponseReason::BadVersion)),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            &invalid(InvalidResponseReason::MemberTwice),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"params":1,"params":2}"#,
            &invalid(InvalidResponseReason::MemberTwice),
        ),
    ]);
}

#[test]
fn m8_a_response_holds_exactly_one_of_result_and_error() {
    let invalid = format!(
        "invalid response {:?} {:?}",
        InvalidResponseReason::ResultAndError,
        Some(Id::from(1))
    );
    rows(&[
        (r#"{"jsonrpc":"2.0","id":1,"result":1,"error":null}"#, &invalid),
        (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{}}"#, &invalid),
    ]);
    let has = |out: &[u8]| {
        let value: Value = serde_json::from_slice(out).expect("JSON");
        (value.get("result").is_some(), value.get("error").is_some())
    };
    let (mut result, mut raw, mut error) = (Vec::new(), Vec::new(), Vec::new());
    write_result(&mut result, &Id::from(1), &()).expect("it can be written");
    write_raw_result(&mut raw, &Id::from(1), "null");
    write_error(&mut error, &Id::from(1), &ErrorObject::internal_error());
    assert_eq!((has(&result), has(&raw)), ((true, false), (true, false)));
    assert_eq!(has(&error), (false, true));
}

#[test]
fn m9_depth_is_bounded_and_the_outermost_is_level_one() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for limit in [1, 2, 63, 64, 65, 127, 128, 129, 1000, 1024] {
        assert!(Text::check(nested(limit).as_bytes(), limit).is_ok(), "{limit}");
        assert!(Text::check(nested(limit + 1).as_bytes(), limit).is_err(), "{limit}");
    }
    let in_envelope = |depth| format!(r#"{{"a":{}}}"#, nested(depth));
    assert!(Text::check(in_envelope(127).as_bytes(), 128).is_ok());
    assert!(Text::check(in_envelope(128).as_bytes(), 128).is_err());
    // At each size that has its own reader.
    for size in [0, 70, 150, 300] {
        let pad = "x".repeat(size);
        let flat = format!(r#"{{"params":{{"a":"{pad}"}}}}"#);
        assert!(Text::check(flat.as_bytes(), 2).is_ok(), "{size}");
        assert!(Text::check(flat.as_bytes(), 1).is_err(), "{size}");
        for limit in [2, 3, 10, 60] {
            let params = |depth| format!(r#"{{"params":{},"pad":"{pad}"}}"#, nested(depth));
            assert!(Text::check(params(limit - 1).as_bytes(), limit).is_ok(), "{limit} {size}");
            assert!(Text::check(params(limit).as_bytes(), limit).is_err(), "{limit} {size}");
        }
    }
    assert!(Text::check(b"1", 0).is_ok() && Text::check(b"{}", 0).is_err());
    assert!(Text::check(b"[]", 0).is_err());
}

#[test]
fn m10_a_notification_has_no_id_to_answer() {
    // A notification has no id, so an answer cannot be written by mistake.
    let text = Text::check(br#"{"jsonrpc":"2.0","method":"a","params":[1]}"#, 8).expect("JSON");
    let limits = Limits::default();
    let Incoming::Notification(notification) = Incoming::classify(&text, BatchRule::Allow, &limits)
    else {
        panic!("it is a notification");
    };
    let duet_rpc_proto::message::Notification { method, params } = notification;
    assert_eq!((&*method, params), ("a", Params::Array("[1]")));
}

#[test]
fn calls_are_written_whole_or_not_at_all() {
    let mut out = Vec::new();
    write_request(&mut out, &Id::from("a\"b"), "m\n", Some(&(1, "é"))).expect("it can be written");
    assert_eq!(out, r#"{"jsonrpc":"2.0","id":"a\"b","method":"m\n","params":[1,"é"]}"#.as_bytes());
    out.clear();
    write_notification::<()>(&mut out, "m", None).expect("it can be written");
    assert_eq!(out, br#"{"jsonrpc":"2.0","method":"m"}"#);
    // A map whose keys are not strings is not JSON.
    let bad = std::collections::BTreeMap::from([((1, 2), 3)]);
    out.clear();
    assert!(write_request(&mut out, &Id::NULL, "m", Some(&bad)).is_err());
    assert!(write_notification(&mut out, "m", Some(&bad)).is_err());
    assert!(write_result(&mut out, &Id::NULL, &bad).is_err());
    assert_eq!(out, b"");
}

#[test]
fn s3_a_raw_result_reserves_little_more_than_its_size() {
    let (id, result) = (Id::from(&*"i".repeat(100)), format!("\"{}\"", "r".repeat(1000)));
    let mut out = Vec::new();
    write_raw_result(&mut out, &id, &result);
    assert!(out.capacity() - out.len() < 48, "{} for {}", out.capacity(), out.len());
}

#[test]
fn params_are_borrowed_and_odd_errors_are_read() {
    let parsed: (i32, &str) = Params::Array(r#"[1,"a"]"#).parse().expect("they fit");
    assert_eq!(parsed, (1, "a"));
    assert_eq!(Params::Absent.parse::<Option<i32>>().expect("none"), None);
    assert_eq!(Params::Null.parse::<Option<i32>>().expect("none"), None);
    let json = br#"{"jsonrpc":"2.0","id":1,"error":{"code":32603,"message":"m","data":[1],"x":1}}"#;
    let text = Text::check(json, 128).expect("JSON");
    let limits = Limits::default();
    let Incoming::Response(response) = Incoming::classify(&text, BatchRule::Allow, &limits) else {
        panic!("it is a response");
    };
    let error = response.settled.error().expect("it is an error");
    assert_eq!((error.code, &*error.message), (32603, "m"));
    assert_eq!(error.data, Some("[1]"));
    // Missing and odd members are accepted.
    for (raw, expect) in [
        ("{}", Some((0, ""))),
        (r#"{"code":-32601.0,"message":null}"#, Some((-32601, ""))),
        (r#"{"code":"x","message":"\ud800!"}"#, Some((0, "\u{fffd}!"))),
        ("null", None),
        ("\"x\"", None),
        ("[1]", None),
    ] {
        let error = Settled::Error(raw).error();
        let found = error.as_ref().map(|error| (error.code, &*error.message));
        assert_eq!(found, expect, "{raw}");
    }
    assert!(Settled::Result("{}").error().is_none());
}

#[test]
fn g3_log_fields_are_the_method_and_the_id_if_readable() {
    let rows = [
        (r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#, (Some("a"), Some("7"))),
        (r#"{"jsonrpc":"1.0","id":null,"method":"\u0061"}"#, (Some("a"), Some("null"))),
        (r#"{"id":"x"}"#, (None, Some("\"x\""))),
        (r#"{"id":[],"method":1}"#, (None, None)),
        // A member that appears twice is ambiguous.
        (r#"{"id":1,"id":2,"method":"a"}"#, (Some("a"), None)),
        (r#"{"id":1,"method":"a","method":"b"}"#, (None, Some("1"))),
        ("[7]", (None, None)),
    ];
    for (json, expect) in rows {
        let fields = LogFields::from_text(&Text::check(json.as_bytes(), 128).expect(json));
        let (method, id) = (fields.method.as_deref(), fields.id.as_ref().map(Id::as_raw));
        assert_eq!((method, id), expect, "{json}");
    }
}
