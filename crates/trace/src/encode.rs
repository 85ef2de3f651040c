//! Writes a record as one line of JSON.
//!
//! By hand, and not with serde: a message is copied once, as it is, and its numbers and members
//! need no second look.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::record::{Body, Bytes, Record};

/// Appends a record and its line end.
pub(crate) fn write(record: &Record<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, r#"{{"seq":{},"at":{}"#, record.seq, record.at);
    number(out, "first", record.first);
    name(out, "dir", Some(record.dir.name()));
    name(out, "kind", Some(record.kind.name()));
    if let Some(id) = &record.id {
        out.extend_from_slice(br#","id":"#);
        out.extend_from_slice(id.as_bytes());
    }
    text(out, "method", record.method.as_deref());
    number(out, "of", record.of);
    number(out, "took", record.took);
    number(out, "size", record.size);
    name(out, "wire", record.wire.map(|wire| wire.name()));
    bytes(out, "head", record.head.as_ref());
    flag(out, "cut", record.cut);
    flag(out, "redacted", record.redacted);
    text(out, "why", record.why.as_deref());
    number(out, "lost", record.lost);
    number(out, "code", record.code);
    number(out, "signal", record.signal);
    number(out, "left", record.left);
    if let Some(end) = &record.end {
        let _ = write!(out, r#","lossless":{},"bytes":"#, end.lossless);
        let _ = write!(out, r#"{{"c2s":{},"s2c":{},"err":{}}}"#, end.c2s, end.s2c, end.err);
    }
    bytes(out, "tail", record.tail.as_ref());
    // The body comes last, so that a line which is cut at a width shows everything else.
    match &record.body {
        Some(Body::Msg(json)) => {
            out.extend_from_slice(br#","msg":"#);
            out.extend_from_slice(json.as_bytes());
        }
        Some(Body::Text(body)) => text(out, "text", Some(body)),
        Some(Body::Bytes(body)) => base64(out, "b64", body),
        None => {}
    }
    out.extend_from_slice(b"}\n");
}

fn number(out: &mut Vec<u8>, key: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        let _ = write!(out, r#","{key}":{value}"#);
    }
}

fn flag(out: &mut Vec<u8>, key: &str, value: bool) {
    if value {
        let _ = write!(out, r#","{key}":true"#);
    }
}

/// A value that needs no escapes.
fn name(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = write!(out, r#","{key}":"{value}""#);
    }
}

fn text(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = write!(out, r#","{key}":"#);
        // Writing a string to memory does not fail.
        let _ = serde_json::to_writer(&mut *out, value);
    }
}

fn bytes(out: &mut Vec<u8>, key: &str, value: Option<&Bytes<'_>>) {
    let Some(Bytes(value)) = value else { return };
    match std::str::from_utf8(value) {
        Ok(value) => text(out, key, Some(value)),
        Err(_) => base64(out, &format!("{key}64"), value),
    }
}

fn base64(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let _ = write!(out, r#","{key}":"{}""#, STANDARD.encode(value));
}
