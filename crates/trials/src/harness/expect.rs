//! One expected answer: its id, its allowed contents, and its effect.

use super::events::remove;
use super::message::{elements, squeezed};
use crate::harness::prelude::*;

/// One allowed content of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// This result, exactly as written.
    Result(String),
    /// This result, apart from white space: the params that were sent (`system.echo`).
    Echo(String),
    /// A string of this many `x`.
    Xs(usize),
    /// A text about the methods, the same each time.
    Page(&'static str),
    /// Any result but `null`.
    Any,
    /// An error with this code.
    Code(i64),
    /// This error, with its data as JSON.
    Error { code: i64, message: String, data: Option<Value> },
    /// −32602 about this parameter; `received` is the sent value, or its type (E1).
    WrongParam { param: &'static str, received: &'static str, is_listed: bool },
}

impl Outcome {
    pub(crate) fn result(value: &Value) -> Self {
        Outcome::Result(value.to_string())
    }

    pub(crate) fn error(code: i64, message: &str) -> Self {
        Outcome::Error { code, message: message.to_owned(), data: None }
    }

    pub(crate) fn parse_error() -> Self {
        Self::error(-32700, "Parse error")
    }

    pub(crate) fn invalid() -> Self {
        Self::error(-32600, "Invalid Request")
    }

    /// An invalid request, with this reason in its data.
    pub(crate) fn invalid_because(reason: &str) -> Self {
        let message = match reason {
            "batch-not-supported" => "Batch requests not supported",
            _ => "Invalid Request",
        };
        let data = Some(json!({ "reason": reason }));
        Outcome::Error { code: -32600, message: message.to_owned(), data }
    }

    pub(crate) fn cancelled() -> Self {
        Self::error(-32800, "Request cancelled")
    }

    pub(crate) fn busy(limit: usize) -> Self {
        let data = Some(json!({ "reason": "overloaded", "limit": limit }));
        Outcome::Error { code: -32000, message: "Server busy".to_owned(), data }
    }

    fn is(&self, came: &Message<'_>, pages: &Pages) -> bool {
        let only =
            |name: &str| came.get(name).filter(|_| came.has_only(&["jsonrpc", "id", name], &[]));
        let result = only("result");
        let error = only("error").filter(|it| Message::read(it).is_ok());
        let error = error.and_then(|it| serde_json::from_str::<Value>(it).ok()).unwrap_or_default();
        match self {
            Outcome::Result(expected) => result == Some(expected),
            Outcome::Echo(expected) => result.is_some_and(|it| squeezed(it) == *expected),
            Outcome::Xs(count) => result.is_some_and(|it| is_xs(it, *count)),
            Outcome::Page(name) => result.is_some_and(|it| pages.is(name, it)),
            Outcome::Any => result.is_some_and(|it| it != "null"),
            Outcome::Code(code) => error["code"] == *code,
            Outcome::Error { code, message, data } => {
                let mut expected = json!({ "code": code, "message": message });
                data.iter().for_each(|data| expected["data"] = data.clone());
                error == expected
            }
            Outcome::WrongParam { param, received, is_listed } => {
                let data = &error["data"];
                error["code"] == -32602
                    && error["message"] == "Invalid params"
                    && data["param"] == *param
                    && data["received"] == *received
                    && data["expected"].as_str().is_some_and(|it| !it.is_empty())
                    && data["accepted"].is_array() == *is_listed
                    && data.as_object().is_some_and(|it| it.len() == 3 + usize::from(*is_listed))
            }
        }
    }
}

fn is_xs(text: &str, count: usize) -> bool {
    let inner = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.is_some_and(|it| it.len() == count && it.bytes().all(|byte| byte == b'x'))
}

/// The texts about the methods, as first received.
#[derive(Debug, Default)]
pub(crate) struct Pages(Mutex<BTreeMap<&'static str, String>>);

impl Pages {
    fn is(&self, name: &'static str, text: &str) -> bool {
        lock(&self.0).entry(name).or_insert_with(|| text.to_owned()) == text
    }
}

/// A due answer.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    /// Name of the counter to increment when the answer arrives.
    pub(crate) kind: &'static str,
    /// The id, as written.
    pub(crate) id: String,
    /// The allowed contents.
    pub(crate) outcomes: Vec<Outcome>,
    /// True if it may come out of order, for example after a cancellation.
    pub(crate) may_overtake: bool,
    pub(crate) effect: Effect,
}

/// Effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// Events of these topics, as bits, may come from now on.
    Subscribed(u8),
    /// This many notifications came before the answer.
    Emitted(u64),
}

impl Due {
    pub(crate) fn new(kind: &'static str, id: &str, outcome: Outcome) -> Self {
        let outcomes = vec![outcome];
        Due { kind, id: id.to_owned(), outcomes, may_overtake: false, effect: Effect::None }
    }

    /// The answer to input that is not a request.
    pub(crate) fn refusal(outcome: Outcome) -> Self {
        Due::new("refusals", "null", outcome)
    }

    pub(crate) fn or(mut self, outcome: Outcome) -> Self {
        self.outcomes.push(outcome);
        self
    }

    pub(crate) fn overtaking(mut self) -> Self {
        self.may_overtake = true;
        self
    }

    /// Returns true if `came` is this answer.
    pub(crate) fn is(&self, came: &Message<'_>, pages: &Pages) -> bool {
        came.get("id") == Some(&self.id)
            && came.get("jsonrpc") == Some("\"2.0\"")
            && self.outcomes.iter().any(|outcome| outcome.is(came, pages))
    }
}

/// Returns true if the text is an array of these answers, in any order.
pub(crate) fn is_batch(dues: &[Due], text: &str, pages: &Pages) -> bool {
    let Some(parts) = elements(text).filter(|parts| parts.len() == dues.len()) else {
        return false;
    };
    let mut left: Vec<&Due> = dues.iter().collect();
    parts.iter().all(|part| {
        let Ok(message) = Message::read(part) else { return false };
        remove(&mut left, |due| due.is(&message, pages)).is_some()
    })
}
