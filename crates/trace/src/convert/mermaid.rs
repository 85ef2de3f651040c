//! A sequence diagram in the language of Mermaid.

use std::io::{self, Write};

use super::{ExportedMessage, Format, Pending, server_name};
use crate::check::shown_time;
use crate::header::Header;
use crate::record::{Dir, Kind, Record};

#[derive(Default)]
pub(super) struct Mermaid {
    /// The names of open requests, each with the side that does not answer.
    open: Pending<(Dir, String)>,
}

/// Characters of a text that are shown.
const SHOWN: usize = 60;

impl Format for Mermaid {
    fn begin(&mut self, out: &mut dyn Write, header: &Header, _: u64) -> io::Result<()> {
        writeln!(out, "sequenceDiagram")?;
        writeln!(out, "    participant C as client")?;
        writeln!(out, "    participant S as {}", text(&server_name(header)))
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        let (from, to) = if event.record.dir == Dir::C2s { ("C", "S") } else { ("S", "C") };
        let (method, message) = (text(event.method()), event.message);
        let id = text(message.id.as_deref().unwrap_or("null"));
        let took = event.took().map(|took| format!(" {}", shown_time(took))).unwrap_or_default();
        self.open.answer(event);
        match message.kind {
            Kind::Request => {
                let name = format!("{method} ({id})");
                writeln!(out, "    {from}->>{to}: {name}")?;
                match self.open.ask(event, (event.record.dir, name)) {
                    Some((dir, name)) => unanswered(out, dir, &name),
                    None => Ok(()),
                }
            }
            Kind::Error => {
                let error = message.error_object().unwrap_or_default();
                let (code, why) = (error.code, text(&error.message));
                writeln!(out, "    {from}--x{to}: {method} ({id}) error {code} {why}{took}")
            }
            Kind::Response => writeln!(out, "    {from}-->>{to}: {method} ({id}){took}"),
            _ => writeln!(out, "    {from}-){to}: {method}"),
        }
    }

    fn hidden(&mut self, event: &ExportedMessage<'_>) {
        self.open.answer(event);
    }

    fn other(&mut self, out: &mut dyn Write, record: &Record<'_>, _: u64) -> io::Result<bool> {
        let bytes = record.body.as_ref().map(|body| body.as_bytes()).unwrap_or_default();
        let body = text(String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]).trim());
        let side = if record.dir == Dir::C2s { "left of C" } else { "right of S" };
        match record.kind {
            Kind::Noise | Kind::Broken | Kind::Invalid => {
                writeln!(out, "    Note {side}: {} {body}", record.kind.name())?;
            }
            Kind::Eof if record.dir != Dir::Err => writeln!(out, "    Note {side}: EOF")?,
            Kind::Exit => {
                let (code, signal) = (record.code, record.signal);
                match (code, signal) {
                    (Some(code), _) => writeln!(out, "    Note right of S: exit {code}")?,
                    (None, Some(signal)) => writeln!(out, "    Note right of S: signal {signal}")?,
                    (None, None) => writeln!(out, "    Note right of S: exit")?,
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let open = self.open.take_rest();
        open.iter().try_for_each(|(dir, name)| unanswered(out, *dir, name))
    }
}

/// A note at the side that should have answered.
fn unanswered(out: &mut dyn Write, dir: Dir, name: &str) -> io::Result<()> {
    let side = if dir == Dir::C2s { "right of S" } else { "left of C" };
    writeln!(out, "    Note {side}: no answer to {name}")
}

/// A text in which nothing has a meaning for Mermaid: other characters become numbers.
fn text(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars().take(SHOWN) {
        match letter {
            ' ' | '_' | '-' | '.' | '/' | '$' | ',' | '(' | ')' | '=' | '+' | '*' => {
                out.push(letter);
            }
            _ if letter.is_alphanumeric() => out.push(letter),
            _ if letter.is_control() => out.push(' '),
            _ => out.push_str(&format!("#{};", u32::from(letter))),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        out.push('…');
    }
    out
}
