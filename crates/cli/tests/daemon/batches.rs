//! Batches: rejected or served, depending on the profile and `--batch` (M6).

use duet_rpc::proto::frame::Framing;
use serde_json::{Value, json};

use super::support::daemon::{Daemon, Trigger, rpc};
use super::support::once::talk;
use super::support::{concurrently, pairs};
use super::{FRAMINGS, message};

const VERSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"version"}"#;
const NOTIFICATION: &str = r#"{"jsonrpc":"2.0","method":"version"}"#;

/// Options that lead to each rule.
const REJECTING: [&[&str]; 4] = [
    &[],
    &["--profile", "editor"],
    &["--profile", "desktop", "--batch", "reject"],
    &["--profile", "agent", "--batch", "reject"],
];
const ALLOWING: [&[&str]; 4] = [
    &["--profile", "desktop"],
    &["--profile", "agent"],
    &["--profile", "editor", "--batch", "allow"],
    &["--profile", "agent", "--batch", "allow"],
];

/// Checks the answers to these texts, with each of these options and in every framing.
fn check(all_options: [&[&str]; 4], texts: &[String], expected: Vec<Value>) {
    let expected = sorted(expected);
    for (options, framing) in pairs(all_options, FRAMINGS) {
        let answers = answers_to(options, framing, texts);
        assert_eq!(answers, expected, "{options:?} {framing:?}");
    }
}

/// Answers to these texts, sorted. All texts are sent before anything is read, and concurrent requests may be
/// answered in any order.
fn answers_to(options: &[&str], framing: (&str, Framing), texts: &[String]) -> Vec<Value> {
    let options = [options, &["--framing", framing.0]].concat();
    sorted(talk(rpc(&options), framing.1, texts).values())
}

/// Sorts answers, and the entries within batches.
fn sorted(mut answers: Vec<Value>) -> Vec<Value> {
    for entries in answers.iter_mut().filter_map(Value::as_array_mut) {
        entries.sort_unstable_by_key(Value::to_string);
    }
    answers.sort_unstable_by_key(Value::to_string);
    answers
}

#[test]
fn m6_a_batch_is_rejected_if_batches_are_disabled() {
    let error = json!({
        "code": -32600,
        "message": "Batch requests not supported",
        "data": {"reason": "batch-not-supported"},
    });
    let rejected = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let version = json!({"jsonrpc": "2.0", "id": 1, "result": {"version": "0.1.0"}});
    let batches = ["[]", "[1]", &format!("[{VERSION}]"), &format!(" [{NOTIFICATION}]")];
    // A single request is served.
    let texts: Vec<_> = batches.into_iter().chain([VERSION]).map(str::to_owned).collect();
    check(REJECTING, &texts, [vec![rejected; batches.len()], vec![version]].concat());
}

#[test]
fn m6_a_batch_is_served_if_batches_are_allowed() {
    let version = json!({"jsonrpc": "2.0", "id": 1, "result": {"version": "0.1.0"}});
    let invalid = json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32600, "message": "Invalid Request"},
    });
    let unknown = json!({
        "jsonrpc": "2.0",
        "id": "two",
        "error": {"code": -32601, "message": "Method not found: foobar"},
    });
    let two = r#"{"jsonrpc":"2.0","id":"two","method":"foobar"}"#;
    let rows = [
        ("[]".to_owned(), Some(invalid.clone())),
        ("[1,2,3]".to_owned(), Some(json!([invalid, invalid, invalid]))),
        (format!("[{VERSION}]"), Some(json!([version]))),
        (format!("[{NOTIFICATION}]"), None),
        (format!("[{NOTIFICATION},{NOTIFICATION}]"), None),
        (format!("[{VERSION},1,{two},{NOTIFICATION}]"), Some(json!([version, invalid, unknown]))),
        (format!("[[{VERSION}]]"), Some(json!([invalid]))),
        (format!(" [ {VERSION} , {NOTIFICATION} ] "), Some(json!([version]))),
    ];
    let (texts, expected): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    check(ALLOWING, &texts, expected.into_iter().flatten().collect());
}

#[test]
fn m6_l4_every_request_of_a_batch_with_shutdown_is_answered() {
    let late = |id: u64| {
        let data = json!({"reason": "shutting-down"});
        let error = json!({"code": -32600, "message": "Invalid Request", "data": data});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    };
    let expected = json!([
        {"jsonrpc": "2.0", "id": 1, "result": {"version": "0.1.0"}},
        {"jsonrpc": "2.0", "id": 2, "result": {"message": "Shutting down gracefully"}},
        late(3),
        {"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "Invalid Request"}},
        late(4),
    ]);
    let [shutdown, echo, again] = [(2, "shutdown"), (3, "system.echo"), (4, "shutdown")]
        .map(|(id, method)| message(Some(id), method, ""));
    let batch = format!("[{VERSION},{shutdown},{echo},7,{NOTIFICATION},{again}]");
    // The daemon does not handle messages after the batch.
    let texts = [batch, format!("[{VERSION}]"), VERSION.to_owned()];
    check(ALLOWING, &texts, vec![expected]);
}

#[test]
fn m6_l4_l5_an_unfinished_batch_is_answered_in_part_at_shutdown() {
    // Each request takes two seconds.
    concurrently(pairs(["test.sleep", "test.block"], Trigger::ALL), |(method, trigger)| {
        let mut daemon = Daemon::start("agent");
        let slow = message(Some(2), method, r#"{"ms":20000}"#);
        daemon.send(&format!("[{VERSION},{slow}]"));
        daemon.wait_for(&format!("{method} begins"));
        let end = daemon.end(trigger);
        let version = json!({"jsonrpc": "2.0", "id": 1, "result": {"version": "0.1.0"}});
        assert!(end.answers.contains(&json!([version])), "{method} {trigger:?}: {end:?}");
        assert!(end.status.success(), "{method} {trigger:?}: {end:?}");
    });
}

#[test]
fn m6_a_batch_has_at_most_1000_entries() {
    for options in ALLOWING {
        let framing = ("ndjson", Framing::Ndjson);
        let batch = |count: u64| {
            let entries: Vec<_> =
                (100..100 + count).map(|id| message(Some(id), "version", "")).collect();
            format!("[{}]", entries.join(","))
        };
        let answers = answers_to(options, framing, &[batch(1000)]);
        assert_eq!(answers.len(), 1, "{options:?}");
        let mut ids: Vec<_> = answers[0]
            .as_array()
            .expect("a batch")
            .iter()
            .filter_map(|answer| answer["result"]["version"].as_str().and(answer["id"].as_u64()))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, (100..1100).collect::<Vec<_>>(), "{options:?}");
        let answers = answers_to(options, framing, &[batch(1001)]);
        assert_eq!(answers.len(), 1, "{options:?}");
        assert_eq!(answers[0].get("id"), Some(&json!(null)));
        assert_eq!(answers[0]["error"]["code"], -32600);
        assert_eq!(answers[0]["error"]["data"], json!({"reason": "oversize"}), "{options:?}");
    }
}
