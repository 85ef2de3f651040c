//! `system.callback`: the daemon calls its client, in the agent profile (section 4, P1, P3).

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use super::support::daemon::{Daemon, Trigger, framing_of, rpc};
use super::support::once::talk;
use super::{message, requests, start, ways};

/// Requests a callback, and returns the daemon's call.
fn ask_for_call(daemon: &mut Daemon, id: u64, params: &str) -> Value {
    let call = daemon.ask(id, "system.callback", params);
    assert!(call.get("id").is_some() && call["method"].is_string(), "no call: {call}");
    call
}

/// Answers a call of the daemon. The outcome is a `result` or an `error` with its value.
fn settle(daemon: &mut Daemon, call: &Value, outcome: &str) {
    daemon.send(&format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, call["id"]));
}

#[test]
fn p1_the_client_is_called_and_its_answer_is_passed_on() {
    // The params, the expected call, and the client's answer.
    let (plain, nested) = (r#"{"method":"a"}"#, r#"{"method":"a/b","params":{"c":[1]}}"#);
    let rows = [
        (plain, plain, r#""result":null"#),
        (r#"{"method":"a","params":null}"#, plain, r#""result":[1,{"b":2}]"#),
        (nested, nested, r#""result":"text""#),
        (r#"["é",[1,null]]"#, r#"{"method":"é","params":[1,null]}"#, r#""result":{}"#),
        (r#"{"method":"version"}"#, r#"{"method":"version"}"#, r#""result":0"#),
        (plain, plain, r#""error":{"code":-32042,"message":"no ünit","data":{"why":[1,2]}}"#),
        (plain, plain, r#""error":{"code":7,"message":""}"#),
        (plain, plain, r#""error":{"code":-32601,"message":"Method not found: a"}"#),
    ];
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    for (options, framing) in ways(&["agent"]) {
        let mut daemon = start(&options, framing);
        for ((params, expected_call, outcome), id) in rows.iter().zip(1..) {
            let mut call = ask_for_call(&mut daemon, id, params);
            settle(&mut daemon, &call, outcome);
            let call = call.as_object_mut().expect("an object");
            assert_eq!(call.remove("jsonrpc"), Some(json!("2.0")), "{params}");
            call.remove("id");
            assert_eq!(json!(call), parsed(expected_call), "{options:?} {params}");
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#);
            assert_eq!(daemon.answer(), parsed(&answer), "{options:?} {params}");
        }
        let end = daemon.end(Trigger::Eof);
        assert_eq!((end.status.code(), end.answers), (Some(0), vec![]), "{options:?}");
    }
}

#[test]
fn c4_e4_callback_with_wrong_params_is_refused_without_a_call() {
    // The params, the wrong one, and the received type.
    let rows = [
        ("", "method", "missing"),
        ("{}", "method", "missing"),
        (r#"{"params":[]}"#, "method", "missing"),
        (r#"{"method":7}"#, "method", "number"),
        (r#"{"method":null}"#, "method", "null"),
        (r#"{"method":["CANARY"]}"#, "method", "array"),
        (r#"{"method":"a","params":"CANARY"}"#, "params", "string"),
        (r#"{"method":"a","params":1.5}"#, "params", "number"),
        (r#"{"method":"a","params":-1}"#, "params", "number"),
        (r#"{"method":"a","params":true}"#, "params", "boolean"),
        (r#"{"method":"a","params":false}"#, "params", "boolean"),
    ];
    let calls = rows.map(|(params, ..)| ("system.callback", params));
    let talk = talk(rpc(&["--profile", "agent"]), Framing::Ndjson, &requests(&calls));
    assert_eq!(talk.texts.len(), rows.len());
    for ((params, param, received), id) in rows.iter().zip(1..) {
        let error = &talk.answer(id)["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(-32602), &json!("Invalid params")));
        let data = error["data"].as_object().expect("data");
        assert_eq!(data["param"], *param, "{params}");
        assert_eq!(data["received"], *received, "{params}");
        assert!(data["expected"].is_string() && data.len() == 3, "{params}: {data:?}");
    }
    assert!(!talk.texts.concat().contains("CANARY"));
}

#[test]
fn p1_many_concurrent_calls_each_get_their_own_answer() {
    const COUNT: u64 = 500;
    let mut daemon = Daemon::rpc("agent", &[]);
    for id in 0..COUNT {
        daemon.request(id, "system.callback", &format!(r#"{{"method":"a","params":[{id}]}}"#));
    }
    let mut calls: Vec<_> = (0..COUNT).map(|_| daemon.answer()).collect();
    // The daemon chooses the ids, and all differ.
    let mut ids: Vec<_> = calls.iter().map(|call| call["id"].to_string()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), COUNT as usize);
    // Answer in reverse order.
    calls.sort_unstable_by_key(|call| std::cmp::Reverse(call["params"][0].as_u64()));
    for call in &calls {
        settle(&mut daemon, call, &format!(r#""result":{{"of":{}}}"#, call["params"][0]));
    }
    for _ in 0..COUNT {
        let answer = daemon.answer();
        assert_eq!(answer["result"]["of"], answer["id"]);
    }
    assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0]);
}

#[test]
fn p1_nested_calls_return_from_the_innermost_outwards() {
    const DEPTH: u64 = 100;
    let mut daemon = Daemon::rpc("agent", &[]);
    // Before it answers a call, the client requests another one.
    let calls: Vec<_> =
        (0..DEPTH).map(|id| ask_for_call(&mut daemon, id, r#"{"method":"inner"}"#)).collect();
    // The client's own requests still work.
    assert_eq!(daemon.ask(DEPTH, "system.ping", "null")["result"], "pong");
    for (id, call) in (0..DEPTH).rev().zip(calls.iter().rev()) {
        settle(&mut daemon, call, &format!(r#""result":{id}"#));
        assert_eq!(daemon.answer(), json!({"jsonrpc": "2.0", "id": id, "result": id}));
    }
    assert_eq!(daemon.end(Trigger::Eof).status.code(), Some(0));
}

#[test]
fn p3_a_cancelled_callback_cancels_the_call_to_the_client() {
    let mut daemon = Daemon::rpc("agent", &[]);
    let call = ask_for_call(&mut daemon, 1, r#"{"method":"never"}"#);
    daemon.send(&message(None, "$/cancelRequest", r#"{"id":1}"#));
    let (mut cancelled, mut answered) = (None, None);
    for _ in 0..2 {
        let message = daemon.answer();
        let place = if message.get("method").is_some() { &mut cancelled } else { &mut answered };
        *place = Some(message);
    }
    let cancelled = cancelled.expect("a cancellation");
    assert_eq!(cancelled["method"], "$/cancelRequest");
    assert_eq!(cancelled["params"], json!({"id": call["id"]}));
    let error = json!({"code": -32800, "message": "Request cancelled"});
    assert_eq!(answered, Some(json!({"jsonrpc": "2.0", "id": 1, "error": error})));
    // A late answer is ignored.
    settle(&mut daemon, &call, r#""result":1"#);
    assert_eq!(daemon.ask(2, "system.ping", "null")["result"], "pong");
    assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0]);
}

#[test]
fn m7_answers_to_calls_that_were_never_made_are_dropped() {
    let strays = [
        r#"{"jsonrpc":"2.0","id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":"1","result":1}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"a"}}"#,
        r#"{"jsonrpc":"2.0","id":{},"result":1}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
    ];
    for profile in super::PROFILES {
        let options = ["--profile", profile, "--log-format", "json"];
        let mut texts: Vec<_> = strays.iter().map(|&text| text.to_owned()).collect();
        texts.push(message(Some(7), "version", ""));
        let talk = talk(rpc(&options), framing_of(profile), &texts);
        assert_eq!(talk.texts.len(), 1, "{profile}: {talk:?}");
        assert_eq!(talk.answer(7)["result"]["version"], "0.1.0", "{profile}");
        let warnings = talk.log.iter().filter(|line| line.contains(r#""severity":"warn""#));
        assert_eq!(warnings.count(), strays.len(), "{profile}: {:?}", talk.log);
    }
}
