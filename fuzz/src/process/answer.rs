//! Answers of a daemon, parsed with the reference reader.

use crate::support::reference::json::{self, Kind, Value};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As the daemon wrote it.
    pub id: String,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Without white space between tokens.
    Result(String),
    Error {
        code: String,
        message: String,
        reason: Option<String>,
    },
}

/// A frame from a daemon: one answer, or the answers to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    One(Answer),
    Many(Vec<Answer>),
}

impl Frame {
    pub fn read(text: &str) -> Frame {
        let value = json::read(text, 1024).unwrap_or_else(|| panic!("no JSON: {text}"));
        match &value.kind {
            Kind::Array(entries) => {
                assert!(!entries.is_empty(), "an empty batch was sent");
                Frame::Many(entries.iter().map(answer).collect())
            }
            _ => Frame::One(answer(&value)),
        }
    }
}

fn answer(value: &Value) -> Answer {
    let names = names(value);
    let outcome = match &names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["jsonrpc", "id", "result"] => Outcome::Result(compact(member(value, "result"))),
        ["jsonrpc", "id", "error"] => {
            let error = member(value, "error");
            let code = member(error, "code").text.clone();
            let data = get(error, "data");
            let reason = data.and_then(|data| get(data, "reason")).map(string);
            Outcome::Error { code, message: string(member(error, "message")), reason }
        }
        _ => panic!("no answer: {}", value.text),
    };
    assert_eq!(string(member(value, "jsonrpc")), "2.0");
    Answer { id: member(value, "id").text.clone(), outcome }
}

fn names(value: &Value) -> Vec<String> {
    let Kind::Object(members) = &value.kind else { panic!("no object: {}", value.text) };
    members.iter().map(|(name, _)| String::from_utf16_lossy(name)).collect()
}

fn get<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let Kind::Object(members) = &value.kind else { return None };
    let name: Vec<u16> = name.encode_utf16().collect();
    members.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    get(value, name).unwrap_or_else(|| panic!("no {name} in {}", value.text))
}

fn string(value: &Value) -> String {
    let Kind::String(units) = &value.kind else { panic!("no string: {}", value.text) };
    String::from_utf16_lossy(units)
}

/// The text of a value without white space between tokens.
pub fn compact(value: &Value) -> String {
    let (mut is_inside, mut is_escaped) = (false, false);
    let mut kept = String::new();
    for character in value.text.chars() {
        if is_inside || !matches!(character, ' ' | '\t' | '\r' | '\n') {
            kept.push(character);
        }
        if character == '"' && !is_escaped {
            is_inside = !is_inside;
        }
        is_escaped = is_inside && character == '\\' && !is_escaped;
    }
    kept
}
