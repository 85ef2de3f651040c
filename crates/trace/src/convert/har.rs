//! HTTP Archive 1.2: each request or notification is an entry, so that browsers and HTTP tools open it.
//!
//! | JSON-RPC | HAR |
//! |---|---|
//! | method | `POST http://SERVER/METHOD`; of the server: `POST http://client/METHOD` |
//! | result | 200 |
//! | error | 404 for an unknown method, 400 for other faults of the request, 500 otherwise |
//! | notification | 202 |
//! | no answer | 0 |

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{ExportedMessage, Format, Pending, server_name};
use crate::header::Header;
use crate::record::{Body, Dir, Kind, Record};
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Har {
    server: String,
    pending: Pending<Value>,
    has_entry: bool,
}

impl Format for Har {
    fn begin(&mut self, out: &mut dyn Write, header: &Header, _: u64) -> io::Result<()> {
        self.server = encoded(&server_name(header), false);
        let creator = json!({"name": "duet-rpc", "version": env!("CARGO_PKG_VERSION")});
        let comment = Value::from(header.session.as_str());
        write!(
            out,
            "{{\"log\":{{\"version\":\"1.2\",\"creator\":{creator},\"comment\":{comment},\"entries\":["
        )
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        let message = event.message;
        match message.kind {
            Kind::Request => {
                let entry = self.entry(event);
                match self.pending.ask(event, entry) {
                    Some(entry) => self.write(out, &entry),
                    None => Ok(()),
                }
            }
            Kind::Notification => {
                let mut entry = self.entry(event);
                entry["response"] = response(202, "Accepted", "");
                self.write(out, &entry)
            }
            _ => {
                let Some(mut entry) = self.pending.answer(event) else { return Ok(()) };
                let took = event.took().unwrap_or_default();
                // Microseconds as milliseconds; an `f64` holds these exactly enough.
                let millis = took as f64 / 1_000.0;
                entry["time"] = millis.into();
                entry["timings"]["wait"] = millis.into();
                let (status, text) = match message.error_object() {
                    None => (200, "OK".to_owned()),
                    Some(error) if error.code == -32601 => (404, error.message),
                    Some(error) if (-32700..=-32600).contains(&error.code) => (400, error.message),
                    Some(error) => (500, error.message),
                };
                entry["response"] = response(status, &text, body(event.record));
                entry["_answer"] = event.record.seq.into();
                self.write(out, &entry)
            }
        }
    }

    fn other(&mut self, _: &mut dyn Write, _: &Record<'_>, _: u64) -> io::Result<bool> {
        Ok(false)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for entry in self.pending.take_rest() {
            self.write(out, &entry)?;
        }
        out.write_all(b"\n]}}\n")
    }
}

impl Har {
    fn write(&mut self, out: &mut dyn Write, entry: &Value) -> io::Result<()> {
        let separator = if std::mem::replace(&mut self.has_entry, true) { "," } else { "" };
        write!(out, "{separator}\n{entry}")
    }

    /// An entry without an answer.
    fn entry(&self, event: &ExportedMessage<'_>) -> Value {
        let host = if event.record.dir == Dir::C2s { &self.server } else { "client" };
        let text = body(event.record);
        json!({
            "startedDateTime": Timestamp::from_unix_micros(event.time).to_string(),
            "time": 0,
            "request": {
                "method": "POST",
                "url": format!("http://{host}/{}", encoded(event.method(), true)),
                "httpVersion": "JSON-RPC/2.0",
                "cookies": [],
                "headers": [],
                "queryString": [],
                "postData": {"mimeType": "application/json", "text": text},
                "headersSize": -1,
                "bodySize": text.len(),
            },
            "response": response(0, "no answer", ""),
            "cache": {},
            "timings": {"send": 0, "wait": 0, "receive": 0},
            "_seq": event.record.seq,
            "_id": event.message.id.as_deref(),
        })
    }
}

fn response(status: u32, text: &str, body: &str) -> Value {
    json!({
        "status": status,
        "statusText": text,
        "httpVersion": "JSON-RPC/2.0",
        "cookies": [],
        "headers": [],
        "content": {"size": body.len(), "mimeType": "application/json", "text": body},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": body.len(),
    })
}

fn body<'a>(record: &'a Record<'_>) -> &'a str {
    match &record.body {
        Some(Body::Msg(text) | Body::Text(text)) => text,
        _ => "",
    }
}

/// A text as a part of a URL.
fn encoded(text: &str, is_path: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'/' | b'$' if is_path => out.push(byte.into()),
            b'-' | b'.' | b'_' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ if is_path => out.push_str(&format!("%{byte:02X}")),
            _ => out.push('-'),
        }
    }
    out
}
