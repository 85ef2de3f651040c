//! Reads the text trace of VS Code.
//!
//! | line | becomes |
//! |---|---|
//! | `[Trace - TIME] Sending request 'M - (ID)'.` and its kin | a message, with the value in the next lines |
//! | `Params:`, `Result:`, `Error data:` | the value: all lines up to its last bracket |
//! | any other text | a line on stderr: the output panel shows both |
//!
//! A text without any message is not such a log.
//!
//! The log has no date, so the trace starts in 1970. Ids that look like numbers are numbers.

use std::io::{BufRead, Write};

use serde_json::Value;

use super::import::{ImportError, LogLines, Maker, reason};
use super::json_layout::compact;
use crate::header::Header;
use crate::record::Dir;
use crate::wire::Wire;

const DAY: u64 = 86_400_000_000;

/// The lines before the first message. A text with more of them is not such a log.
const LINES_BEFORE: usize = 10_000;

pub(super) fn import<R: BufRead, W: Write>(
    lines: &mut LogLines<R>,
    maker: &mut Maker<W>,
) -> Result<(), ImportError> {
    let mut log = Log { time: 0, days: 0, has_time: false };
    let mut waiting: Option<Head> = None;
    let mut before = Some(Vec::new());
    while let Some(line) = lines.next()? {
        if line.trim().is_empty() {
            continue;
        }
        if let Some(value) = LoggedValue::begin(&line).filter(|_| waiting.is_some()) {
            let json = value.read(lines)?;
            if let Some(head) = waiting.take() {
                log.write(maker, head, json)?;
            }
            continue;
        }
        if let Some(head) = waiting.take() {
            log.write(maker, head, None)?;
        }
        match (Head::parse(&line), &mut before) {
            (Some(head), _) => {
                for line in before.take().unwrap_or_default() {
                    maker.begin(log.time, Header::new("vscode"))?;
                    maker.text(log.time, Dir::Err, line)?;
                }
                waiting = Some(head);
            }
            (None, Some(before)) if before.len() < LINES_BEFORE => before.push(line),
            (None, Some(_)) => return Err(ImportError::Empty),
            (None, None) => {
                maker.begin(log.time, Header::new("vscode"))?;
                maker.text(log.time, Dir::Err, line)?;
            }
        }
    }
    match waiting.take() {
        Some(head) => log.write(maker, head, None),
        None => Ok(()),
    }
}

/// The clock of a log.
struct Log {
    /// Microseconds since 1970.
    time: u64,
    days: u64,
    has_time: bool,
}

impl Log {
    fn write<W: Write>(
        &mut self,
        maker: &mut Maker<W>,
        head: Head,
        json: Option<String>,
    ) -> Result<(), ImportError> {
        if let Some(clock) = head.clock {
            // Past midnight.
            if self.has_time && clock + DAY / 2 < self.time % DAY {
                self.days += 1;
            }
            self.time = self.time.max(self.days * DAY + clock);
            self.has_time = true;
        }
        maker.begin(self.time, Header::new("vscode"))?;
        if let (What::Response, Some(took), Some(id)) = (head.what, head.took, &head.id) {
            // The clock has seconds only; the latency of an answer is finer.
            let request = if head.dir == Dir::C2s { Dir::S2c } else { Dir::C2s };
            let asked = maker.asked_at(request, id);
            self.time = self.time.max(asked.map_or(0, |asked| asked.saturating_add(took)));
        }
        let message = head.message(json);
        // VS Code has indented it.
        maker.message(self.time, head.dir, Wire::Lsp, &compact(&message), head.took)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Request,
    Notification,
    Response,
}

/// The first line of a message.
struct Head {
    clock: Option<u64>,
    dir: Dir,
    what: What,
    method: Option<String>,
    /// A JSON text.
    id: Option<String>,
    took: Option<u64>,
    error: Option<(String, i64)>,
}

impl Head {
    fn parse(line: &str) -> Option<Head> {
        let (time, text) = line.strip_prefix("[Trace - ")?.split_once("] ")?;
        let (dir, text) = match text.split_once(' ')? {
            ("Sending", text) => (Dir::C2s, text),
            ("Received", text) => (Dir::S2c, text),
            _ => return None,
        };
        let (what, text) = match text.split_once(' ')? {
            ("request", text) => (What::Request, text),
            ("notification", text) => (What::Notification, text),
            ("response", text) => (What::Response, text),
            _ => return None,
        };
        let mut head = Head {
            clock: clock(time),
            dir,
            what,
            method: None,
            id: None,
            took: None,
            error: failure(text),
        };
        match text.strip_prefix('\'') {
            Some(quoted) if what == What::Notification => {
                head.method = Some(quoted.rsplit_once('\'')?.0.to_owned());
            }
            Some(quoted) => {
                let (method, rest) = quoted.split_once(" - (")?;
                let (id, rest) = rest.split_once(")'")?;
                head.method = Some(method.to_owned());
                head.id = Some(id_json(id));
                head.took = took(rest);
            }
            // `Received response 5 without active response promise.`
            None if what == What::Response => {
                head.id = Some(id_json(text.split(' ').next()?));
            }
            None => return None,
        }
        Some(head)
    }

