//! Records: the lines of a trace after its header.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::wire::Wire;

/// One line of a trace: a message, a line on stderr, noise, a loss or an end.
///
/// Members that a kind does not have are `None`. Times are microseconds of a monotonic clock since
/// the start of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// Counts the records of a session, from 1.
    pub seq: u64,
    /// The time of the last byte.
    pub at: u64,
    /// The time of the first byte, if it differs.
    pub first: Option<u64>,
    /// The direction.
    pub dir: Dir,
    /// The kind.
    pub kind: Kind,
    /// The id of the message: its JSON text, verbatim.
    pub id: Option<Cow<'a, str>>,
    /// The method. A response has the method of its request, if that is known.
    pub method: Option<Cow<'a, str>>,
    /// The `seq` of the request that this message answers.
    pub of: Option<u64>,
    /// The time from that request to this message.
    pub took: Option<u64>,
    /// The number of bytes of the body, before it was cut or redacted.
    pub size: Option<u64>,
    /// The framing of the bytes around the body. `None`: the record's bytes are the body alone.
    pub wire: Option<Wire>,
    /// The bytes before the body, if they are not the canonical ones of the framing.
    pub head: Option<Bytes<'a>>,
    /// The body.
    pub body: Option<Body<'a>>,
    /// The bytes after the body, if they are not the canonical ones of the framing.
    pub tail: Option<Bytes<'a>>,
    /// The key with which the body was masked (WebSocket).
    pub mask: Option<[u8; 4]>,
    /// All bytes of the message as they passed, if they are not the usual ones of one WebSocket frame.
    pub raw: Option<Bytes<'a>>,
    /// The body is not whole: it was longer than the limit for bodies.
    pub cut: bool,
    /// Values in the body were replaced.
    pub redacted: bool,
    /// The reason for a `broken` record or for the end of a stream; the rule of a `fault`.
    pub why: Option<Cow<'a, str>>,
    /// The number of bytes that were not recorded (`loss`).
    pub lost: Option<u64>,
    /// The exit code (`exit`).
    pub code: Option<i32>,
    /// The number of the signal (`signal`; `exit` by a signal).
    pub signal: Option<i32>,
    /// The number of processes that were still running when the server exited (`exit`).
    pub left: Option<u64>,
    /// The totals of the session (`end`).
    pub end: Option<End>,
}

impl<'a> Record<'a> {
    /// A record without any of the optional members.
    pub fn new(seq: u64, at: u64, dir: Dir, kind: Kind) -> Self {
        Record {
            seq,
            at,
            first: None,
            dir,
            kind,
            id: None,
            method: None,
            of: None,
            took: None,
            size: None,
            wire: None,
            head: None,
            body: None,
            tail: None,
            mask: None,
            raw: None,
            cut: false,
            redacted: false,
            why: None,
            lost: None,
            code: None,
            signal: None,
            left: None,
            end: None,
        }
    }

    /// The message as JSON text, if the record has one that is whole.
    pub fn json(&self) -> Option<&str> {
        match &self.body {
            Some(Body::Msg(text) | Body::Text(text)) if self.kind.is_message() && !self.cut => {
                Some(text)
            }
            _ => None,
        }
    }

    /// Copies borrowed parts.
    pub fn into_owned(self) -> Record<'static> {
        let text = |text: Option<Cow<'a, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        Record {
            id: text(self.id),
            method: text(self.method),
            head: self.head.map(Bytes::into_owned),
            body: self.body.map(Body::into_owned),
            tail: self.tail.map(Bytes::into_owned),
            raw: self.raw.map(Bytes::into_owned),
            why: text(self.why),
            ..self
        }
    }
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dir {
    /// From the client to the server: its stdin.
    C2s,
    /// From the server to the client: its stdout.
    S2c,
    /// The server's stderr.
    Err,
    /// Not a stream: an event that the recorder saw.
    Tap,
    /// A direction of a newer version.
    #[serde(other)]
    Unknown,
}

