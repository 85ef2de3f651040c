//! What a client sends, as far as this server wants to know it, and a few things that go both ways.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Initialize {
    capabilities: Value,
}

impl Initialize {
    /// A list of names that the client offers. Of hundreds of capabilities we need two, and clients
    /// leave out what they like, so they are looked up and not described as types.
    pub(crate) fn offers(&self, path: &str) -> impl Iterator<Item = &str> {
        let list = self.capabilities.pointer(path).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }
}

/// Lines and characters count from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) character: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

#[derive(Deserialize)]
pub(crate) struct OpenedDocument {
    pub(crate) uri: String,
    pub(crate) version: i32,
    pub(crate) text: String,
}

#[derive(Deserialize)]
pub(crate) struct VersionedDocument {
    pub(crate) uri: String,
    pub(crate) version: i32,
}

#[derive(Deserialize)]
pub(crate) struct NamedDocument {
    pub(crate) uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidOpen {
    pub(crate) text_document: OpenedDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidChange {
    pub(crate) text_document: VersionedDocument,
    pub(crate) content_changes: Vec<Change>,
}

/// A part of the text has become another; without a range, all of it has.
#[derive(Deserialize)]
pub(crate) struct Change {
    pub(crate) range: Option<Range>,
    pub(crate) text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DidClose {
    pub(crate) text_document: NamedDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HoverAt {
    pub(crate) text_document: NamedDocument,
    pub(crate) position: Position,
}

#[derive(Serialize)]
pub(crate) struct Diagnostic {
    pub(crate) range: Range,
    pub(crate) severity: Severity,
    pub(crate) source: &'static str,
    pub(crate) message: &'static str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(into = "u8")]
pub(crate) enum Severity {
    Warning = 2,
    Information = 3,
    Hint = 4,
}

impl From<Severity> for u8 {
    fn from(severity: Severity) -> u8 {
        severity as u8
    }
}
