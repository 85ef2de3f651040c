//! Writes a record as one line of JSON.
//!
//! By hand, and not with serde: a message is copied once, as it is, and its numbers and members
//! need no second look.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::record::{Body, Bytes, Record};

/// The end of a line.
pub(crate) const END: &[u8] = b"}\n";

/// Appends a record without its message and the [`END`] of its line.
pub(crate) fn write_before_message(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"seq":"#);
    digits(out, record.seq);
    number(out, "at", Some(record.at));
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
    small(out, "code", record.code);
    small(out, "signal", record.signal);
    number(out, "left", record.left);
    if let Some(end) = &record.end {
        // Writing to memory does not fail.
        let _ = write!(out, r#","lossless":{},"bytes":"#, end.lossless);
        let _ = write!(out, r#"{{"c2s":{},"s2c":{},"err":{}}}"#, end.c2s, end.s2c, end.err);
    }
    bytes(out, "tail", record.tail.as_ref());
    if let Some(mask) = record.mask {
        name(out, "mask", Some(&format!("{:08x}", u32::from_be_bytes(mask))));
    }
    if let Some(Bytes(raw)) = &record.raw {
        base64(out, "raw64", raw);
    }
    // The body comes last, so that a line which is cut at a width shows everything else.
    match &record.body {
        Some(Body::Msg(_)) => out.extend_from_slice(br#","msg":"#),
        Some(Body::Text(body)) => text(out, "text", Some(body)),
        Some(Body::Bytes(body)) => base64(out, "b64", body),
        None => {}
    }
}

fn begin(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn digits(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn number(out: &mut Vec<u8>, key: &str, value: Option<u64>) {
    if let Some(value) = value {
        begin(out, key);
        digits(out, value);
    }
}

fn small(out: &mut Vec<u8>, key: &str, value: Option<i32>) {
    if let Some(value) = value {
        begin(out, key);
        digits(out, value);
    }
}

fn flag(out: &mut Vec<u8>, key: &str, value: bool) {
    if value {
        begin(out, key);
        out.extend_from_slice(b"true");
    }
}

/// A value that needs no escapes.
fn name(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        begin(out, key);
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    }
}

fn text(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        begin(out, key);
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
    name(out, key, Some(&STANDARD.encode(value)));
}