impl Dir {
    /// The directions that carry bytes.
    pub const STREAMS: [Dir; 3] = [Dir::C2s, Dir::S2c, Dir::Err];

    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Dir::C2s => "c2s",
            Dir::S2c => "s2c",
            Dir::Err => "err",
            Dir::Tap => "tap",
            Dir::Unknown => "unknown",
        }
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// A request.
    Request,
    /// A notification.
    Notification,
    /// A response with a result.
    Response,
    /// A response with an error.
    Error,
    /// Several messages in one array.
    Batch,
    /// A frame with JSON that is not a JSON-RPC message.
    Invalid,
    /// A frame that is not JSON, has a wrong header, or ended early. `why` has the reason.
    Broken,
    /// Bytes outside of a frame, most often stray prints.
    Noise,
    /// White space outside of a frame.
    Blank,
    /// The head of an HTTP request or response without a message.
    Head,
    /// A control frame of a WebSocket: `why` names it.
    Control,
    /// The next bytes of the record before it in this direction: `broken`, `noise` or `stderr`.
    More,
    /// A line on stderr.
    Stderr,
    /// Bytes that passed and were not recorded, because the recorder was too slow.
    Loss,
    /// The tap made a fault in a message (`--fault`). `why` has the rule, and the body is that of the
    /// message as it came, if other bytes passed.
    Fault,
    /// The stream ended.
    Eof,
    /// The tap received a signal and passed it on.
    Signal,
    /// The server ended.
    Exit,
    /// The trace ends, whole: see [`End`].
    End,
    /// A kind of a newer version.
    #[serde(other)]
    Unknown,
}

impl Kind {
    /// The name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Request => "request",
            Kind::Notification => "notification",
            Kind::Response => "response",
            Kind::Error => "error",
            Kind::Batch => "batch",
            Kind::Invalid => "invalid",
            Kind::Broken => "broken",
            Kind::Noise => "noise",
            Kind::Blank => "blank",
            Kind::Head => "head",
            Kind::Control => "control",
            Kind::More => "more",
            Kind::Stderr => "stderr",
            Kind::Loss => "loss",
            Kind::Fault => "fault",
            Kind::Eof => "eof",
            Kind::Signal => "signal",
            Kind::Exit => "exit",
            Kind::End => "end",
            Kind::Unknown => "unknown",
        }
    }

    /// Returns `true` for a frame with JSON in it.
    pub fn is_message(self) -> bool {
        use Kind::*;
        matches!(self, Request | Notification | Response | Error | Batch | Invalid)
    }
}

/// The body of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// JSON on one line, verbatim (`msg`). It begins and ends with a token, not with white space.
    Msg(Cow<'a, str>),
    /// Any text (`text`).
    Text(Cow<'a, str>),
    /// Bytes that are not UTF-8 (`b64`).
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Body<'a> {
    /// The body for a text that is known to be JSON: verbatim if it can stand in a line.
    ///
    /// The text is not checked. A text that is not JSON makes a line that no reader accepts.
    pub fn from_json(text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        let is_white = |byte: Option<&u8>| matches!(byte, None | Some(b' ' | b'\t'));
        let bytes = text.as_bytes();
        let has_line_end = memchr::memchr2(b'\n', b'\r', bytes).is_some();
        if has_line_end || is_white(bytes.first()) || is_white(bytes.last()) {
            Body::Text(text)
        } else {
            Body::Msg(text)
        }
    }

    /// The body for any bytes.
    pub fn from_bytes(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Body::Text(text.into()),
            Err(_) => Body::Bytes(bytes.into()),
        }
    }

    /// The bytes that passed.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Msg(text) | Body::Text(text) => text.as_bytes(),
            Body::Bytes(bytes) => bytes,
        }
    }

    /// Copies a borrowed body.
    pub fn into_owned(self) -> Body<'static> {
        match self {
            Body::Msg(text) => Body::Msg(Cow::Owned(text.into_owned())),
            Body::Text(text) => Body::Text(Cow::Owned(text.into_owned())),
            Body::Bytes(bytes) => Body::Bytes(Cow::Owned(bytes.into_owned())),
        }
    }
}

/// Bytes around a body: `head` and `tail`, or `head64` and `tail64` if they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes<'a>(pub Cow<'a, [u8]>);

impl Bytes<'_> {
    /// Copies borrowed bytes.
    pub fn into_owned(self) -> Bytes<'static> {
        Bytes(Cow::Owned(self.0.into_owned()))
    }
}

/// The totals of a session, in its last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct End {
    /// Every byte that passed is in the trace, across all of its parts.
    #[serde(default)]
    pub lossless: bool,
    /// The bytes that passed from the client to the server.
    #[serde(default)]
    pub c2s: u64,
    /// The bytes that passed from the server to the client.
    #[serde(default)]
    pub s2c: u64,
    /// The bytes that passed on stderr.
    #[serde(default)]
    pub err: u64,
}

impl End {
    /// Totals without bytes.
    pub fn new(lossless: bool) -> Self {
        End { lossless, ..End::default() }
    }
}
