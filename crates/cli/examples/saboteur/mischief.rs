//! The kinds of sabotage.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::units::{Framing, Unit};

/// One way to break a server. Its name is in kebab-case, such as `answer-lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mischief {
    /// Changes nothing. A client that fails with it fails for another reason.
    Nothing,
    /// The server sends nothing.
    Mute,
    /// The second answer is lost.
    AnswerLost,
    /// The second answer has the id of another request.
    WrongId,
    /// The second successful answer has another result.
    WrongResult,
    /// Errors have another code.
    ErrorCode,
    /// Errors have no `data`.
    ErrorData,
    /// The second message of the server is one byte longer than its length, or its line does not end.
    ShortCount,
    /// A stray line is printed between the first and the second message of the server.
    StrayPrint,
    /// Requests of the server are lost.
    CallLost,
    /// Notifications of the server are lost.
    EventLost,
    /// Every notification of the server comes twice.
    EventTwice,
    /// Cancellations by the client are lost.
    CancelLost,
    /// Every cancellation by the client gets an error response, whatever the server does.
    CancelAnswered,
    /// Notifications by the client, other than cancellations, are lost.
    NoticeLost,
    /// The server ends with another status.
    Status,
    /// Members are misspelled with the same length, so this works in any protocol.
    Misspelled,
}

impl Mischief {
    pub(crate) fn named(name: &str) -> Option<Self> {
        serde_json::from_value(json!(name)).ok()
    }

    /// The spoilers for the two directions of one connection; `None` for an unchanged direction.
    pub(crate) fn spoilers(self) -> Spoilers {
        let cancelled = Arc::default();
        let spoiler = |direction, is_used: bool| {
            let (mischief, cancelled) = (self, Arc::clone(&cancelled));
            let (messages, answers, results) = (0, 0, 0);
            let spoiler = Spoiler { mischief, direction, messages, answers, results, cancelled };
            is_used.then_some(spoiler)
        };
        let (to_server, to_client) = match self {
            Mischief::Nothing | Mischief::Status => (false, false),
            Mischief::CancelLost | Mischief::NoticeLost => (true, false),
            Mischief::CancelAnswered => (true, true),
            _ => (false, true),
        };
        Spoilers {
            to_server: spoiler(Direction::ToServer, to_server),
            to_client: spoiler(Direction::ToClient, to_client),
        }
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToClient,
    ToServer,
}

pub(crate) struct Spoilers {
    pub(crate) to_server: Option<Spoiler>,
    pub(crate) to_client: Option<Spoiler>,
}

/// Corrupts the messages of one direction.
pub(crate) struct Spoiler {
    mischief: Mischief,
    direction: Direction,
    /// Number of messages so far, including the current one.
    messages: u32,
    answers: u32,
    results: u32,
    /// Ids of the requests that the client cancelled, shared by both directions.
    cancelled: Arc<Mutex<Vec<Value>>>,
}

impl Spoiler {
    /// Writes the unit, corrupted or not, or drops it.
    pub(crate) fn pass(&mut self, unit: &Unit, output: &mut Vec<u8>) {
        match self.mischief {
            Mischief::Mute => return,
            Mischief::Misspelled => return misspelled(unit).write(output),
            _ => {}
        }
        // Batches pass unchanged, and so do bytes that are not a message, because clients may send them on
        // purpose.
        let message = serde_json::from_slice(&unit.body).ok().filter(Value::is_object);
        let Some(mut message) = message else { return unit.write(output) };
        let (has_method, has_id) = (message.get("method").is_some(), message.get("id").is_some());
        let is_cancel = matches!(
            message.get("method").and_then(Value::as_str),
            Some("$/cancelRequest" | "notifications/cancelled")
        );
        self.messages += 1;
        self.answers += u32::from(!has_method);
        self.results += u32::from(!has_method && message.get("result").is_some());
        let (is_second, is_second_answer) = (self.messages == 2, !has_method && self.answers == 2);
        match self.mischief {
            Mischief::AnswerLost if is_second_answer => {}
            Mischief::WrongId if is_second_answer => {
                message["id"] = json!(1_000_003);
                rewritten(&message, unit.framing).write(output);
            }
            Mischief::WrongResult if self.results == 2 && message.get("result").is_some() => {
                message["result"] = json!("sabotage");
                rewritten(&message, unit.framing).write(output);
            }
            Mischief::ErrorCode if message.get("error").is_some() => {
                message["error"]["code"] = json!(-32099);
                rewritten(&message, unit.framing).write(output);
            }
            Mischief::ErrorData if message.pointer("/error/data").is_some() => {
                message["error"].as_object_mut().and_then(|error| error.remove("data"));
                rewritten(&message, unit.framing).write(output);
            }
            Mischief::ShortCount if is_second => unit.write_short(output),
            Mischief::StrayPrint if is_second => {
                output.extend_from_slice(b"here I am\n");
                unit.write(output);
            }
            Mischief::CallLost if has_method && has_id => {}
            Mischief::EventLost if has_method && !has_id => {}
            Mischief::CancelLost if is_cancel => {}
            Mischief::CancelAnswered => {
                let mut cancelled = self.cancelled.lock().expect("no thread panics");
                match self.direction {
                    Direction::ToServer if is_cancel => {
                        let names = ["/params/requestId", "/params/id"];
                        let id = names.iter().find_map(|name| message.pointer(name));
                        cancelled.extend(id.cloned());
                    }
                    Direction::ToServer => {}
                    Direction::ToClient => {
                        for id in cancelled.drain(..) {
                            let error = json!({"code": -32800, "message": "Request cancelled"});
                            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                            rewritten(&answer, unit.framing).write(output);
                        }
                    }
                }
                unit.write(output);
            }
            Mischief::NoticeLost if has_method && !has_id && !is_cancel => {}
            Mischief::EventTwice if has_method && !has_id => {
                unit.write(output);
                unit.write(output);
            }
            _ => unit.write(output),
        }
    }
}

fn rewritten(message: &Value, framing: Framing) -> Unit {
    Unit { framing, body: message.to_string().into_bytes() }
}

/// Replaces the names with `"Result"` and `"Error"`, which no client reads.
fn misspelled(unit: &Unit) -> Unit {
    let mut body = unit.body.clone();
    for (right, wrong) in [(&b"\"result\""[..], b'R'), (b"\"error\"", b'E')] {
        while let Some(place) = body.windows(right.len()).position(|window| window == right) {
            body[place + 1] = wrong;
        }
    }
    Unit { framing: unit.framing, body }
}
