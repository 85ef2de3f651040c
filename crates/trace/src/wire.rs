//! The bytes of a record as they passed: header, body and terminator.
//!
//! | `wire` | before the body | after the body |
//! |---|---|---|
//! | `lsp` | `Content-Length: N\r\n\r\n` | nothing |
//! | `ndjson` | nothing | `\n` |
//! | `length` | N as four bytes, big-endian | `\n` |
//! | `line` | nothing | `\n` |
//! | `ws` | the header of one text frame, with the key of `mask` | nothing |
//! | `http` | always in `head` | nothing |
//! | absent | nothing | nothing |
//!
//! `head` and `tail` of a record replace these bytes where the sender wrote others. The body of a record with a
//! `mask` passed masked. `raw64` replaces all of it: the frames of a WebSocket message.

use std::fmt;
use std::io::Write as _;

use duet_rpc_proto::frame::Framing;
use serde::{Deserialize, Serialize};

use crate::record::{Kind, Record};
use crate::web::{apply_mask, write_frame_header};

/// The framing of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Wire {
    /// Header lines with a `Content-Length`.
    Lsp,
    /// One JSON text per line.
    Ndjson,
    /// Four bytes of length, the JSON text, a newline.
    Length,
    /// A line of text.
    Line,
    /// A WebSocket message.
    Ws,
    /// The body of an HTTP request or response.
    Http,
    /// A framing of a newer version.
    #[serde(other)]
    Unknown,
}

impl Wire {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Lsp => "lsp",
            Wire::Ndjson => "ndjson",
            Wire::Length => "length",
            Wire::Line => "line",
            Wire::Ws => "ws",
            Wire::Http => "http",
            Wire::Unknown => "unknown",
        }
    }

    /// Appends the canonical bytes before a body of this size.
    pub fn write_head(self, size: usize, out: &mut Vec<u8>) {
        match self {
            Wire::Lsp => {
                // Writing to memory does not fail.
                let _ = write!(out, "Content-Length: {size}\r\n\r\n");
            }
            Wire::Length => {
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                out.extend_from_slice(&size.to_be_bytes());
            }
            Wire::Ws => write_frame_header(size, None, out),
            Wire::Ndjson | Wire::Line | Wire::Http | Wire::Unknown => {}
        }
    }

    /// The canonical bytes after a body.
    pub fn tail(self) -> &'static [u8] {
        match self {
            Wire::Lsp | Wire::Ws | Wire::Http | Wire::Unknown => b"",
            Wire::Ndjson | Wire::Length | Wire::Line => b"\n",
        }
    }
}

impl From<Framing> for Wire {
    fn from(framing: Framing) -> Self {
        match framing {
            Framing::Lsp => Wire::Lsp,
            Framing::Ndjson => Wire::Ndjson,
            Framing::Length => Wire::Length,
        }
    }
}

/// The bytes of a record are not all in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incomplete {
    /// The recorder was too slow for this many bytes.
    Lost(u64),
    /// The body was longer than the limit for bodies.
    Cut,
    /// Values in the body were replaced.
    Redacted,
    /// The record uses a framing of a newer version.
    UnknownFraming,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incomplete::Lost(bytes) => write!(f, "{bytes} bytes were not recorded"),
            Incomplete::Cut => f.write_str("a body was cut (--max-body)"),
            Incomplete::Redacted => f.write_str("values were redacted"),
            Incomplete::UnknownFraming => f.write_str("the framing is not known"),
        }
    }
}

impl std::error::Error for Incomplete {}

impl Record<'_> {
    /// Appends the bytes of this record as they passed. Records without bytes, and faults, append nothing.
    ///
    /// # Errors
    ///
    /// If the trace does not have all of the bytes. Then the bytes that it has are appended.
    pub fn write_wire(&self, out: &mut Vec<u8>) -> Result<(), Incomplete> {
        if self.kind == Kind::Loss {
            return Err(Incomplete::Lost(self.lost.unwrap_or_default()));
        }
        // The body of a fault is the message as it came, which did not pass.
        let Some(body) = self.body.as_ref().filter(|_| self.kind != Kind::Fault) else {
            return Ok(());
        };
        let body = body.as_bytes();
        if let Some(raw) = &self.raw {
            out.extend_from_slice(&raw.0);
            return Ok(());
        }
        match (&self.head, self.wire) {
            (Some(head), _) => out.extend_from_slice(&head.0),
            (None, Some(Wire::Ws)) => write_frame_header(body.len(), self.mask, out),
            (None, Some(wire)) => wire.write_head(body.len(), out),
            (None, None) => {}
        }
        let start = out.len();
        out.extend_from_slice(body);
        apply_mask(self.mask, &mut out[start..]);
        match (&self.tail, self.wire) {
            (Some(tail), _) => out.extend_from_slice(&tail.0),
            (None, Some(wire)) => out.extend_from_slice(wire.tail()),
            (None, None) => {}
        }
        match self {
            _ if self.cut => Err(Incomplete::Cut),
            _ if self.redacted => Err(Incomplete::Redacted),
            _ if self.wire == Some(Wire::Unknown) => Err(Incomplete::UnknownFraming),
            _ => Ok(()),
        }
    }

    /// The number of bytes of this record as they passed.
    pub(crate) fn wire_length(&self) -> u64 {
        if self.kind == Kind::Fault {
            return 0;
        }
        let Some(body) = &self.body else { return self.lost.unwrap_or_default() };
        if let Some(raw) = &self.raw {
            return raw.0.len() as u64;
        }
        let body = self.size.unwrap_or(body.as_bytes().len() as u64);
        let head = match (&self.head, self.wire) {
            (Some(head), _) => head.0.len(),
            (None, Some(wire)) => {
                let mut head = Vec::with_capacity(40);
                wire.write_head(usize::try_from(body).unwrap_or(usize::MAX), &mut head);
                head.len() + self.mask.map_or(0, |mask| mask.len())
            }
            (None, None) => 0,
        };
        let usual_tail = self.wire.map_or(0, |wire| wire.tail().len());
        let tail = self.tail.as_ref().map_or(usual_tail, |tail| tail.0.len());
        body + (head + tail) as u64
    }
}
