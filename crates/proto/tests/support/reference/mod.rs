//! Reference implementation of the rules: slow and obvious, written from the text of the
//! specification alone, to compare the fast code with.
//!
//! It allocates, recurses and copies freely. If it differs from the code, one of the two has
//! misread a rule.

pub mod against;
pub mod framing;
pub mod json;

use json::{Kind, Value};

/// The meaning of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Request {
        id: String,
        method: Vec<u16>,
        params: Option<String>,
    },
    Notification {
        method: Vec<u16>,
        params: Option<String>,
    },
    Response {
        id: String,
        /// The text of `result`, or of `error`.
        outcome: Result<String, String>,
    },
    /// A response that cannot be used: it is dropped.
    InvalidResponse,
    /// Answered with an error.
    Error(Refusal),
    Batch(Vec<Verdict>),
}

/// An error that follows from the rules alone, before any method is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub reason: Option<&'static str>,
    /// As JSON.
    pub id: String,
}

/// The settings of the rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub allow_batch: bool,
    pub depth: usize,
    pub batch_entries: usize,
}

/// Judges the body of a frame, or any JSON text.
pub fn judge(bytes: &[u8], rules: Rules) -> Verdict {
    // M5: UTF-8 and JSON, then array, then object. M9: too deep counts as not JSON.
    let value = std::str::from_utf8(bytes).ok().and_then(|text| json::read(text, rules.depth));
    let Some(value) = value else { return error(-32700, None, "null") };
    match value.kind {
        Kind::Array(_) if !rules.allow_batch => error(-32600, Some("batch-not-supported"), "null"),
        Kind::Array(entries) if entries.is_empty() => error(-32600, None, "null"),
        Kind::Array(entries) if entries.len() > rules.batch_entries => {
            error(-32600, Some("oversize"), "null")
        }
        Kind::Array(entries) => Verdict::Batch(entries.iter().map(message).collect()),
        _ => message(&value),
    }
}

/// Judges a single message, or an entry of a batch, where an array is invalid.
fn message(value: &Value) -> Verdict {
    let Kind::Object(members) = &value.kind else { return error(-32600, None, "null") };
    let all = |name: &str| -> Vec<&Value> {
        let name: Vec<u16> = name.encode_utf16().collect();
        members.iter().filter(|(other, _)| *other == name).map(|(_, value)| value).collect()
    };
    let (jsonrpc, id, method) = (all("jsonrpc"), all("id"), all("method"));
    let (params, result, failure) = (all("params"), all("result"), all("error"));
    let is_two = |value: &Value| value.kind == Kind::String("2.0".encode_utf16().collect());

    // M7, M8: a response never gets an answer.
    if method.is_empty() && !(result.is_empty() && failure.is_empty()) {
        let outcome = match (&result[..], &failure[..]) {
            ([result], []) => Ok(result.text.clone()),
            ([], [failure]) => Err(failure.text.clone()),
            _ => return Verdict::InvalidResponse,
        };
        return match (&id[..], &jsonrpc[..]) {
            // `params` does not belong in a response, but it is a member of the envelope.
            _ if params.len() > 1 => Verdict::InvalidResponse,
            ([id], [jsonrpc]) if is_id(id) && is_two(jsonrpc) => {
                Verdict::Response { id: id.text.clone(), outcome }
            }
            _ => Verdict::InvalidResponse,
        };
    }

    // M5: the id first, then the rest. M2: an invalid id is not echoed. M4: a duplicate id counts
    // as none.
    let echo = match &id[..] {
        [] => "null",
        [id] if is_id(id) => &id.text,
        [_] => return error(-32600, Some("invalid-id-type"), "null"),
        _ => return error(-32600, None, "null"),
    };
    let invalid = error(-32600, None, echo);
    let ([jsonrpc], [method], 0..=1) = (&jsonrpc[..], &method[..], params.len()) else {
        return invalid;
    };
    if !is_two(jsonrpc) {
        return invalid;
    }
    let Kind::String(method) = &method.kind else { return invalid };
    let params = params.first();
    // M3.
    if let Some(params) = params
        && !matches!(params.kind, Kind::Object(_) | Kind::Array(_) | Kind::Null)
    {
        return invalid;
    }
    let (method, params) = (method.clone(), params.map(|params| params.text.clone()));
    // M1: the presence of the member decides, not its value.
    if id.is_empty() {
        Verdict::Notification { method, params }
    } else {
        Verdict::Request { id: echo.to_owned(), method, params }
    }
}

fn is_id(value: &Value) -> bool {
    matches!(value.kind, Kind::String(_) | Kind::Number | Kind::Null)
}

fn error(code: i32, reason: Option<&'static str>, id: &str) -> Verdict {
    Verdict::Error(Refusal { code, reason, id: id.to_owned() })
}
