//! The text trace of VS Code: `"[langId].trace.server": "verbose"`, from the side of the client.
//!
//! ```text
//! [Trace - 18:47:28] Sending request 'initialize - (0)'.
//! Params: {
//!     "processId": 1
//! }
//!
//!
//! [Trace - 18:47:28] Received response 'initialize - (0)' in 35ms.
//! ```
//!
//! Times are UTC. LogLines on stderr stand between the messages, as in the output panel.

use std::io::{self, Write};

use super::json_layout::indent;
use super::{ExportedMessage, Format};
use crate::header::Header;
use crate::record::{Dir, Kind, Record};

pub(super) struct Vscode;

impl Format for Vscode {
    fn begin(&mut self, _: &mut dyn Write, _: &Header, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        let (second, message) = (event.time / 1_000_000, event.message);
        let (hour, minute, second) = (second / 3600 % 24, second / 60 % 60, second % 60);
        write!(out, "[Trace - {hour:02}:{minute:02}:{second:02}] ")?;
        let is_sent = event.record.dir == Dir::C2s;
        let (side, method) =
            (if is_sent { "Sending" } else { "Received" }, one_line_name(event.method()));
        let id = shown_id(message.id.as_deref().unwrap_or("null"));
        match message.kind {
            Kind::Notification => {
                writeln!(out, "{side} notification '{method}'.")?;
                match message.params.filter(|json| is_truthy(json)) {
                    Some(params) => data(out, "Params: ", params),
                    None => out.write_all(b"No parameters provided.\n\n\n"),
                }
            }
            Kind::Request => {
                writeln!(out, "{side} request '{method} - ({id})'.")?;
                match message.params.filter(|json| is_truthy(json)) {
                    Some(params) => data(out, "Params: ", params),
                    None => Ok(()),
                }
            }
            _ => {
                answer(out, event, side, &method, &id)?;
                let error = message.error.map(error_data);
                match (error, message.result.filter(|json| is_truthy(json))) {
                    (Some(Some(json)), _) => data(out, "Error data: ", &json),
                    (Some(None), _) => Ok(()),
                    (None, Some(result)) => data(out, "Result: ", result),
                    (None, None) => out.write_all(b"No result returned.\n\n\n"),
                }
            }
        }
    }

    fn other(&mut self, out: &mut dyn Write, record: &Record<'_>, _: u64) -> io::Result<bool> {
        match &record.body {
            Some(body) if record.dir == Dir::Err => {
                writeln!(out, "{}", String::from_utf8_lossy(body.as_bytes()))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

fn answer(
    out: &mut dyn Write,
    event: &ExportedMessage<'_>,
    side: &str,
    method: &str,
    id: &str,
) -> io::Result<()> {
    let failed = match event.message.error_object() {
        Some(error) => {
            format!(
                " Request failed: {} ({}).",
                error.message.replace(['\n', '\r'], " "),
                error.code
            )
        }
        None => String::new(),
    };
    match (event.took().map(|took| took / 1_000), event.record.dir) {
        (Some(took), Dir::C2s) => writeln!(
            out,
            "{side} response '{method} - ({id})'. Processing request took {took}ms{failed}"
        ),
        (Some(took), _) => {
            writeln!(out, "{side} response '{method} - ({id})' in {took}ms.{failed}")
        }
        (None, _) => writeln!(out, "{side} response {id} without active response promise.{failed}"),
    }
}

/// Writes a value, and the two empty lines after it.
fn data(out: &mut dyn Write, label: &str, json: &str) -> io::Result<()> {
    write!(out, "{label}{}\n\n\n", indent(json))
}

/// The member `data` of an error object.
fn error_data(error: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct WithData<'a> {
        #[serde(borrow)]
        data: Option<&'a serde_json::value::RawValue>,
    }
    let error: WithData<'_> = serde_json::from_str(error).ok()?;
    error.data.map(|data| data.get().to_owned()).filter(|json| is_truthy(json))
}

/// The values that JavaScript counts as true: VS Code shows no others.
fn is_truthy(json: &str) -> bool {
    !matches!(json.trim(), "null" | "false" | "0" | "\"\"")
}

/// An id as JavaScript prints it: a string without its quotes.
fn shown_id(id: &str) -> String {
    serde_json::from_str::<String>(id).unwrap_or_else(|_| id.to_owned()).replace(['\n', '\r'], " ")
}

fn one_line_name(method: &str) -> String {
    method.replace(['\n', '\r'], " ")
}
