//! Strict log parsers, which accept only lines that the contract allows (G3).

use std::process::{Command, Stdio};

use duet_rpc::proto::frame::Framing;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::daemon::{Daemon, End, Trigger};
use super::folder::Folder;

pub(crate) const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
pub(crate) const FORMATS: [&str; 2] = ["text", "json"];

/// One line of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedRecord {
    /// In lower case.
    pub(crate) severity: String,
    pub(crate) message: String,
    pub(crate) method: Option<String>,
    /// As JSON.
    pub(crate) id: Option<String>,
}

impl ParsedRecord {
    /// The value of a field in the message, such as `level=info`, without quotes.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut words = self.message.split(' ');
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Parses a log. Every byte must belong to a record.
pub(crate) fn parse(log: &[u8], format: &str) -> Vec<ParsedRecord> {
    let text = std::str::from_utf8(log).expect("the log is UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn: {text:?}");
    text.split_terminator('\n').map(|line| parse_line(line, format)).collect()
}

/// Parses a line.
pub(crate) fn parse_line(line: &str, format: &str) -> ParsedRecord {
    // Characters that move the cursor, end a line, or change the text direction.
    let plays = |character: char| {
        character.is_control()
            || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!line.contains(plays), "a control character: {line:?}");
    let record = match format {
        "json" => parse_json(line),
        _ => parse_text(line),
    };
    assert!(LEVELS.contains(&record.severity.as_str()), "{line}");
    assert!(!record.message.is_empty(), "{line}");
    if let Some(method) = &record.method {
        assert!(method.chars().count() <= 128, "the method is not cut: {line}");
    }
    if let Some(id) = &record.id {
        check_id(id);
    }
    record
}

/// Checks for a string, a number or null, of at most 64 characters.
fn check_id(id: &str) {
    let characters = match serde_json::from_str(id).expect("an id is JSON") {
        serde_json::Value::String(text) => text.chars().count(),
        serde_json::Value::Number(_) | serde_json::Value::Null => id.chars().count(),
        other => panic!("{other} is not an id"),
    };
    assert!(characters <= 64, "the id is not cut: {id}");
}

fn parse_json(line: &str) -> ParsedRecord {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Line {
        timestamp: String,
        severity: String,
        message: String,
        #[serde(default, deserialize_with = "present")]
        method: Option<String>,
        #[serde(default, deserialize_with = "present")]
        id: Option<Box<RawValue>>,
    }

    /// Rejects null for a member, unless null is a value of its type.
    fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        it: D,
    ) -> Result<Option<T>, D::Error> {
        T::deserialize(it).map(Some)
    }

    let parsed: Line = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    check_timestamp(&parsed.timestamp);
    ParsedRecord {
        severity: parsed.severity,
        message: parsed.message,
        method: parsed.method,
        id: parsed.id.map(|id| id.get().to_owned()),
    }
}

fn parse_text(line: &str) -> ParsedRecord {
    let (timestamp, rest) = line.split_at_checked(24).expect("a line begins with a time");
    check_timestamp(timestamp);
    let (severity, rest) = rest.split_at_checked(7).expect("a severity follows");
    let severity = match severity {
        " DEBUG " => "debug",
        " INFO  " => "info",
        " WARN  " => "warn",
        " ERROR " => "error",
        _ => panic!("{severity:?} is not a severity: {line:?}"),
    };
    let mut record = ParsedRecord {
        severity: severity.to_owned(),
        message: String::new(),
        method: None,
        id: None,
    };
    let mut rest = Some(rest);
    while let Some(at) = rest {
        let (name, value, after) = next_word(at);
        let is_last = record.id.is_some() || (record.method.is_some() && name != Some("id"));
        assert!(!is_last, "something follows the method and the id: {line}");
        match name {
            Some("method") => record.method = Some(unquoted(value)),
            Some("id") => record.id = Some(value.to_owned()),
            _ => {
                let gap = if record.message.is_empty() { "" } else { " " };
                record.message.push_str(gap);
                record.message.push_str(&at[..at.len() - after.map_or(0, |after| after.len() + 1)]);
            }
        }
        rest = after;
    }
    record
}

