//! Events for subscribers: log records and statistics (section 4).

use std::collections::BTreeSet;

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use super::support::daemon::{Daemon, Trigger, framing_of, rpc};
use super::support::once::talk;
use super::support::{concurrently, pairs};
use super::{message, requests, start, ways};

const BOTH: [&str; 2] = ["desktop", "agent"];

fn subscribe(daemon: &mut Daemon, id: u64, topics: &str) {
    daemon.request(id, "events.subscribe", &format!(r#"{{"topics":{topics}}}"#));
    let (events, answer) = until_answer(daemon, id);
    assert!(answer["result"]["topics"].is_array() && events.is_empty(), "{events:?} {answer}");
}

/// Messages up to the answer to a request: the params of events, and the answer.
fn until_answer(daemon: &Daemon, id: u64) -> (Vec<Value>, Value) {
    let mut events = Vec::new();
    loop {
        let mut message = daemon.answer();
        if message["method"] != "event" {
            assert_eq!(message["id"], id, "{message}");
            return (events, message);
        }
        assert_eq!((message.get("id"), &message["jsonrpc"]), (None, &json!("2.0")), "{message}");
        events.push(message["params"].take());
    }
}

#[test]
fn c5_events_subscribe_and_unsubscribe_return_the_subscribed_topics() {
    let rows: [(&str, &str, &[&str]); 10] = [
        ("subscribe", r#"{"topics":[]}"#, &[]),
        ("unsubscribe", r#"{"topics":["log","stats"]}"#, &[]),
        ("subscribe", r#"{"topics":["log"]}"#, &["log"]),
        ("subscribe", r#"{"topics":["log","log"]}"#, &["log"]),
        ("subscribe", r#"[["stats"]]"#, &["log", "stats"]),
        ("unsubscribe", r#"{"topics":["log"]}"#, &["stats"]),
        ("unsubscribe", r#"{"topics":[]}"#, &["stats"]),
        ("subscribe", r#"{"topics":["stats","log"]}"#, &["log", "stats"]),
        ("unsubscribe", r#"[["log","stats","log"]]"#, &[]),
        ("unsubscribe", r#"{"topics":["stats"]}"#, &[]),
    ];
    for (options, framing) in ways(&BOTH) {
        let mut daemon = start(&options, framing);
        for ((verb, params, expected), id) in rows.iter().zip(1..) {
            daemon.request(id, &format!("events.{verb}"), params);
            let (_, answer) = until_answer(&daemon, id);
            let topics = answer["result"]["topics"].as_array().expect("an array").iter();
            let topics: Vec<_> = topics.filter_map(Value::as_str).collect();
            let set: BTreeSet<_> = topics.iter().copied().collect();
            assert_eq!(set, expected.iter().copied().collect(), "{options:?} {id}");
            assert_eq!(topics.len(), expected.len(), "{options:?} {id}");
        }
        assert_eq!(daemon.end(Trigger::Eof).status.code(), Some(0));
    }
}

#[test]
fn c5_e4_an_unknown_topic_is_refused_with_the_accepted_ones() {
    let accepted = json!(["log", "stats"]);
    // The params, the received value, and true if the error lists the accepted values.
    let rows = [
        (r#"{"topics":["weather"]}"#, "weather", true),
        (r#"{"topics":["log","LOG"]}"#, "LOG", true),
        (r#"{"topics":[7]}"#, "number", true),
        (r#"{"topics":"log"}"#, "string", false),
        (r#"{"topics":null}"#, "null", false),
        ("{}", "missing", false),
        ("", "missing", false),
    ];
    for (profile, method) in pairs(BOTH, ["events.subscribe", "events.unsubscribe"]) {
        let calls = rows.map(|(params, ..)| (method, params));
        let talk = talk(rpc(&["--profile", profile]), framing_of(profile), &requests(&calls));
        assert_eq!(talk.texts.len(), rows.len(), "an event without a subscription: {talk:?}");
        for ((params, received, is_listed), id) in rows.iter().zip(1..) {
            let error = &talk.answer(id)["error"];
            assert_eq!(error["code"], -32602, "{profile} {method} {params}");
            assert_eq!(error["data"]["received"], *received, "{profile} {method} {params}");
            let listed = is_listed.then_some(&accepted);
            assert_eq!(error["data"].get("accepted"), listed, "{profile} {method} {params}");
        }
    }
}

#[test]
fn c5_g3_log_events_are_the_log_records_numbered_from_1() {
    const COUNT: u64 = 100;
    for (options, framing) in ways(&BOTH) {
        let options = [&options[..], &["--log-format", "json", "--log-level", "warn"]].concat();
        let mut daemon = start(&options, framing);
        subscribe(&mut daemon, 1, r#"["log"]"#);
        for id in 0..COUNT {
            daemon.send(&message(Some(id + 10), "nonsense", ""));
        }
        let (mut events, mut answers) = (Vec::new(), 0);
        while events.len() < COUNT as usize || answers < COUNT {
            let mut message = daemon.answer();
            match message["method"] == "event" {
                true => events.push(message["params"].take()),
                false => answers += 1,
            }
        }
        for (event, sequence) in events.iter().zip(1..) {
            // Each event equals a line of the log.
            let line = daemon.wait_for_line(|_| true);
            let record: Value = serde_json::from_str(&line).expect("JSON");
            let expected = json!({"topic": "log", "sequence": sequence, "data": record});
            assert_eq!(*event, expected, "{options:?}");
            let record = record.as_object().expect("an object");
            let names: Vec<_> = record.keys().map(String::as_str).collect();
            assert_eq!(BTreeSet::from_iter(names), RECORD.into(), "{record:?}");
            assert_eq!(record["severity"], "warn");
            assert_eq!(record["method"], "nonsense");
            assert_eq!(record["id"], sequence + 9);
        }
        assert_eq!(daemon.end(Trigger::Eof).status.code(), Some(0));
    }
}

/// Members of a record about a request.
const RECORD: [&str; 5] = ["timestamp", "severity", "message", "method", "id"];

#[test]
fn c5_events_end_with_the_answer_to_unsubscribe_and_restart_at_1() {
    for (options, framing) in ways(&BOTH) {
        let mut daemon = start(&[&options[..], &["--log-level", "debug"]].concat(), framing);
        for round in 0..20 {
            let id = round * 100;
            subscribe(&mut daemon, id, r#"["log"]"#);
            for _ in 0..20 {
                daemon.send(&message(None, "system.ping", ""));
            }
            daemon.request(id + 1, "events.unsubscribe", r#"{"topics":["log"]}"#);
            let (events, _) = until_answer(&daemon, id + 1);
            for (event, sequence) in events.iter().zip(1..) {
                assert_eq!(event["sequence"], sequence, "{options:?} round {round}");
            }
            daemon.request(id + 2, "system.ping", "null");
            let (events, answer) = until_answer(&daemon, id + 2);
            assert_eq!(answer["result"], "pong", "{options:?}");
            assert_eq!(events, [json!(null); 0], "{options:?}");
        }
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0]);
    }
}

#[test]
fn c5_stats_come_each_second_and_cause_no_log_events() {
    concurrently(BOTH, |profile| {
        let mut daemon = Daemon::rpc(profile, &["--log-level", "debug"]);
        daemon.send("}");
        assert_eq!(daemon.answer()["error"]["code"], -32700);
        subscribe(&mut daemon, 1, r#"["log","stats"]"#);
        let mut log_events = 0;
        let mut next_figures = || loop {
            let mut message = daemon.answer();
            assert_eq!(message["method"], "event", "{message}");
            let event = message["params"].take();
            if event["topic"] == "stats" {
                return (event, std::mem::take(&mut log_events));
            }
            log_events += 1;
        };
        let (first, _) = next_figures();
        let (second, log_events) = next_figures();
        // Nothing was sent since the first statistics. Delivering them, and the log events before them, must
        // not be logged.
        assert_eq!(log_events, 0, "{profile}");
        assert_eq!((&first["sequence"], &second["sequence"]), (&json!(1), &json!(2)));
        let names = ["messages", "faults", "inFlight"];
        let [messages, faults, in_flight] = names.map(|name| second["data"][name].as_u64());
        assert!(messages >= Some(1) && faults == Some(1), "{profile}: {second}");
        assert_eq!(in_flight, Some(0), "{profile}: {second}");
        let bytes = |event: &Value| {
            let data = event["data"].as_object().expect("an object").clone();
            let bytes = data.iter().filter(|(name, _)| name.starts_with("bytes"));
            bytes.map(|(_, value)| value.as_u64().expect("a number")).collect::<Vec<_>>()
        };
        let (before, after) = (bytes(&first), bytes(&second));
        assert!(!before.is_empty() && before.iter().all(|&count| count > 0), "{first}");
        assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{second}");
        daemon.request(2, "events.unsubscribe", r#"{"topics":["log","stats"]}"#);
        let (_, answer) = until_answer(&daemon, 2);
        assert_eq!(answer["result"]["topics"], json!([]));
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0], "{profile}");
    });
}

#[test]
fn c5_log_events_never_cause_log_records() {
    const COUNT: u64 = 50;
    for profile in BOTH {
        let mut daemon = Daemon::rpc(profile, &["--log-level", "debug"]);
        subscribe(&mut daemon, 0, r#"["log"]"#);
        let mut events = Vec::new();
        for id in 1..=COUNT {
            daemon.request(id, "system.ping", "null");
            events.extend(until_answer(&daemon, id).0);
        }
        daemon.request(COUNT + 1, "events.unsubscribe", r#"{"topics":["log"]}"#);
        events.extend(until_answer(&daemon, COUNT + 1).0);
        // A request makes a few records: its frame, its start and its end. If each event made one more
        // record, the events would never end.
        let most = (COUNT as usize + 2) * 5;
        assert!(events.len() <= most, "{profile}: {} events of {COUNT} requests", events.len());
        let about = |event: &&Value| event["data"]["method"] == "system.ping";
        assert!(events.iter().filter(about).count() >= COUNT as usize, "{profile}");
        assert!(events.iter().all(|event| event["data"]["method"] != "event"), "{profile}");
    }
}

#[test]
fn c3_c5_the_editor_profile_has_no_events() {
    let calls = ["subscribe", "unsubscribe"].map(|it| (format!("events.{it}"), r#"[["log"]]"#));
    let talk = talk(rpc(&[]), Framing::Lsp, &requests(&calls));
    for id in [1, 2] {
        assert_eq!(talk.answer(id)["error"]["code"], -32601);
    }
}
