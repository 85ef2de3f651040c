//! What can be spoiled.

use serde_json::{Value, json};

use crate::units::{Framing, Unit};

/// One way for a server to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// Nothing is spoiled: a client that fails with this fails for another reason.
    Nothing,
    /// The server says nothing at all.
    Mute,
    /// The second answer is lost.
    AnswerLost,
    /// The second answer has the id of another request.
    WrongId,
    /// The second answer that is a result has another one.
    WrongResult,
    /// Errors have another code.
    ErrorCode,
    /// Errors have no `data`.
    ErrorData,
    /// The second message of the server is one byte longer than it says, or its line does not end.
    ShortCount,
    /// Something is printed between the first and the second message of the server.
    StrayPrint,
    /// Requests of the server are lost.
    CallLost,
    /// Notifications of the server are lost.
    EventLost,
    /// Every notification of the server comes twice.
    EventTwice,
    /// Cancellations by the client are lost.
    CancelLost,
    /// Notifications by the client, other than cancellations, are lost.
    NoticeLost,
    /// The server ends with another status.
    Status,
    /// Members are misspelled, with as many letters: this goes through any protocol.
    Misspelled,
}

const NAMES: [(&str, Mischief); 16] = [
    ("nothing", Mischief::Nothing),
    ("mute", Mischief::Mute),
    ("answer-lost", Mischief::AnswerLost),
    ("wrong-id", Mischief::WrongId),
    ("wrong-result", Mischief::WrongResult),
    ("error-code", Mischief::ErrorCode),
    ("error-data", Mischief::ErrorData),
    ("short-count", Mischief::ShortCount),
    ("stray-print", Mischief::StrayPrint),
    ("call-lost", Mischief::CallLost),
    ("event-lost", Mischief::EventLost),
    ("event-twice", Mischief::EventTwice),
    ("cancel-lost", Mischief::CancelLost),
    ("notice-lost", Mischief::NoticeLost),
    ("status", Mischief::Status),
    ("misspelled", Mischief::Misspelled),
];

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToClient,
    ToServer,
}

impl Mischief {
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, mischief)| *mischief)
    }

    /// What does it in one direction of a connection, if it is done there.
    pub(crate) fn at(self, direction: Direction) -> Option<Spoiler> {
        let goes = match self {
            Mischief::Nothing | Mischief::Status => return None,
            Mischief::CancelLost | Mischief::NoticeLost => Direction::ToServer,
            _ => Direction::ToClient,
        };
        (goes == direction).then_some(Spoiler {
            mischief: self,
            messages: 0,
            answers: 0,
            results: 0,
        })
    }
}

/// Spoils what goes in one direction.
pub(crate) struct Spoiler {
    mischief: Mischief,
    /// How many have passed, with this one.
    messages: u32,
    answers: u32,
    results: u32,
}

impl Spoiler {
    /// Writes what is left of it.
    pub(crate) fn pass(&mut self, unit: &Unit, output: &mut Vec<u8>) {
        match self.mischief {
            Mischief::Mute => return,
            Mischief::Misspelled => return misspelled(unit).write(output),
            _ => {}
        }
        // What is no message, as clients may send it on purpose, and batches pass as they are.
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

/// With `"Result"` and `"Error"`, which nobody looks for.
fn misspelled(unit: &Unit) -> Unit {
    let mut body = unit.body.clone();
    for (right, wrong) in [(&b"\"result\""[..], b'R'), (b"\"error\"", b'E')] {
        while let Some(place) = body.windows(right.len()).position(|window| window == right) {
            body[place + 1] = wrong;
        }
    }
    Unit { framing: unit.framing, body }
}
