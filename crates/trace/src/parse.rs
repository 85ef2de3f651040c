//! Parses a line of a trace file. Unknown members are ignored.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::header::Header;
use crate::record::{Body, Bytes, Dir, End, Kind, Record};
use crate::wire::Wire;

/// A line that is not a header and not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not a record: {}", self.line, self.why)
    }
}

impl std::error::Error for BadLine {}

/// The members of a line, before they are put together.
#[derive(Deserialize)]
struct Members<'a> {
    seq: u64,
    #[serde(default)]
    at: u64,
    first: Option<u64>,
    dir: Dir,
    kind: Kind,
    #[serde(borrow, default, deserialize_with = "even_null")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    of: Option<u64>,
    took: Option<u64>,
    size: Option<u64>,
    wire: Option<Wire>,
    #[serde(borrow)]
    head: Option<Cow<'a, str>>,
    #[serde(borrow)]
    head64: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tail: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tail64: Option<Cow<'a, str>>,
    #[serde(borrow)]
    mask: Option<Cow<'a, str>>,
    #[serde(borrow)]
    raw64: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    msg: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    b64: Option<Cow<'a, str>>,
    #[serde(default)]
    cut: bool,
    #[serde(default)]
    redacted: bool,
    #[serde(borrow)]
    why: Option<Cow<'a, str>>,
    lost: Option<u64>,
    code: Option<i32>,
    signal: Option<i32>,
    left: Option<u64>,
    lossless: Option<bool>,
    bytes: Option<End>,
}

/// Parses a header.
pub(crate) fn header(line: &[u8]) -> Result<Header, String> {
    serde_json::from_slice(line).map_err(|error| reason(&error))
}

impl Record<'_> {
    /// Parses one line of a trace, without its line end: for programs that keep the positions of
    /// records and read them again.
    ///
    /// # Errors
    ///
    /// If the line is not a record. The number of the line in the error is 0.
    pub fn from_line(line: &[u8]) -> Result<Record<'_>, BadLine> {
        record(line).map_err(|why| BadLine { line: 0, why })
    }
}

/// Parses a record. Its texts borrow from the line where they have no escapes.
pub(crate) fn record(line: &[u8]) -> Result<Record<'_>, String> {
    let it: Members<'_> = serde_json::from_slice(line).map_err(|error| reason(&error))?;
    let body = match (it.msg, it.text, it.b64) {
        (Some(msg), _, _) => Some(Body::Msg(msg.get().into())),
        (_, Some(text), _) => Some(Body::Text(text)),
        (_, _, Some(b64)) => Some(Body::Bytes(decode(&b64)?.into())),
        _ => None,
    };
    let end = it.lossless.map(|lossless| End { lossless, ..it.bytes.unwrap_or_default() });
    Ok(Record {
        seq: it.seq,
        at: it.at,
        first: it.first,
        dir: it.dir,
        kind: it.kind,
        id: it.id.map(|id| id.get().into()),
        method: it.method,
        of: it.of,
        took: it.took,
        size: it.size,
        wire: it.wire,
        head: bytes(it.head, it.head64)?,
        body,
        tail: bytes(it.tail, it.tail64)?,
        mask: it.mask.map(|key| mask(&key)).transpose()?,
        raw: bytes(None, it.raw64)?,
        cut: it.cut,
        redacted: it.redacted,
        why: it.why,
        lost: it.lost,
        code: it.code,
        signal: it.signal,
        left: it.left,
        end,
    })
}

/// `null` is a value: of an id, and of a message that is nothing but `null`.
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

fn bytes<'a>(
    text: Option<Cow<'a, str>>,
    base64: Option<Cow<'a, str>>,
) -> Result<Option<Bytes<'a>>, String> {
    Ok(match (text, base64) {
        (Some(Cow::Borrowed(text)), _) => Some(Bytes(text.as_bytes().into())),
        (Some(Cow::Owned(text)), _) => Some(Bytes(text.into_bytes().into())),
        (None, Some(base64)) => Some(Bytes(decode(&base64)?.into())),
        (None, None) => None,
    })
}

fn mask(text: &str) -> Result<[u8; 4], String> {
    let key = Some(text).filter(|text| text.len() == 8).map(|text| u32::from_str_radix(text, 16));
    let key = key.and_then(Result::ok).ok_or_else(|| format!("not a mask: {text}"))?;
    Ok(key.to_be_bytes())
}

/// The reason of an error in JSON, with the column: the line of the file is known.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    format!("{text} (column {})", error.column())
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}
