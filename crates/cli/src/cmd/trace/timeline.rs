//! The lines of `trace show`.

use std::io::{self, Write};

use duet_rpc_trace::{Body, Dir, Facts, Header, Kind, Message, Record, shown_time};

use crate::json;
use crate::sys::terminal;

/// The columns of a line that is not for a terminal, or for one whose width is not known.
const WIDTH: usize = 120;

/// A terminal with fewer columns gets short methods and no sizes, so that the body has room.
const NARROW: usize = 110;

const ID: usize = 6;

/// The least room for the body: the beginning of an error is worth a line break.
const LEAST: usize = 20;

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const MAGENTA: &str = "35";
const CYAN: &str = "36";
const DIM: &str = "2";

pub(super) struct Timeline {
    in_color: bool,
    is_narrow: bool,
    /// The columns for the method.
    method: usize,
    /// The columns for the body.
    room: usize,
    is_full: bool,
}

/// The cells of a line.
#[derive(Default)]
struct Line {
    name: String,
    id: String,
    took: String,
    size: String,
    note: Option<(&'static str, String)>,
    body: String,
    color: Option<&'static str>,
}

impl Timeline {
    pub(super) fn new(in_color: bool, is_terminal: bool, is_full: bool) -> Self {
        let size = is_terminal.then(terminal::columns).flatten();
        Timeline::with_width(in_color, size.unwrap_or(WIDTH), is_full)
    }

    fn with_width(in_color: bool, width: usize, is_full: bool) -> Self {
        let is_narrow = width < NARROW;
        let (method, size) = if is_narrow { (20, 0) } else { (30, 10) };
        let before_body = 6 + 13 + 2 + method + 1 + ID + 1 + 9 + size + 2;
        let room = width.saturating_sub(before_body).max(LEAST);
        Timeline { in_color, is_narrow, method, room, is_full }
    }

