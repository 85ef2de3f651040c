//! Rows and details for the page, made from the index and the record in the file.

use std::io;

use duet_rpc_trace::{Body, Kind, Record, Wire};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::entry::NONE;
use super::index::{Index, is_late};
use super::methods::shorten;

/// Length of the beginning of the content that a row shows, in bytes.
const BRIEF: usize = 200;

/// Maximum length of an id or a method in a row, in bytes. They come from outside, and the page shows less.
const LONGEST: usize = 512;

/// A record as the lists show it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) n: u32,
    pub(super) seq: u64,
    pub(super) at: u64,
    pub(super) dir: &'static str,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    brief: Option<String>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    took: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    is_late: bool,
    /// The request that this record answers or cancels.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
    /// The answer to this request, and its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_size: Option<u32>,
}

/// A record as the detail shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordDetail {
    #[serde(flatten)]
    row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    /// `json`, `text` or `bytes`.
    form: &'static str,
    /// The number of bytes of the body in the trace.
    body: u64,
    /// The framing as `duet-rpc call --framing` names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    framing: Option<&'static str>,
    notes: Vec<(&'static str, String)>,
}

/// Makes the row of a record.
pub(super) fn row(
    index: &mut Index,
    number: u32,
    is_running: bool,
    late: Option<u64>,
) -> io::Result<Row> {
    let row = columns(index, number, is_running, late);
    index.read(number, |record| complete(row, record))
}

/// Makes the detail of a record.
pub(super) fn detail(
    index: &mut Index,
    number: u32,
    is_running: bool,
    late: Option<u64>,
) -> io::Result<RecordDetail> {
    let row = columns(index, number, is_running, late);
    index.read(number, |record| RecordDetail {
        row: complete(row, record),
        first: record.first,
        form: match &record.body {
            _ if record.json().is_some() => "json",
            Some(Body::Bytes(_)) => "bytes",
            _ => "text",
        },
        body: record.body.as_ref().map_or(0, |body| body.as_bytes().len() as u64),
        framing: match record.wire {
            Some(Wire::Lsp) => Some("lsp"),
            Some(Wire::Ndjson) => Some("ndjson"),
            Some(Wire::Length) => Some("length"),
            _ => None,
        },
        notes: notes(record),
    })
}

/// The columns that are in the index.
fn columns(index: &Index, number: u32, is_running: bool, late: Option<u64>) -> Row {
    let Some(entry) = index.entries.get(number) else { return Row::default() };
    let is_request = entry.kind == Kind::Request;
    let partner = Some(entry.partner).filter(|partner| *partner != NONE);
    let answer = partner.filter(|_| is_request);
    Row {
        n: number,
        seq: entry.seq,
        at: entry.at,
        dir: entry.dir.name(),
        kind: entry.kind.name(),
        took: index.took(entry),
        state: entry.fate.name(is_running),
        is_late: is_request && index.took(entry).is_some_and(|took| is_late(took, late)),
        of: partner.filter(|_| !is_request),
        answer,
        answer_size: answer.and_then(|number| index.entries.get(number)).map(|entry| entry.size),
        ..Row::default()
    }
}

/// Adds the parts that are only in the file.
fn complete(row: Row, record: &Record<'_>) -> Row {
    let text = |text: &str| shorten(text, LONGEST).to_owned();
    let body = record.body.as_ref().map(|body| body.as_bytes().len() as u64);
    Row {
        id: record.id.as_deref().map(text),
        method: record.method.as_deref().map(text),
        brief: brief(record),
        size: record.size.or(body).unwrap_or(0),
        ..row
    }
}

/// The content of a record, in one line.
fn brief(record: &Record<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    match record.kind {
        Kind::Exit => return Some(exit(record)),
        Kind::Loss => return Some(format!("{} bytes were not recorded", record.lost.unwrap_or(0))),
        Kind::Signal => return record.signal.map(|signal| format!("signal {signal}")),
        Kind::End => {
            let is_lossless = record.end.is_some_and(|end| end.lossless);
            return Some(
                if is_lossless { "the trace is whole" } else { "the trace has gaps" }.into(),
            );
        }
        Kind::Eof | Kind::Fault => {
            return record.why.as_deref().map(|why| shorten(why, BRIEF).to_owned());
        }
        _ => {}
    }
    if let Some(json) = record.json()
        && let Ok(message) = serde_json::from_str::<Message<'_>>(json)
        && let Some(part) = message.params.or(message.result).or(message.error)
    {
        return Some(shorten(part.get(), BRIEF).to_owned());
    }
    Some(match record.body.as_ref()? {
        Body::Msg(text) | Body::Text(text) => shorten(text, BRIEF).to_owned(),
        Body::Bytes(bytes) => {
            String::from_utf8_lossy(&bytes[..bytes.len().min(BRIEF)]).into_owned()
        }
    })
}

fn exit(record: &Record<'_>) -> String {
    match (record.code, record.signal) {
        (_, Some(signal)) => format!("ended by signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Facts of a record that are not columns.
fn notes(record: &Record<'_>) -> Vec<(&'static str, String)> {
    let mut notes = Vec::new();
    if let Some(why) = &record.why {
        let name = if record.kind == Kind::Fault { "Fault rule" } else { "Reason" };
        notes.push((name, shorten(why, LONGEST).to_owned()));
    }
    if matches!(record.kind, Kind::Exit) {
        notes.push(("Exit", exit(record)));
    }
    if let Some(left) = record.left {
        notes.push(("Processes left", left.to_string()));
    }
    if let Some(lost) = record.lost {
        notes.push(("Not recorded", format!("{lost} bytes")));
    }
    let framing = match record.wire {
        Some(Wire::Lsp) => Some("Content-Length header"),
        Some(Wire::Ndjson) => Some("one message per line"),
        Some(Wire::Length) => Some("length prefix"),
        _ => None,
    };
    if let Some(framing) = framing {
        let is_unusual = record.head.is_some() || record.tail.is_some();
        let unusual = if is_unusual { ", not in the usual form" } else { "" };
        notes.push(("Framing", format!("{framing}{unusual}")));
    }
    if record.cut {
        notes.push(("Cut", "the trace has only the beginning of the body".to_owned()));
    }
    if record.redacted {
        notes.push(("Redacted", "values were replaced in the trace".to_owned()));
    }
    notes
}
