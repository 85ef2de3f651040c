//! OpenTelemetry spans in the JSON encoding of OTLP: one span for the session, one for each request.
//!
//! Attributes follow the semantic conventions for JSON-RPC.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{ExportedMessage, Format, Pending, server_name};
use crate::header::Header;
use crate::record::{Dir, Kind, Record};

#[derive(Default)]
pub(super) struct Otlp {
    pending: Pending<Value>,
    trace_id: String,
    session: String,
    start: u64,
    last: u64,
}

const SPAN_KIND_INTERNAL: u32 = 1;
const SPAN_KIND_CLIENT: u32 = 3;
const SPAN_KIND_PRODUCER: u32 = 4;
const STATUS_ERROR: u32 = 2;

impl Format for Otlp {
    fn begin(&mut self, out: &mut dyn Write, header: &Header, start: u64) -> io::Result<()> {
        let (high, low) = (hash(&header.session, 1), hash(&header.session, 2));
        self.trace_id = format!("{high:016x}{low:016x}");
        self.session.clone_from(&header.session);
        (self.start, self.last) = (start, start);
        let resource = json!({"attributes": [
            attribute("service.name", &server_name(header)),
            attribute("session.id", &header.session),
        ]});
        let scope = json!({"name": "duet-rpc", "version": env!("CARGO_PKG_VERSION")});
        write!(
            out,
            "{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":["
        )
    }

    fn message(&mut self, out: &mut dyn Write, event: &ExportedMessage<'_>) -> io::Result<()> {
        self.last = self.last.max(event.time);
        match event.message.kind {
            Kind::Request => {
                let span = self.span(event, SPAN_KIND_CLIENT);
                match self.pending.ask(event, span) {
                    Some(span) => writeln!(out, "{span},"),
                    None => Ok(()),
                }
            }
            Kind::Response | Kind::Error => {
                let Some(mut span) = self.pending.answer(event) else { return Ok(()) };
                span["endTimeUnixNano"] = nanos(event.time);
                if let Some(error) = event.message.error_object() {
                    span["status"] = json!({"code": STATUS_ERROR, "message": error.message});
                    if let Some(attributes) = span["attributes"].as_array_mut() {
                        let code = json!({"intValue": error.code.to_string()});
                        attributes.push(json!({"key": "rpc.jsonrpc.error_code", "value": code}));
                        attributes.push(attribute("rpc.jsonrpc.error_message", &error.message));
                    }
                }
                writeln!(out, "{span},")
            }
            Kind::Notification => writeln!(out, "{},", self.span(event, SPAN_KIND_PRODUCER)),
            _ => Ok(()),
        }
    }

    fn other(&mut self, _: &mut dyn Write, _: &Record<'_>, time: u64) -> io::Result<bool> {
        self.last = self.last.max(time);
        Ok(false)
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for mut span in self.pending.take_rest() {
            span["endTimeUnixNano"] = nanos(self.last);
            span["status"] = json!({"code": STATUS_ERROR, "message": "no answer"});
            writeln!(out, "{span},")?;
        }
        let session = json!({
            "traceId": self.trace_id,
            "spanId": self.root_id(),
            "name": "session",
            "kind": SPAN_KIND_INTERNAL,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.last),
        });
        writeln!(out, "{session}\n]}}]}}]}}")
    }
}

impl Otlp {
    fn span(&self, event: &ExportedMessage<'_>, kind: u32) -> Value {
        let message = event.message;
        let id = message.id.as_deref().unwrap_or_default();
        let seq = event.record.seq;
        let from = if event.record.dir == Dir::C2s { "client" } else { "server" };
        let mut attributes = vec![
            attribute("rpc.system", "jsonrpc"),
            attribute("rpc.method", event.method()),
            attribute("rpc.jsonrpc.version", "2.0"),
            attribute("duet.from", from),
        ];
        if !id.is_empty() {
            attributes.push(attribute("rpc.jsonrpc.request_id", id));
        }
        json!({
            "traceId": self.trace_id,
            "spanId": format!("{:016x}", hash(&format!("{}/{seq}/{id}", self.session), 3)),
            "parentSpanId": self.root_id(),
            "name": event.method(),
            "kind": kind,
            "startTimeUnixNano": nanos(event.time),
            "endTimeUnixNano": nanos(event.time),
            "attributes": attributes,
        })
    }

    fn root_id(&self) -> String {
        format!("{:016x}", hash(&self.session, 4))
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// The encoding has 64-bit numbers as strings.
fn nanos(micros: u64) -> Value {
    Value::from(micros.saturating_mul(1_000).to_string())
}

/// FNV-1a, never zero: ids of spans need to differ, and to be the same in each run.
fn hash(text: &str, seed: u8) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(step(0xcbf2_9ce4_8422_2325, seed), step);
    hash.max(1)
}
