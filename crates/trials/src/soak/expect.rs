//! What an answer must be.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::wire::{Message, elements, squeezed};

/// One of the things that an answer may say.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// This result, as it stands there.
    Result(String),
    /// This result, but for white space: it is what was sent (`system.echo`).
    Echo(String),
    /// A string of so many `x`.
    Xs(usize),
    /// A text about the methods, the same each time.
    Page(&'static str),
    /// An error, with its data as JSON.
    Error { code: i64, message: String, data: Option<Value> },
    /// −32602 about this parameter; `received` is what was sent, or its type (E1).
    WrongParam { param: &'static str, received: String, is_listed: bool },
}

impl Outcome {
    pub(super) fn error(code: i64, message: &str) -> Self {
        Outcome::Error { code, message: message.to_owned(), data: None }
    }

    pub(super) fn parse_error() -> Self {
        Self::error(-32700, "Parse error")
    }

    pub(super) fn invalid() -> Self {
        Self::error(-32600, "Invalid Request")
    }

    /// An invalid request for a reason that has a name.
    pub(super) fn invalid_because(reason: &str) -> Self {
        let message = match reason {
            "batch-not-supported" => "Batch requests not supported",
            _ => "Invalid Request",
        };
        let data = Some(serde_json::json!({ "reason": reason }));
        Outcome::Error { code: -32600, message: message.to_owned(), data }
    }

    pub(super) fn cancelled() -> Self {
        Self::error(-32800, "Request cancelled")
    }

    pub(super) fn busy(limit: usize) -> Self {
        let data = Some(serde_json::json!({ "reason": "overloaded", "limit": limit }));
        Outcome::Error { code: -32000, message: "Server busy".to_owned(), data }
    }

    /// Whether this is what came.
    pub(super) fn is(&self, came: &Message<'_>, pages: &Pages) -> bool {
        let result =
            came.get("result").filter(|_| came.has_only(&["jsonrpc", "id", "result"], &[]));
        let error = came.get("error").filter(|_| came.has_only(&["jsonrpc", "id", "error"], &[]));
        match self {
            Outcome::Result(expected) => result == Some(expected),
            Outcome::Echo(expected) => result.is_some_and(|it| squeezed(it) == *expected),
            Outcome::Xs(count) => result.is_some_and(|it| is_xs(it, *count)),
            Outcome::Page(name) => result.is_some_and(|it| pages.is(name, it)),
            Outcome::Error { code, message, data } => error.is_some_and(|error| {
                let Ok(error) = Message::read(error) else { return false };
                error.has_only(&["code", "message"], if data.is_some() { &["data"] } else { &[] })
                    && error.number("code") == Some(*code)
                    && error.text("message").as_ref() == Some(message)
                    && error.get("data").map(|it| serde_json::from_str(it).unwrap_or_default())
                        == *data
            }),
            Outcome::WrongParam { param, received, is_listed } => error.is_some_and(|error| {
                let error: Value = serde_json::from_str(error).unwrap_or_default();
                let data = &error["data"];
                error["code"] == -32602
                    && error["message"] == "Invalid params"
                    && data["param"] == *param
                    && data["received"] == *received
                    && data["expected"].as_str().is_some_and(|it| !it.is_empty())
                    && data["accepted"].is_array() == *is_listed
                    && data.as_object().is_some_and(|it| it.len() == 3 + usize::from(*is_listed))
            }),
        }
    }
}

fn is_xs(text: &str, count: usize) -> bool {
    text.len() == count + 2
        && text.bytes().skip(1).take(count).all(|byte| byte == b'x')
        && text.starts_with('"')
        && text.ends_with('"')
}

/// The texts about the methods, as they came the first time.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<BTreeMap<&'static str, String>>);

impl Pages {
    fn is(&self, name: &'static str, text: &str) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(name).or_insert_with(|| text.to_owned()) == text
    }
}

/// An answer that is due.
#[derive(Clone, Debug)]
pub(super) struct Due {
    /// What it is counted as.
    pub(super) kind: &'static str,
    /// The id as it stands there.
    pub(super) id: String,
    /// What it may say.
    pub(super) outcomes: Vec<Outcome>,
    /// Whether it need not keep its place in the row of answers, as it may be called off.
    pub(super) may_overtake: bool,
    /// What to do besides when it has come.
    pub(super) effect: Effect,
}

/// What else an answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    /// From here on there may be events of these topics, as bits; counted anew if they are new.
    Subscribed(u8),
    /// So many notifications have come for it.
    Emitted(u64),
}

impl Due {
    pub(super) fn new(kind: &'static str, id: &str, outcome: Outcome) -> Self {
        let outcomes = vec![outcome];
        Due { kind, id: id.to_owned(), outcomes, may_overtake: false, effect: Effect::None }
    }

    /// The answer to what is no request.
    pub(super) fn refusal(outcome: Outcome) -> Self {
        Due::new("refusals", "null", outcome)
    }

    pub(super) fn or(mut self, outcome: Outcome) -> Self {
        self.outcomes.push(outcome);
        self
    }

    pub(super) fn overtaking(mut self) -> Self {
        self.may_overtake = true;
        self
    }

    pub(super) fn with(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Whether this is the answer.
    pub(super) fn is(&self, came: &Message<'_>, pages: &Pages) -> bool {
        came.get("id") == Some(&self.id)
            && came.get("jsonrpc") == Some("\"2.0\"")
            && self.outcomes.iter().any(|outcome| outcome.is(came, pages))
    }
}

/// Whether a text is an array of these answers, in any order.
pub(super) fn is_batch(dues: &[Due], text: &str, pages: &Pages) -> bool {
    let Some(parts) = elements(text).filter(|parts| parts.len() == dues.len()) else {
        return false;
    };
    let mut left: Vec<&Due> = dues.iter().collect();
    parts.iter().all(|part| {
        let Ok(message) = Message::read(part) else { return false };
        let place = left.iter().position(|due| due.is(&message, pages));
        place.map(|place| left.swap_remove(place)).is_some()
    })
}
