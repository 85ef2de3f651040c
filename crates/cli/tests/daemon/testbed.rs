//! The test bed, which other tests rely on, matches the contract (section 10, E2).

use serde_json::{Value, json};

use super::support::daemon::{Daemon, Trigger, command, framing_of, rpc};
use super::support::once::{run, talk};
use super::support::pairs;
use super::{FRAMINGS, PROFILES, message, requests};

#[test]
fn testbed_methods_behave_as_named() {
    let fail = r#"{"code":-32042,"message":"no","data":{"why":[1]}}"#;
    let calls = [
        ("test.sleep", r#"{"ms":1}"#),
        ("test.block", r#"{"ms":1}"#),
        ("test.spin", r#"{"ms":1}"#),
        ("test.big", r#"{"bytes":0}"#),
        ("test.big", r#"{"bytes":70000}"#),
        ("test.fail", fail),
        ("test.fail", r#"{"code":7,"message":""}"#),
        ("version", ""),
    ];
    for profile in PROFILES {
        let talk = talk(command(profile), framing_of(profile), &requests(&calls));
        assert_eq!(talk.texts.len(), calls.len(), "{profile}");
        for id in [1, 2, 3] {
            assert!(talk.answer(id).get("result").is_some(), "{profile} {id}");
        }
        assert_eq!(talk.answer(4)["result"], "", "{profile}");
        assert!(talk.answer(5)["result"] == "x".repeat(70_000), "{profile}");
        let expected: Value = serde_json::from_str(fail).expect("JSON");
        assert_eq!(talk.answer(6)["error"], expected, "{profile}");
        assert_eq!(talk.answer(7)["error"], json!({"code": 7, "message": ""}), "{profile}");
        assert_eq!(talk.answer(8)["result"]["version"], "0.1.0", "{profile}");
    }
}

#[test]
fn testbed_emits_the_requested_number_of_notifications() {
    for (profile, count) in pairs(PROFILES, [0, 1, 1000]) {
        let calls = [("test.emit", format!(r#"{{"count":{count}}}"#))];
        let talk = talk(command(profile), framing_of(profile), &requests(&calls));
        let messages = talk.values();
        let (answer, notifications) = messages.split_last().expect("an answer");
        assert_eq!((&answer["id"], notifications.len()), (&json!(1), count), "{profile}");
        let is_notification =
            |message: &Value| message["method"].is_string() && message.get("id").is_none();
        assert!(notifications.iter().all(is_notification), "{profile}");
    }
}

#[test]
fn e2_a_handler_that_panics_is_an_internal_error_and_the_next_request_works() {
    for profile in PROFILES {
        let mut daemon = Daemon::start(profile);
        let error = json!({"code": -32603, "message": "Internal error"});
        for id in 1..=3 {
            let expected = json!({"jsonrpc": "2.0", "id": id, "error": error});
            assert_eq!(daemon.ask(id, "test.panic", "null"), expected, "{profile}");
            assert_eq!(daemon.ask(id + 10, "version", "[]")["id"], id + 10, "{profile}");
        }
        // A notification that panics gets no answer, and the daemon lives on.
        daemon.send(&message(None, "test.panic", ""));
        assert_eq!(daemon.ask(20, "version", "[]")["id"], 20, "{profile}");
        let end = daemon.end(Trigger::Eof);
        assert_eq!((end.status.code(), end.answers), (Some(0), vec![]), "{profile}");
        let shown = end.lines.join("\n");
        assert!(!shown.contains("must not show"), "{profile}: {shown}");
        assert_eq!(shown.matches("ERROR").count(), 4, "{profile}: {shown}");
    }
}

#[test]
fn testbed_accepts_all_options_of_rpc() {
    for (name, framing) in FRAMINGS {
        let mut testbed = command("agent");
        testbed.args(["--framing", name, "--max-message-bytes", "1000", "--read-timeout", "1.5"]);
        testbed.args(["--batch", "reject", "--max-in-flight", "2", "--listen", "stdio:"]);
        testbed.args(["--exit-with-parent", "--log-level", "WARN", "--log-format", "json"]);
        testbed.arg("--no-color");
        let texts = [message(Some(1), "nonsense", ""), "[]".to_owned()];
        let talk = talk(testbed, framing, &texts);
        let reason = |answer: &Value| answer["error"]["data"]["reason"] == "batch-not-supported";
        assert!(talk.values().iter().any(reason), "{name}: {talk:?}");
        assert_eq!(talk.answer(1)["error"]["code"], -32601, "{name}");
        assert!(talk.log.iter().all(|line| line.starts_with('{') || !line.contains("WARN")));
    }
    // The same help, apart from the program name, and the same errors.
    let help = |command| {
        let output = run(command, b"");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.split_once("Options:").expect("options").1.to_owned()
    };
    let (mut testbed, mut daemon) = (command("editor"), rpc(&["--profile", "editor"]));
    testbed.arg("--help");
    daemon.arg("--help");
    let options = |text: &str| -> Vec<String> {
        let words = text.split_whitespace().filter(|word| word.starts_with("--"));
        words.filter(|word| *word != "--version").map(str::to_owned).collect()
    };
    let (mut testbeds, mut daemons) = (options(&help(testbed)), options(&help(daemon)));
    testbeds.sort_unstable();
    daemons.sort_unstable();
    assert_eq!(testbeds, daemons);
    let mut wrong = command("agent");
    wrong.args(["--batch", "maybe"]);
    let output = run(wrong, b"");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
}
