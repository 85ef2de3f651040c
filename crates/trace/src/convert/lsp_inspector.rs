//! JSON lines of the LSP Inspector, from the side of the client.
//!
//! VS Code writes the same lines with a time before each of them.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::import::{ImportError, LogLines, Maker, reason};
use super::{ExportedMessage, Format, one_line};
use crate::header::Header;
use crate::record::{Body, Dir, Kind, Record};
use crate::wire::Wire;

pub(super) struct LspInspector;

impl Format for LspInspector {
    fn begin(&mut self, _: &mut dyn Write, _: &Header, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        let side = if event.record.dir == Dir::C2s { "send" } else { "receive" };
        let kind = match event.message.kind {
            Kind::Request => "request",
            Kind::Notification => "notification",
            _ => "response",
        };
        let message = match &event.record.body {
            Some(Body::Msg(json) | Body::Text(json)) if event.record.kind != Kind::Batch => {
                one_line(json)
            }
            // The message of a batch, without members that are not of JSON-RPC.
            _ => one_line(&rebuilt(event)),
        };
        let time = event.time / 1_000;
        // The line end of the documentation.
        write!(
            out,
            r#"{{"isLSPMessage":true,"type":"{side}-{kind}","message":{message},"timestamp":{time}}}"#
        )?;
        out.write_all(b"\r\n")
    }

    fn other(&mut self, _: &mut dyn Write, _: &Record<'_>, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// A message put together from its parts.
fn rebuilt(event: &ExportedMessage<'_>) -> String {
    let message = event.message;
    let method = message.method.as_ref().filter(|_| !message.is_answer());
    let method = method.map(|method| serde_json::Value::from(method.as_ref()).to_string());
    let members = [
        ("jsonrpc", Some("\"2.0\"")),
        ("id", message.id.as_deref()),
        ("method", method.as_deref()),
        ("params", message.params),
        ("result", message.result),
        ("error", message.error),
    ];
    let members =
        members.iter().filter_map(|(name, json)| Some(format!("\"{name}\":{}", (*json)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// A line of the format.
#[derive(Deserialize)]
struct InspectorLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    message: &'a RawValue,
    timestamp: f64,
}

/// Reads lines. A prefix such as `[LSP   - 4:21:27 PM] ` is skipped.
pub(super) fn import<R: BufRead, W: Write>(
    lines: &mut LogLines<R>,
    maker: &mut Maker<W>,
) -> Result<(), ImportError> {
    while let Some(line) = lines.next_filled()? {
        let json = line.find('{').map_or("", |at| &line[at..]);
        let parsed: InspectorLine<'_> = serde_json::from_str(json).map_err(|error| {
            let why =
                format!("expected an object with type, message and timestamp: {}", reason(&error));
            lines.error(why)
        })?;
        let dir = match parsed.kind.split('-').next() {
            Some("send") => Dir::C2s,
            Some("receive" | "recv") => Dir::S2c,
            _ => return Err(lines.error(format!("unknown type {:?}", parsed.kind))),
        };
        if !(0.0..1e14).contains(&parsed.timestamp) {
            return Err(lines.error("the timestamp is not in milliseconds since 1970"));
        }
        // Milliseconds, rarely with a fraction.
        let time = (parsed.timestamp * 1_000.0) as u64;
        maker.begin(time, Header::new("lsp-inspector"))?;
        maker.message(time, dir, Wire::Lsp, parsed.message.get(), None)?;
    }
    Ok(())
}
