//! Middleware: guards, observers and wrappers, and the guarantees that they cannot break.

mod guards;
mod notes;
mod observers;
mod order;
mod outgoing;
#[cfg(feature = "tower")]
mod tower;
mod wrappers;

#[path = "../simulation/random.rs"]
#[allow(dead_code, reason = "only the simulation uses all of it")]
mod random;
#[path = "../support/remote.rs"]
mod remote;

use duet_rpc::{Failure, Profile, Router};
use serde_json::Value;

/// Sends messages, and returns the answers in the order of their arrival.
async fn answers(router: Router, messages: &[&str], count: usize) -> Vec<Value> {
    let (_peer, mut remote) = remote::serve(&Profile::agent(), router);
    for message in messages {
        remote.send(message).await;
    }
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(remote.next().await);
    }
    answers
}

fn fail() -> Result<(), Failure> {
    Err(Failure::new(-32077, "Failed"))
}

/// A request without params.
fn request(id: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

/// The code of the error, or the result.
fn outcome(answer: &Value) -> &Value {
    answer.pointer("/error/code").unwrap_or(&answer["result"])
}