    pub(super) fn header(&self, header: &Header, output: &mut impl Write) -> io::Result<()> {
        let parts = [header.session.clone(), header.command.join(" "), header.start.clone()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        writeln!(output, "# {}", clean(&parts.join("  ")))
    }

    pub(super) fn record(
        &self,
        record: &Record<'_>,
        facts: &Facts,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let messages = record.messages();
        for message in &messages {
            self.line(record, &message_line(record, message, facts), output)?;
        }
        if messages.is_empty() {
            self.line(record, &other_line(record), output)?;
        }
        match record.json().filter(|_| self.is_full) {
            Some(text) => {
                let text = json::escape_for_terminal(&json::pretty(text));
                text.lines().try_for_each(|line| writeln!(output, "        {line}"))
            }
            None => Ok(()),
        }
    }

    fn line(&self, record: &Record<'_>, line: &Line, output: &mut impl Write) -> io::Result<()> {
        let (arrow, side) = match record.dir {
            Dir::C2s => ("→", Some(CYAN)),
            Dir::S2c => ("←", Some(GREEN)),
            Dir::Err => ("!", Some(DIM)),
            _ => ("·", Some(DIM)),
        };
        let at = format!("{}.{:06}", record.at / 1_000_000, record.at % 1_000_000);
        let method = self.method;
        let name = cut(&line.name, method);
        let mut text = format!("{:>5} {at:>11}  ", record.seq);
        text += &self.paint(arrow, line.color.or(side));
        text += " ";
        text += &self.paint(&format!("{name:method$}"), line.color);
        text += &format!(" {:ID$} {:>9}", cut(&line.id, ID), line.took);
        if !self.is_narrow {
            text += &format!(" {:>9}", line.size);
        }
        text += "  ";
        let mut room = self.room;
        if let Some((color, note)) = &line.note {
            room = room.saturating_sub(note.chars().count() + 1);
            text += &self.paint(note, Some(color));
            text += " ";
        }
        if !self.is_full {
            text += &cut(&line.body, room);
        }
        writeln!(output, "{}", text.trim_end())
    }

    fn paint(&self, text: &str, color: Option<&str>) -> String {
        match color.filter(|_| self.in_color) {
            Some(color) => format!("\x1b[{color}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}

fn message_line(record: &Record<'_>, message: &Message<'_>, facts: &Facts) -> Line {
    let method = message.method.as_deref().or(record.method.as_deref());
    let mut line = Line {
        name: clean(method.unwrap_or(message.kind.name())),
        id: clean(message.id.as_deref().unwrap_or_default()),
        size: record.size.map(shown_size).unwrap_or_default(),
        ..Line::default()
    };
    if message.is_answer() {
        line.took = record.took.or(facts.took).map(shown_time).unwrap_or_default();
    }
    let notes = [
        (facts.unanswered, RED, "unanswered"),
        (facts.pending, YELLOW, "pending"),
        (facts.late, YELLOW, "late"),
        (facts.cancelled, YELLOW, "cancelled"),
    ];
    line.note = notes.iter().find(|(is_so, ..)| *is_so).map(|(_, color, note)| {
        let others = notes.iter().filter(|(is_so, _, other)| *is_so && other != note);
        let names: Vec<_> = [*note].into_iter().chain(others.map(|(_, _, name)| *name)).collect();
        (*color, format!("[{}]", names.join(", ")))
    });
    let body = message.params.or(message.result);
    line.body = clean(&json::compact(body.unwrap_or_default()));
    if let Some(error) = message.error_object() {
        line.color = Some(RED);
        line.body = clean(&format!("error {} {}", error.code, error.message));
    }
    line
}

fn other_line(record: &Record<'_>) -> Line {
    let mut line = Line { name: record.kind.name().to_owned(), ..Line::default() };
    line.size = record.size.map(shown_size).unwrap_or_default();
    if let (Kind::Fault, Some(method)) = (record.kind, &record.method) {
        line.name = clean(&format!("fault {method}"));
    }
    line.id = clean(record.id.as_deref().unwrap_or_default());
    line.body = match &record.body {
        // `why` has its name.
        Some(_) if record.kind == Kind::Control => String::new(),
        Some(Body::Msg(text) | Body::Text(text)) => clean(text.trim_end()),
        Some(Body::Bytes(bytes)) => clean(&String::from_utf8_lossy(bytes)),
        None => String::new(),
    };
    line.color = match record.kind {
        Kind::Noise | Kind::Broken | Kind::Invalid | Kind::Loss | Kind::Fault => Some(MAGENTA),
        Kind::Stderr => Some(DIM),
        _ => None,
    };
    let why = record.why.as_deref().map(|why| format!("({})", clean(why)));
    let detail = match record.kind {
        Kind::Exit => {
            let code = record.code.map(|code| format!("code {code}"));
            let signal = record.signal.map(|signal| format!("signal {signal}"));
            let left = record.left.map(|left| format!("{left} processes left behind"));
            Some([code, signal, left].into_iter().flatten().collect::<Vec<_>>().join(", "))
        }
        Kind::Signal => record.signal.map(|signal| signal.to_string()),
        Kind::Loss => record.lost.map(|lost| format!("{lost} bytes not recorded")),
        Kind::End => {
            record.end.map(|end| if end.lossless { "lossless" } else { "not lossless" }.to_owned())
        }
        _ => why,
    };
    if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
        line.body = format!("{detail} {}", line.body);
    }
    line
}

/// A number of bytes, for people.
pub(super) fn shown_size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1_024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// Text of a trace that cannot control the terminal, on one line. Long texts lose their end.
pub(in crate::cmd) fn clean(text: &str) -> String {
    const LONGEST: usize = 1_000;
    let short: String = text.chars().take(LONGEST).collect();
    json::escape_for_terminal(&short.replace(['\n', '\r', '\t'], " "))
}

fn cut(text: &str, width: usize) -> String {
    match text.chars().nth(width) {
        None => text.to_owned(),
        Some(_) if width == 0 => String::new(),
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use duet_rpc_trace::{Body, Dir, Facts, Kind, Record};

    use super::Timeline;

    #[test]
    fn r10_lines_fit_the_terminal() {
        let mut record = Record::new(7, 1_500_000, Dir::S2c, Kind::Response);
        record.id = Some("12345678".into());
        record.method = Some("textDocument/semanticTokens/full".into());
        (record.took, record.size) = (Some(2_000), Some(50_000));
        record.body = Some(Body::from_json(
            r#"{"id":12345678,"result":"0123456789abcdefghijklmnopqrstuvwxyz0123456789"}"#,
        ));
        for (width, expected) in [
            (
                80,
                "    7    1.500000  ← textDocument/semant… 12345…   2.00 ms  \"0123456789abcdefgh…\n",
            ),
            (
                120,
                "    7    1.500000  ← textDocument/semanticTokens/f… 12345…   2.00 ms    48 KiB  \"0123456789abcdefghijklmnopqrstuvwxyz01…\n",
            ),
        ] {
            let mut out = Vec::new();
            let timeline = Timeline::with_width(false, width, false);
            timeline.record(&record, &Facts::default(), &mut out).expect("memory can be written");
            let line = String::from_utf8(out).expect("it is text");
            assert_eq!(line, expected);
            assert!(line.trim_end().chars().count() <= width);
            let mut out = Vec::new();
            let timeline = Timeline::with_width(true, width, false);
            timeline.record(&record, &Facts::default(), &mut out).expect("memory can be written");
            assert!(String::from_utf8(out).expect("it is text").contains("\x1b[32m←\x1b[0m"));
        }
    }
}
