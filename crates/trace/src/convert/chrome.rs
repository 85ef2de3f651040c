//! Trace events of Chrome, for chrome://tracing and ui.perfetto.dev.
//!
//! A request is an asynchronous event, because requests overlap; other records are instants.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{ExportedMessage, Format, Pending, server_name};
use crate::header::Header;
use crate::record::{Dir, Kind, Record};

#[derive(Default)]
pub(super) struct Chrome {
    pending: Pending<Value>,
    last: u64,
}

/// Rows of the picture.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;

impl Format for Chrome {
    fn begin(&mut self, out: &mut dyn Write, header: &Header, _: u64) -> io::Result<()> {
        writeln!(out, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let name = |pid: u32, name: &str| json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 1, "args": {"name": name}});
        write!(out, "{},\n{}", name(CLIENT, "client"), name(SERVER, &server_name(header)))
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        let (record, message) = (event.record, event.message);
        self.last = self.last.max(record.at);
        match message.kind {
            Kind::Request => {
                let id = format!("{}/{}", record.seq, message.id.as_deref().unwrap_or("null"));
                let asked = json!({
                    "name": event.method(), "cat": "request", "id": id, "pid": pid(record.dir), "tid": 1,
                });
                let args = json!({"seq": record.seq, "params": value(message.params)});
                write_event(out, &asked, "b", record.at, &args)?;
                match self.pending.ask(event, asked) {
                    Some(asked) => write_event(out, &asked, "e", record.at, &json!({})),
                    None => Ok(()),
                }
            }
            Kind::Response | Kind::Error => match self.pending.answer(event) {
                Some(asked) => {
                    let args = json!({
                        "seq": record.seq,
                        "result": value(message.result),
                        "error": value(message.error),
                    });
                    write_event(out, &asked, "e", record.at, &args)
                }
                None => instant(out, "answer to nothing", record, &value(message.error)),
            },
            _ => instant(out, event.method(), record, &value(message.params)),
        }
    }

    fn other(&mut self, out: &mut dyn Write, record: &Record<'_>, _: u64) -> io::Result<bool> {
        self.last = self.last.max(record.at);
        if record.kind == Kind::End {
            return Ok(false);
        }
        let bytes = record.body.as_ref().map(|body| body.as_bytes()).unwrap_or_default();
        let body = Value::from(String::from_utf8_lossy(bytes));
        instant(out, record.kind.name(), record, &body)?;
        Ok(true)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for asked in self.pending.take_rest() {
            write_event(out, &asked, "e", self.last, &json!({"unanswered": true}))?;
        }
        out.write_all(b"\n]}\n")
    }
}

fn write_event(
    out: &mut dyn Write,
    event: &Value,
    phase: &str,
    at: u64,
    args: &Value,
) -> io::Result<()> {
    let mut event = event.clone();
    (event["ph"], event["ts"], event["args"]) = (phase.into(), at.into(), args.clone());
    write!(out, ",\n{event}")
}

fn instant(out: &mut dyn Write, name: &str, record: &Record<'_>, body: &Value) -> io::Result<()> {
    let event = json!({
        "name": name, "cat": record.kind.name(), "s": "p", "pid": pid(record.dir), "tid": 1,
    });
    write_event(out, &event, "i", record.at, &json!({"seq": record.seq, "body": body}))
}

/// The side that sent it.
fn pid(dir: Dir) -> u32 {
    if dir == Dir::C2s { CLIENT } else { SERVER }
}

fn value(json: Option<&str>) -> Value {
    json.map_or(Value::Null, |json| serde_json::from_str(json).unwrap_or_else(|_| json.into()))
}
