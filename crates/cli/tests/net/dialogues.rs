//! The dialogues, over every transport and in every framing, with identical messages (T1, T2).

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::{Client, Framed, Way};
use crate::script::{Dialogue, Needs, Step, daemon_rows, rows};
use crate::support::concurrently;
use crate::support::daemon::{FRAMINGS, command};
use crate::support::listening::Server;

/// Runs all dialogues that the transport supports, on one connection.
fn speak(client: &mut dyn Client, can_push: bool, of: &str) {
    // `auto` detects the framing from the first byte, so begin with a request.
    client.check(1);
    let mut skipped = Vec::new();
    for row in rows().into_iter().chain(daemon_rows()) {
        let is_able = match row.needs {
            Needs::Answers => true,
            Needs::Push => can_push,
            Needs::NoPush => !can_push,
        };
        if is_able {
            follow(client, &row, of);
        } else {
            skipped.push(row.name);
        }
    }
    let expected = if can_push { 1 } else { 7 };
    assert_eq!(skipped.len(), expected, "{of} skips the wrong dialogues: {skipped:?}");
}

fn follow(client: &mut dyn Client, row: &Dialogue, of: &str) {
    let mut call = String::new();
    for (number, step) in row.steps.iter().enumerate() {
        let case = || format!("{of}, “{}”, step {number}", row.name);
        let mut next = || client.receive().unwrap_or_else(|| panic!("{}: the end", case()));
        match step {
            Step::Send(bytes) => client.send(bytes),
            Step::Back(text) => assert_same(&next(), &text.replace("$CALL", &call), &case()),
            Step::Both(texts) => {
                let expected = texts.clone().map(|text| text.replace("$CALL", &call));
                assert_eq!(sorted([next(), next()]), sorted(expected), "{}", case());
            }
            Step::Batch(texts) => {
                let text = next();
                let entries: Vec<&RawValue> = serde_json::from_str(&text).expect("an array");
                let came = entries.iter().map(|entry| entry.get().to_owned());
                assert_eq!(sorted(came), sorted(texts.clone()), "{}", case());
            }
            Step::Call(rest) => {
                let text = next();
                let id = text.strip_prefix(r#"{"jsonrpc":"2.0","id":"#);
                let id = id.and_then(|text| text.strip_suffix(rest)?.strip_suffix(','));
                id.unwrap_or_else(|| panic!("{}: no call: {text}", case())).clone_into(&mut call);
            }
            Step::Settle(outcome) => {
                client.send(format!(r#"{{"jsonrpc":"2.0","id":{call},{outcome}}}"#).as_bytes());
            }
            Step::Event(topic) => {
                let text = next();
                let event: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(event["method"], "event", "{}: {text}", case());
                assert_eq!(event["params"]["topic"], *topic, "{}: {text}", case());
            }
            Step::BehindEvents(text) => {
                let is_event =
                    |text: &str| text.starts_with(r#"{"jsonrpc":"2.0","method":"event""#);
                let mut came = next();
                while is_event(&came) {
                    came = next();
                }
                assert_same(&came, text, &case());
            }
            Step::Refused(id) => {
                let text = next();
                let answer: Value = serde_json::from_str(&text).expect("JSON");
                assert_eq!(answer["id"], *id, "{}: {text}", case());
                assert!(answer["error"]["code"].is_i64(), "{}: {text}", case());
                assert!(!text.contains("CANARY"), "{}: {text}", case());
            }
        }
    }
}

fn sorted(texts: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_unstable();
    texts
}

/// Compares texts, and shortens long ones in the failure.
fn assert_same(came: &str, expected: &str, case: &str) {
    let cut = |text: &str| text.chars().take(300).collect::<String>();
    let lengths = (came.len(), expected.len());
    assert!(came == expected, "{case}: {lengths:?}\n  {}\n  {}", cut(came), cut(expected));
}

/// Calls `shutdown`: the answer comes, and then the end of the connection.
fn leave(client: &mut dyn Client, of: &str) {
    let answer = r#"{"jsonrpc":"2.0","id":9,"result":{"message":"Shutting down gracefully"}}"#;
    assert_eq!(client.ask(9, "shutdown", "[]"), answer, "{of}");
    assert_eq!(client.receive(), None, "{of}");
}

/// Starts a daemon on all transports with this framing, and runs the dialogues in these ways.
fn over(framing: &str, ways: &[Way]) {
    let server = Server::testbed_everywhere(&["--framing", framing, "--share-log"]);
    for &way in ways {
        let of = format!("{way:?} as {framing}");
        let mut client = way.connect(&server);
        speak(&mut *client, way != Way::Http, &of);
        leave(&mut *client, &of);
    }
    assert_eq!(server.end(Signal::TERM).status.code(), Some(0), "{framing}");
}

#[test]
fn t1_the_dialogues_are_the_same_over_stdio_in_every_framing() {
    for (name, framing) in FRAMINGS {
        let mut command = command("agent");
        command.args(["--framing", name, "--listen", "stdio:"]).stderr(Stdio::null());
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example is built");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let mut client = Framed::over(stdout.expect("a pipe"), stdin.expect("a pipe"), framing);
        let of = format!("stdio as {name}, {framing:?}");
        speak(&mut client, true, &of);
        leave(&mut client, &of);
        assert_eq!(process.wait().expect("our child").code(), Some(0), "{of}");
    }
}

#[test]
fn t1_t2_the_dialogues_are_the_same_over_every_transport_in_every_framing() {
    concurrently(FRAMINGS, |(name, framing)| {
        // The framing does not affect the others, and HTTP skips dialogues that need server push.
        let others = [Way::WebSocket, Way::Binary, Way::Http];
        over(name, &[&[Way::Tcp(framing), Way::Unix(framing)], &others[..]].concat());
    });
}

/// Connections of one daemon do not disturb each other.
#[test]
fn t2_all_transports_are_served_concurrently() {
    let server = Server::testbed_everywhere(&[]);
    std::thread::scope(|scope| {
        for way in Way::ALL.into_iter().chain([Way::Binary]).cycle().take(10) {
            let mut client = way.connect(&server);
            scope.spawn(move || {
                client.check(0);
                // Events and log records concern all connections, so those dialogues are left out.
                let is_able = |row: &Dialogue| row.needs == Needs::Answers || way != Way::Http;
                for row in rows().iter().filter(|row| row.needs != Needs::NoPush) {
                    if is_able(row) {
                        follow(&mut *client, row, &format!("{way:?} beside others"));
                    }
                }
                leave(&mut *client, &format!("{way:?} beside others"));
            });
        }
    });
    assert_eq!(server.end(Signal::TERM).status.code(), Some(0));
}