/// The next word, or `name=value` with an optionally quoted value; and the text after the next space.
fn next_word(text: &str) -> (Option<&str>, &str, Option<&str>) {
    let end = text.find(' ').unwrap_or(text.len());
    let (name, value) = match text[..end].split_once('=') {
        Some((name, _)) => (Some(name), &text[name.len() + 1..]),
        None => (None, text),
    };
    let length = if name.is_some() && value.starts_with('"') {
        let mut is_escaped = true;
        let is_end = |character: char| {
            let is_end = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            is_end
        };
        value.find(is_end).unwrap_or_else(|| panic!("a quote is not closed: {text}")) + 1
    } else {
        value.find(' ').unwrap_or(value.len())
    };
    let (value, rest) = value.split_at(length);
    let is_plain = value.starts_with('"') || !value.contains(['"', '=']);
    assert!(name.is_none() || is_plain, "a value should be quoted: {text}");
    let after = rest.strip_prefix(' ');
    assert!(rest.is_empty() || after.is_some(), "something follows a quote: {text}");
    (name, value, after)
}

/// The meaning of a value in the text.
fn unquoted(value: &str) -> String {
    let Some(quoted) = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) else {
        let is_plain = !value.is_empty() && !value.contains(['\\', '"', '=']);
        assert!(is_plain, "the value should be quoted: {value}");
        return value.to_owned();
    };
    let (mut meaning, mut characters) = (String::new(), quoted.chars());
    while let Some(character) = characters.next() {
        let escaped = match character {
            '\\' => characters.next().expect("an escape is whole"),
            plain => {
                meaning.push(plain);
                continue;
            }
        };
        meaning.push(match escaped {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '"' | '\\' => escaped,
            'u' => {
                assert_eq!(characters.next(), Some('{'), "{value}");
                let digits: String =
                    characters.by_ref().take_while(|&digit| digit != '}').collect();
                let code = u32::from_str_radix(&digits, 16).expect("an escape is a number");
                char::from_u32(code).expect("and the number a character")
            }
            other => panic!("\\{other} is not an escape: {value}"),
        });
    }
    meaning
}

/// Checks for RFC 3339, in UTC, to the millisecond.
fn check_timestamp(text: &str) {
    let shape: String = text
        .chars()
        .map(|character| if character.is_ascii_digit() { '0' } else { character })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{text}");
    let rows = [(0..4, 2020..=9999), (5..7, 1..=12), (8..10, 1..=31)];
    let times = [(11..13, 0..=23), (14..16, 0..=59), (17..19, 0..=60)];
    for (place, values) in rows.into_iter().chain(times) {
        assert!(values.contains(&text[place].parse::<u32>().expect("digits")), "{text}");
    }
}

/// A finished run: its end, and all of its stderr.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) end: End,
    pub(crate) stderr: Vec<u8>,
}

impl Life {
    /// Its stderr, as records.
    pub(crate) fn records(&self, format: &str) -> Vec<ParsedRecord> {
        parse(&self.stderr, format)
    }
}

/// Starts a command, sends this input, closes stdin, and checks for a clean end.
pub(crate) fn live(command: Command, framing: Framing, input: &[u8]) -> Life {
    live_with(command, framing, |daemon| daemon.send_raw(input))
}

/// Like `live`, but waits for `answers` answers before it closes stdin. Without the wait, a slow machine
/// could exceed the time limit for the end (L5).
pub(crate) fn live_answered(
    command: Command,
    framing: Framing,
    input: &[u8],
    answers: u64,
) -> Life {
    let life = live_with(command, framing, |daemon| {
        daemon.send_raw(input);
        (0..answers).for_each(|_| drop(daemon.answer()));
    });
    assert_eq!(life.end.answers, [] as [serde_json::Value; 0]);
    life
}

/// Like `live`, with any steps between the start and the end.
pub(crate) fn live_with(
    mut command: Command,
    framing: Framing,
    between: impl FnOnce(&mut Daemon),
) -> Life {
    // A file keeps every byte, and needs no reader meanwhile.
    let folder = Folder::new();
    let path = folder.path("stderr");
    let stderr = std::fs::File::create(&path).expect("a file can be made");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    let mut daemon = Daemon::with_pipes(command, framing);
    between(&mut daemon);
    let end = daemon.end(Trigger::Eof);
    let stderr = std::fs::read(&path).expect("the file exists");
    let shown = String::from_utf8_lossy(&stderr);
    assert_eq!(end.status.code(), Some(0), "{shown}");
    Life { end, stderr }
}
