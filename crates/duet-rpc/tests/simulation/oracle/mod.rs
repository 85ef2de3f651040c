//! Oracle: checks a run against the journal of all bytes on the link and all reactions of the peers.
//!
//! If only the plans decide, a call ends as planned. Otherwise the link decides: a call ends when the last
//! byte of its answer is read, or at its deadline.

mod answers;
mod busy;
mod calls;
mod ends;
mod events;
mod order;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::journal::{Book, Event};
use crate::plan::End;
use crate::play::Outcome;
use crate::world::World;

/// The kind of a message, as far as it matters here.
#[derive(Debug)]
enum Kind {
    /// The raw id, and the number of the request.
    Request(String, Option<u64>),
    /// The number, if it has one.
    Notification(Option<u64>),
    Cancel(String),
    Progress(u64),
    /// The topic, the sequence, and the number of events that were dropped before.
    Event(String, u64, u64),
    Answer(String, End),
    /// The answer to a batch.
    Answers(Vec<(String, End)>),
}

struct Message {
    kind: Kind,
    sent: u64,
    /// The time at which its last byte was read, if it was read and could be understood.
    arrived: Option<u64>,
    /// `true` if it may have taken too long to be read.
    is_late: bool,
}

struct Oracle<'a> {
    world: &'a World,
    book: &'a Book,
    outcome: &'a Outcome,
    /// The messages that each side has sent.
    messages: [Vec<Message>; 2],
    objections: Vec<String>,
}

/// All violations.
pub(crate) fn judge(world: &World, book: &Book, outcome: &Outcome) -> Vec<String> {
    let mut oracle = Oracle {
        world,
        book,
        outcome,
        messages: Default::default(),
        objections: book.objections.clone(),
    };
    oracle.read_messages();
    oracle.check_calls();
    oracle.check_plans();
    oracle.check_order();
    oracle.check_ends();
    if world.framing.is_some() {
        oracle.check_answers();
        oracle.check_busy();
        oracle.check_events();
        oracle.check_delivery();
        oracle.check_room();
    }
    oracle.objections
}

impl Oracle<'_> {
    fn object(&mut self, objection: String) {
        self.objections.push(objection);
    }

    fn read_messages(&mut self) {
        for side in [0, 1] {
            let remote = &self.world.sides[1 - side].profile;
            for frame in &self.book.frames[side] {
                let is_too_long = frame.body.len() > remote.limits.message_bytes;
                let took = frame.arrived.zip(frame.first_arrived).map(|(last, first)| last - first);
                let most = remote.read_timeout.map_or(u64::MAX, |time| time.as_millis() as u64);
                let arrived = frame.arrived.filter(|_| !is_too_long);
                let is_late = took.is_some_and(|took| took >= most);
                match kind_of(&frame.body) {
                    Some(kind) => {
                        self.messages[side].push(Message {
                            kind,
                            sent: frame.sent,
                            arrived,
                            is_late,
                        });
                    }
                    None => {
                        let text = String::from_utf8_lossy(&frame.body).into_owned();
                        self.objections
                            .push(format!("side {side} sent bytes that are not a message: {text}"));
                    }
                }
            }
        }
    }

    /// The times of matching events.
    fn when(&self, is_it: impl Fn(&Event) -> bool) -> impl Iterator<Item = u64> {
        self.book.events.iter().filter(move |(_, event)| is_it(event)).map(|(at, _)| *at)
    }
}

fn kind_of(body: &[u8]) -> Option<Kind> {
    let value: Value = serde_json::from_slice(body).ok()?;
    if let Value::Array(answers) = value {
        return answers.iter().map(answer_of).collect::<Option<_>>().map(Kind::Answers);
    }
    let Some(method) = value.get("method") else {
        return answer_of(&value).map(|(id, end)| Kind::Answer(id, end));
    };
    let params = value.get("params").cloned().unwrap_or_default();
    let number = params.get(0).and_then(Value::as_u64);
    let raw = |name: &str| params.get(name).map(ToString::to_string);
    Some(match (value.get("id"), method.as_str()?) {
        (Some(id), _) => Kind::Request(id.to_string(), number),
        (None, "$/cancelRequest") => Kind::Cancel(raw("id")?),
        (None, "notifications/cancelled") => Kind::Cancel(raw("requestId")?),
        (None, "$/progress") => Kind::Progress(params.get("token")?.as_u64()?),
        (None, "notifications/progress") => Kind::Progress(params.get("progressToken")?.as_u64()?),
        (None, "event") => {
            let dropped = params.get("dropped").map_or(Some(0), Value::as_u64)?;
            Kind::Event(raw("topic")?, params.get("sequence")?.as_u64()?, dropped)
        }
        (None, _) => Kind::Notification(number),
    })
}

/// An answer holds exactly one of two members (M8).
fn answer_of(value: &Value) -> Option<(String, End)> {
    let end = match (value.get("result"), value.get("error")) {
        (Some(result), None) => End::Value(result.get(0)?.as_u64()?),
        (None, Some(error)) => End::Code(error.get("code")?.as_i64()?),
        _ => return None,
    };
    Some((value.get("id")?.to_string(), end))
}

/// Counts by name.
type Counts = BTreeMap<String, usize>;
