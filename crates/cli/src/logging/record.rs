//! Log records and their text and JSON forms (G3, G6).
//!
//! Methods and ids are the client's text. Whatever they contain, a record stays on one line, and its fields
//! cannot be forged.

use std::fmt::{self, Write};

use duet_rpc::proto::message::{is_obeyed, write_escape};

use super::Level;
use crate::args::LogFormat;
use duet_rpc_trace::Timestamp;

/// Maximum number of characters of a method name in a record.
const MAX_METHOD_CHARS: usize = 128;
/// Maximum number of characters of an id in a record.
const MAX_ID_CHARS: usize = 64;

/// One log record.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) timestamp: Timestamp,
    pub(crate) severity: Level,
    pub(crate) message: String,
    pub(crate) method: Option<String>,
    pub(crate) id: Option<LoggedId>,
}

/// An id, as JSON.
#[derive(Debug)]
pub(crate) struct LoggedId {
    json: String,
    /// True if `json` is only the beginning of the id.
    is_cut: bool,
}

/// Output format of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) format: LogFormat,
    pub(crate) in_color: bool,
}

impl Record {
    /// Makes a record with the current time, without a method or id.
    pub(crate) fn plain(severity: Level, message: String) -> Self {
        Record { timestamp: Timestamp::now(), severity, message, method: None, id: None }
    }

    /// Formats the record as a line.
    pub(crate) fn to_line(&self, style: Style) -> String {
        let mut line = match style.format {
            LogFormat::Json => self.to_json(),
            LogFormat::Text => self.to_text(style.in_color),
        };
        line.push('\n');
        line
    }

    fn to_text(&self, in_color: bool) -> String {
        let mut line = format!("{:.3} ", self.timestamp);
        let name = self.severity.name().to_ascii_uppercase();
        // Padding aligns the messages.
        let _ = match in_color {
            true => write!(line, "{}{name:5}\x1b[0m ", color(self.severity)),
            false => write!(line, "{name:5} "),
        };
        push_message(&mut line, &self.message);
        if let Some(method) = &self.method {
            line.push_str(" method=");
            push_value(&mut line, method.chars().take(MAX_METHOD_CHARS));
        }
        if let Some(id) = &self.id {
            line.push_str(" id=");
            line.push_str(&id.json);
        }
        line
    }

    /// Formats the record as a JSON object with the members that rule G3 names.
    pub(crate) fn to_json(&self) -> String {
        let (timestamp, severity) = (self.timestamp, self.severity.name());
        let mut json =
            format!(r#"{{"timestamp":"{timestamp:.3}","severity":"{severity}","message":"#);
        push_json(&mut json, self.message.chars());
        if let Some(method) = &self.method {
            json.push_str(",\"method\":");
            push_json(&mut json, method.chars().take(MAX_METHOD_CHARS));
        }
        if let Some(id) = &self.id {
            json.push_str(",\"id\":");
            // A truncated number is another number, so it becomes a string.
            let is_string = id.json.starts_with('"');
            let quote = if id.is_cut && !is_string { "\"" } else { "" };
            let _ = write!(json, "{quote}{}{quote}", id.json);
        }
        json.push('}');
        json
    }
}

impl LoggedId {
    /// Takes an id in the library's display form: safe JSON, followed by `…` if it was cut.
    pub(crate) fn from_display(shown: &str) -> Self {
        let json = shown.strip_suffix('…').unwrap_or(shown);
        let is_id = match json.as_bytes().first() {
            // JSON can hold half of a surrogate pair, but many log readers refuse it.
            Some(b'"') => serde_json::from_str::<String>(json).is_ok(),
            Some(b'-' | b'0'..=b'9') => serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok(),
            _ => json == "null",
        };
        match is_id && !json.chars().any(is_obeyed) {
            true => LoggedId { json: json.to_owned(), is_cut: json.len() < shown.len() },
            false => LoggedId::from_text(shown),
        }
    }

    /// Takes an id that is a string.
    pub(crate) fn from_text(text: &str) -> Self {
        let mut json = String::new();
        push_json(&mut json, text.chars().take(MAX_ID_CHARS));
        LoggedId { json, is_cut: text.chars().nth(MAX_ID_CHARS).is_some() }
    }
}

fn color(severity: Level) -> &'static str {
    match severity {
        Level::Debug => "\x1b[2m",
        Level::Info => "\x1b[32m",
        Level::Warn => "\x1b[33m",
        Level::Error => "\x1b[31m",
    }
}

/// Appends ` name=value`.
pub(crate) fn push_field(text: &mut String, name: &str, value: &dyn fmt::Display) {
    let _ = write!(text, " {name}=");
    push_value(text, value.to_string().chars());
}

/// Appends a value, quoted if it could be mistaken for something else.
fn push_value(text: &mut String, value: impl Iterator<Item = char> + Clone) {
    let is_odd = |character: char| {
        character.is_whitespace() || matches!(character, '"' | '\\' | '=') || is_obeyed(character)
    };
    if value.clone().next().is_some() && !value.clone().any(is_odd) {
        return text.extend(value);
    }
    text.push('"');
    for character in value {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        push_escaped(text, character);
    }
    text.push('"');
}

/// Appends text, escaped so that it stays on its line.
fn push_message(text: &mut String, message: &str) {
    message.chars().for_each(|character| push_escaped(text, character));
}

fn push_escaped(text: &mut String, character: char) {
    if is_obeyed(character) {
        text.extend(character.escape_default());
    } else {
        text.push(character);
    }
}

/// Appends a JSON string, with terminal control characters escaped.
fn push_json(json: &mut String, text: impl Iterator<Item = char>) {
    json.push('"');
    for character in text {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            _ if is_obeyed(character) => {
                // Writing to a string does not fail.
                let _ = write_escape(json, character);
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