    /// The message with the value below its first line.
    fn message(&self, json: Option<String>) -> String {
        let mut members = vec![r#""jsonrpc":"2.0""#.to_owned()];
        members.extend(self.id.as_ref().map(|id| format!(r#""id":{id}"#)));
        match (self.what, &self.error) {
            (What::Response, Some((message, code))) => {
                let message = Value::from(message.as_str());
                let data = json.map(|json| format!(r#","data":{json}"#)).unwrap_or_default();
                members.push(format!(r#""error":{{"code":{code},"message":{message}{data}}}"#));
            }
            (What::Response, None) => {
                members.push(format!(r#""result":{}"#, json.as_deref().unwrap_or("null")));
            }
            _ => {
                let method = Value::from(self.method.as_deref().unwrap_or_default());
                members.push(format!(r#""method":{method}"#));
                members.extend(json.map(|json| format!(r#""params":{json}"#)));
            }
        }
        format!("{{{}}}", members.join(","))
    }
}

/// The lines of a value.
enum LoggedValue {
    None,
    Json(String),
}

impl LoggedValue {
    fn begin(line: &str) -> Option<LoggedValue> {
        if matches!(line, "No parameters provided." | "No result returned.") {
            return Some(LoggedValue::None);
        }
        let labels = ["Params: ", "Result: ", "Error data: "];
        let json = labels.iter().find_map(|label| line.strip_prefix(label))?;
        Some(LoggedValue::Json(json.to_owned()))
    }

    /// Reads the lines up to the bracket that ends the value.
    fn read<R: BufRead>(self, lines: &mut LogLines<R>) -> Result<Option<String>, ImportError> {
        let LoggedValue::Json(mut json) = self else { return Ok(None) };
        let start = lines.number;
        let is_open = |json: &str| matches!(json.trim_end(), "{" | "[");
        if is_open(&json) {
            json.push('\n');
            while let Some(line) = lines.next()? {
                json.push_str(&line);
                json.push('\n');
                if line.starts_with(['}', ']']) {
                    break;
                }
            }
        }
        match serde_json::from_str::<&serde_json::value::RawValue>(json.trim()) {
            Ok(value) => Ok(Some(value.get().to_owned())),
            Err(error) => {
                let line = start + error.line() as u64 - 1;
                Err(ImportError::Line { line, why: format!("not JSON: {}", reason(&error)) })
            }
        }
    }
}

/// The microseconds of the day in `18:47:28`, `4:21:27 PM` or `10:02:33.123`.
fn clock(text: &str) -> Option<u64> {
    let word = text.split_whitespace().find(|word| word.matches(':').count() == 2)?;
    let mut parts = word.split(':');
    let hour: u64 = parts.next()?.parse().ok()?;
    let minute: u64 = parts.next()?.parse().ok()?;
    let (second, fraction) =
        parts.next()?.split_once('.').unwrap_or((word.rsplit(':').next()?, ""));
    let second: u64 = second.parse().ok()?;
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let hour = match text.to_ascii_uppercase() {
        text if text.contains("PM") => hour % 12 + 12,
        text if text.contains("AM") => hour % 12,
        _ => hour,
    };
    let is_time = hour < 24 && minute < 60 && second < 61;
    is_time.then_some(())?;
    Some((hour * 3600 + minute * 60 + second) * 1_000_000 + digits.parse::<u64>().ok()?)
}

/// The latency in ` in 35ms.` or `. Processing request took 35ms`, in microseconds.
fn took(text: &str) -> Option<u64> {
    let (before, _) = text.split_once("ms")?;
    let number = before.rsplit(' ').next()?;
    number.parse::<u64>().ok()?.checked_mul(1_000)
}

/// The message and the code in ` Request failed: MESSAGE (CODE).`
fn failure(text: &str) -> Option<(String, i64)> {
    let (_, rest) = text.split_once("Request failed: ")?;
    let (message, code) = rest.trim_end().trim_end_matches('.').rsplit_once(" (")?;
    Some((message.to_owned(), code.trim_end_matches(')').parse().ok()?))
}

/// An id as JSON: a number if it looks like one.
fn id_json(id: &str) -> String {
    match id.parse::<i64>() {
        Ok(number) if number.to_string() == id => id.to_owned(),
        _ if id == "null" => id.to_owned(),
        _ => Value::from(id).to_string(),
    }
}
