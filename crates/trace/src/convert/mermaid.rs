//! A sequence diagram in the language of Mermaid.

use std::io::{self, Write};

use super::{ExportedMessage, Format, server_name};
use crate::check::shown_time;
use crate::header::Header;
use crate::record::{Dir, Kind, Record};

pub(super) struct Mermaid;

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
        match message.kind {
            Kind::Request => writeln!(out, "    {from}->>{to}: {method} ({id})"),
            Kind::Error => {
                let error = message.error_object().unwrap_or_default();
                let (code, why) = (error.code, text(&error.message));
                writeln!(out, "    {from}--x{to}: {method} ({id}) error {code} {why}{took}")
            }
            Kind::Response => writeln!(out, "    {from}-->>{to}: {method} ({id}){took}"),
            _ => writeln!(out, "    {from}-){to}: {method}"),
        }
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

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
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
