//! Order, concurrency and cancellation of messages (L2, M11, P3, P4).

use serde_json::{Value, json};

use super::support::daemon::{Daemon, Trigger, command, frame, framing_of, request};
use super::support::once::talk;
use super::{PROFILES, message};

/// Longer than any test takes.
const LONG: &str = r#"{"ms":25000}"#;

/// A test bed of this profile.
fn testbed(profile: &str, options: &[&str]) -> Daemon {
    let mut command = command(profile);
    command.args(options);
    Daemon::spawn(command, framing_of(profile))
}

fn cancel(daemon: &mut Daemon, id: u64) {
    daemon.send(&message(None, "$/cancelRequest", &format!(r#"{{"id":{id}}}"#)));
}

fn cancelled(id: u64) -> Value {
    let error = json!({"code": -32800, "message": "Request cancelled"});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

#[test]
fn l2_sequential_answers_come_in_the_order_of_the_requests() {
    let rows: [(&str, &[&str]); 3] =
        [("editor", &[]), ("desktop", &[]), ("editor", &["--max-in-flight", "1"])];
    for (profile, options) in rows {
        let mut command = command(profile);
        command.args(options);
        // Later requests would finish sooner on their own.
        let params = |id: u64| format!(r#"{{"ms":{}}}"#, 20 - 5 * (id % 4));
        let texts: Vec<_> = (0..20).map(|id| request(id, "test.sleep", &params(id))).collect();
        let talk = talk(command, framing_of(profile), &texts);
        let ids: Vec<_> = talk.values().iter().filter_map(|answer| answer["id"].as_u64()).collect();
        assert_eq!(ids, (0..20).collect::<Vec<_>>(), "{profile}");
    }
}

#[test]
fn l2_barrier_requests_run_concurrently() {
    let rows: [(&str, &[&str]); 4] = [
        ("agent", &[]),
        ("agent", &["--max-in-flight", "3"]),
        ("editor", &["--max-in-flight", "3"]),
        ("desktop", &["--max-in-flight", "3"]),
    ];
    for (profile, options) in rows {
        let mut daemon = testbed(profile, options);
        for id in [1, 2] {
            daemon.request(id, "test.sleep", LONG);
            daemon.wait_for("test.sleep begins");
        }
        assert_eq!(daemon.ask(3, "version", "[]")["id"], 3, "{profile} {options:?}");
        for id in [2, 1] {
            cancel(&mut daemon, id);
            assert_eq!(daemon.answer(), cancelled(id), "{profile} {options:?}");
        }
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0]);
    }
}

#[test]
fn l2_a_notification_is_finished_before_any_later_message_starts() {
    let rows: [(&str, &[&str]); 4] =
        [("editor", &[]), ("desktop", &[]), ("agent", &[]), ("editor", &["--max-in-flight", "9"])];
    for (profile, options) in rows {
        let mut command = command(profile);
        command.args(options).args(["--log-level", "debug", "--log-format", "json"]);
        let slow = message(None, "test.sleep", r#"{"ms":30}"#);
        let texts = [slow.clone(), request(1, "version", "[]"), slow, request(2, "version", "[]")];
        let talk = talk(command, framing_of(profile), &texts);
        assert_eq!(talk.texts.len(), 2, "{profile}");
        // Methods of the records in order, without repetitions.
        let records = talk.log.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut methods: Vec<_> =
            records.filter_map(|record| Some(record.get("method")?.as_str()?.to_owned())).collect();
        methods.dedup();
        let expected = ["test.sleep", "version", "test.sleep", "version"];
        assert_eq!(methods, expected, "{profile} {options:?}: {:?}", talk.log);
    }
}

#[test]
fn l2_a_change_by_a_notification_is_seen_by_the_request_after_it() {
    for profile in PROFILES {
        let mut daemon = Daemon::rpc(profile, &["--log-level", "error", "--log-format", "json"]);
        let level = |level: &str| message(None, "setLogLevel", &format!(r#"["{level}"]"#));
        let messages = [
            request(1, "unseen", "[]"),
            level("warn"),
            request(2, "seen", "[]"),
            level("error"),
            request(3, "unseen", "[]"),
        ];
        let frames = messages.map(|text| frame(framing_of(profile), &text));
        daemon.send_raw(&frames.concat());
        let mut ids: Vec<_> = (0..3).map(|_| daemon.answer()["id"].as_u64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, [Some(1), Some(2), Some(3)], "{profile}");
        let end = daemon.end(Trigger::Eof);
        assert_eq!(end.lines.len(), 1, "{profile}: {:?}", end.lines);
        assert!(end.lines[0].contains(r#""method":"seen""#), "{profile}: {:?}", end.lines);
    }
}

#[test]
fn p3_a_running_request_is_cancelled_in_every_profile() {
    for profile in PROFILES {
        let mut daemon = testbed(profile, &[]);
        daemon.request(1, "test.sleep", LONG);
        daemon.wait_for("test.sleep begins");
        // Malformed and unknown ids are ignored.
        for params in ["", "null", "{}", "[]", r#"{"id":"1"}"#, r#"{"id":7}"#, r#"{"id":{}}"#] {
            daemon.send(&message(None, "$/cancelRequest", params));
        }
        cancel(&mut daemon, 1);
        assert_eq!(daemon.answer(), cancelled(1), "{profile}");
        // The connection is free again.
        assert_eq!(daemon.ask(2, "version", "[]")["id"], 2, "{profile}");
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0], "{profile}");
    }
}

#[test]
fn p3_a_waiting_request_is_cancelled_and_never_begins() {
    for profile in ["editor", "desktop"] {
        let mut daemon = testbed(profile, &[]);
        daemon.request(1, "test.sleep", LONG);
        daemon.wait_for("test.sleep begins");
        daemon.request(2, "test.block", LONG);
        cancel(&mut daemon, 2);
        assert_eq!(daemon.answer(), cancelled(2), "{profile}");
        cancel(&mut daemon, 1);
        assert_eq!(daemon.answer(), cancelled(1), "{profile}");
        let end = daemon.end(Trigger::Eof);
        assert!(!end.lines.iter().any(|line| line == "test.block begins"), "{profile}: {end:?}");
    }
}

#[test]
fn p3_a_cancellation_directly_after_its_request_finds_it() {
    for profile in PROFILES {
        let mut daemon = testbed(profile, &[]);
        let texts = [
            request(1, "test.sleep", LONG),
            message(None, "$/cancelRequest", r#"{"id":1}"#),
            request(2, "version", "[]"),
        ];
        daemon.send_raw(&texts.map(|text| frame(framing_of(profile), &text)).concat());
        assert_eq!(daemon.answer(), cancelled(1), "{profile}");
        assert_eq!(daemon.answer()["id"], 2, "{profile}");
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0], "{profile}");
    }
}

#[test]
fn p4_beyond_the_limit_of_requests_in_flight_the_daemon_is_busy() {
    for (profile, limit) in [("agent", 1), ("agent", 3), ("editor", 2), ("desktop", 2)] {
        let mut daemon = testbed(profile, &["--max-in-flight", &limit.to_string()]);
        for id in 1..=limit {
            daemon.request(id, "test.sleep", LONG);
            daemon.wait_for("test.sleep begins");
        }
        let error = json!({
            "code": -32000,
            "message": "Server busy",
            "data": {"reason": "overloaded", "limit": limit},
        });
        let busy = json!({"jsonrpc": "2.0", "id": 50, "error": error});
        assert_eq!(daemon.ask(50, "test.sleep", LONG), busy, "{profile} {limit}");
        // Cancellations still work, and make room.
        for id in 1..=limit {
            cancel(&mut daemon, id);
            assert_eq!(daemon.answer(), cancelled(id), "{profile} {limit}");
        }
        assert_eq!(daemon.ask(51, "version", "[]")["id"], 51, "{profile} {limit}");
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0], "{profile} {limit}");
    }
}

#[test]
fn m11_a_duplicate_id_in_flight_is_refused_and_the_first_request_undisturbed() {
    let rows: [(&str, &[&str]); 2] = [("agent", &[]), ("editor", &["--max-in-flight", "5"])];
    for (profile, options) in rows {
        let mut daemon = testbed(profile, options);
        for id in [json!(1), json!("one")] {
            let text = |method, params| {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            };
            daemon.send(&text("test.sleep", LONG));
            daemon.wait_for("test.sleep begins");
            daemon.send(&text("version", "[]"));
            let answer = daemon.answer();
            assert_eq!(answer["id"], id, "{profile}");
            assert_eq!(answer["error"]["code"], -32600, "{profile}");
            assert_eq!(answer["error"]["data"], json!({"reason": "duplicate-id"}), "{profile}");
            if id == json!(1) {
                // A number and a string are different ids.
                daemon.send(r#"{"jsonrpc":"2.0","id":"1","method":"version"}"#);
                assert_eq!(daemon.answer()["result"]["version"], "0.1.0", "{profile}");
            }
            daemon.send(&message(None, "$/cancelRequest", &format!(r#"{{"id":{id}}}"#)));
            assert_eq!(daemon.answer()["error"]["code"], -32800, "{profile} {id}");
        }
        assert_eq!(daemon.end(Trigger::Eof).answers, [json!(null); 0], "{profile}");
    }
}
