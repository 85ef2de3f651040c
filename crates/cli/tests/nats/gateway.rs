//! Gateways: a client of a service gets what a client of a daemon gets.

use std::process::Command;

use duet_rpc::Framing;
use serde_json::{Value, json};

use super::broker::{Broker, has_nats};
use super::support::daemon::Daemon;
use super::support::programs::DUET_RPC;
use super::worker;

/// A gateway whose client is the test, on stdin and stdout.
fn gateway(broker: &Broker, options: &[&str]) -> Daemon {
    let mut command = Command::new(DUET_RPC);
    command.args(["bridge", "--connect", &format!("{}/math", broker.url())]).args(options);
    command.env_remove("DUET_RPC_LOG");
    Daemon::spawn(command, Framing::Ndjson)
}

fn end(mut daemon: Daemon) {
    drop(daemon.stdin.take());
    daemon.process.wait().expect("it ends");
}

fn callback(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "system.callback", "params": {"method": "ask"}})
}

#[test]
fn n1_what_is_not_a_message_is_answered_as_by_a_daemon() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = worker(&broker);
    let (mut gateway, mut daemon) = (gateway(&broker, &[]), Daemon::rpc("agent", &[]));
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"system.ping"}"#,
        r#"{"foo":1}"#,
        "5",
        r#"{"jsonrpc":"2.0","id":2,"method":"system.ping"}"#,
    ] {
        gateway.send(text);
        daemon.send(text);
        assert_eq!(gateway.answer(), daemon.answer(), "{text}");
    }
    end(gateway);
    end(daemon);
    worker.stop();
}

#[test]
fn n1_n5_answers_and_cancellations_in_a_batch_have_an_effect() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = worker(&broker);
    let mut gateway = gateway(&broker, &[]);
    gateway.send(&callback(1).to_string());
    let question = gateway.answer();
    assert_eq!(question["method"], "ask");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "yes"});
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "system.ping"});
    gateway.send(&json!([answer, ping]).to_string());
    let (one, two) = (gateway.answer(), gateway.answer());
    let (single, batch) = if one.is_array() { (two, one) } else { (one, two) };
    assert_eq!(single, json!({"jsonrpc": "2.0", "id": 1, "result": "yes"}));
    assert_eq!(batch, json!([{"jsonrpc": "2.0", "id": 2, "result": "pong"}]));

    gateway.send(&callback(3).to_string());
    assert_eq!(gateway.answer()["method"], "ask");
    let params = json!({"id": 3});
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params});
    gateway.send(&json!([cancel]).to_string());
    let cancelled = std::iter::repeat_with(|| gateway.answer()).find(|it| it["id"] == 3);
    assert_eq!(cancelled.expect("an answer")["error"]["code"], -32800);
    end(gateway);
    worker.stop();
}

#[test]
fn n5_a_cancelled_request_of_a_batch_leaves_the_others() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = worker(&broker);
    let mut gateway = gateway(&broker, &[]);
    gateway.send(&json!([callback(1), callback(2)]).to_string());
    let (one, two) = (gateway.answer(), gateway.answer());
    let params = json!({"id": 2});
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params});
    gateway.send(&cancel.to_string());
    // The worker cancels the question of the cancelled request.
    let cancelled = gateway.answer();
    assert_eq!(cancelled["method"], "$/cancelRequest");
    let open = if cancelled["params"]["id"] == one["id"] { two } else { one };
    gateway.send(&json!({"jsonrpc": "2.0", "id": open["id"], "result": "yes"}).to_string());
    let answers = gateway.answer();
    let answers = answers.as_array().expect("a batch");
    let answer = |id: u64| answers.iter().find(|it| it["id"] == id).expect("an answer");
    assert_eq!(answer(1)["result"], "yes");
    assert_eq!(answer(2)["error"]["code"], -32800);
    end(gateway);
    worker.stop();
}

#[test]
fn n8_an_answer_over_the_limit_of_a_gateway_ends_its_request() {
    if !has_nats() {
        return;
    }
    let broker = Broker::start();
    let worker = worker(&broker);
    let mut gateway = gateway(&broker, &["--max-message-bytes", "1000"]);
    let answer = gateway.ask(1, "rpc.discover", "[]");
    assert_eq!(answer["id"], 1);
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("answer too large"), "{message}");
    assert_eq!(gateway.ask(2, "system.ping", "[]")["result"], "pong");
    end(gateway);
    worker.stop();
}
