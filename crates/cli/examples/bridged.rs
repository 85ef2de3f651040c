//! A server for the tests of `duet-rpc bridge`: it speaks one message per line, and serves many requests at the same
//! time.
//!
//! | method | answer |
//! |---|---|
//! | `initialize` | the number of `initialize` requests that it got |
//! | `count` | the same number |
//! | `work` | progress for the token of the request, then `serial` of its params |
//! | `hold` | `serial`, but only in an error after a cancellation |
//! | `ask` | asks the client `question`, and answers with the client's answer |
//! | `tell` | sends the notification `told` with its params, and then answers |
//! | `flood` | sends `count` notifications of `bytes` bytes, and then answers |
//! | `die` | none: it exits with 3 |
//!
//! With the argument `ignore-eof` it stays when its stdin ends.

use std::io::{BufRead, Write, stdin, stdout};

use serde_json::{Value, json};

/// A request that waits for a cancellation, or for an answer of the client.
struct Waiting {
    id: Value,
    serial: Value,
    question: Option<u64>,
}

fn send(message: &Value) {
    let mut line = message.to_string();
    line.push('\n');
    if stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(0);
    }
}

fn answer(id: &Value, result: &Value) {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn main() {
    let (mut waiting, mut initialized, mut questions) = (Vec::<Waiting>::new(), 0, 0);
    for line in stdin().lock().lines() {
        let Ok(message) = line.map(|line| serde_json::from_str::<Value>(&line)) else { break };
        let Ok(message) = message else { continue };
        let (id, params) = (&message["id"], &message["params"]);
        let serial = params["serial"].clone();
        match message["method"].as_str() {
            Some("initialize") => {
                initialized += 1;
                answer(id, &json!({"count": initialized}));
            }
            Some("count") => answer(id, &json!(initialized)),
            Some("work") => {
                for (method, name, token) in [
                    ("$/progress", "token", &params["workDoneToken"]),
                    ("notifications/progress", "progressToken", &params["_meta"]["progressToken"]),
                ] {
                    if !token.is_null() {
                        let params = json!({name: token, "value": serial});
                        send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
                    }
                }
                answer(id, &serial);
            }
            Some("hold") => waiting.push(Waiting { id: id.clone(), serial, question: None }),
            Some("ask") => {
                questions += 1;
                let question = json!({"jsonrpc": "2.0", "id": questions, "method": "question", "params": params});
                send(&question);
                waiting.push(Waiting { id: id.clone(), serial, question: Some(questions) });
            }
            Some("tell") => {
                send(&json!({"jsonrpc": "2.0", "method": "told", "params": params}));
                answer(id, &serial);
            }
            Some("flood") => {
                let bytes = params["bytes"].as_u64().unwrap_or_default();
                let text = "x".repeat(usize::try_from(bytes).unwrap_or_default());
                for _ in 0..params["count"].as_u64().unwrap_or_default() {
                    send(&json!({"jsonrpc": "2.0", "method": "flood", "params": [text]}));
                }
                answer(id, &serial);
            }
            Some("$/cancelRequest") => {
                let is_it = |it: &mut Waiting| it.id == params["id"] && it.question.is_none();
                for held in waiting.extract_if(.., is_it) {
                    let error = json!({"code": -32800, "message": "c", "data": held.serial});
                    send(&json!({"jsonrpc": "2.0", "id": held.id, "error": error}));
                }
            }
            Some("die") => std::process::exit(3),
            Some(_) => {}
            None => {
                let is_it = |it: &mut Waiting| it.question.is_some() && it.question == id.as_u64();
                for asked in waiting.extract_if(.., is_it) {
                    answer(&asked.id, &message["result"]);
                }
            }
        }
    }
    if std::env::args().any(|word| word == "ignore-eof") {
        loop {
            std::thread::park();
        }
    }
}
