//! Types of the Language Server Protocol that this server uses, and the editor's methods.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The methods of the editor that the server calls.
#[duet_rpc::service(prefix = "textDocument/", rename_all = "camelCase")]
pub(crate) trait Editor {
    #[rpc(notification)]
    async fn publish_diagnostics(&self, #[rpc(whole)] params: Diagnostics);

    /// Asks the user. The answer is one of the actions, or `None`.
    #[rpc(name = "window/showMessageRequest")]
    async fn show_message_request(&self, #[rpc(whole)] params: Question) -> Option<Action>;

    #[rpc(name = "workspace/applyEdit")]
    async fn apply_edit(&self, edit: WorkspaceEdit) -> Applied;
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    #[serde(rename = "type")]
    pub(crate) kind: u8,
    pub(crate) message: String,
    pub(crate) actions: Vec<Action>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Action {
    pub(crate) title: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkspaceEdit {
    pub(crate) document_changes: Vec<DocumentEdit>,
}

/// Changes of a document. The editor refuses them if the version of the document has changed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentEdit {
    pub(crate) text_document: VersionedDocument,
    pub(crate) edits: Vec<TextEdit>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextEdit {
    pub(crate) range: Range,
    pub(crate) new_text: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) applied: bool,
}

/// Returns a list of names from the editor's capabilities. There are hundreds of optional capabilities, so this looks
/// up the two that the server needs, instead of describing all as types.
pub(crate) fn offers<'a>(capabilities: &'a Value, path: &str) -> impl Iterator<Item = &'a str> {
    let list = capabilities.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// A position in a document. Lines and characters count from 0.
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

#[derive(Serialize, Deserialize)]
pub(crate) struct VersionedDocument {
    pub(crate) uri: String,
    pub(crate) version: i32,
}

#[derive(Deserialize)]
pub(crate) struct NamedDocument {
    pub(crate) uri: String,
}

/// The new text of a range, or of the whole document if there is no range.
#[derive(Deserialize)]
pub(crate) struct Change {
    pub(crate) range: Option<Range>,
    pub(crate) text: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Diagnostics {
    pub(crate) uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<i32>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Diagnostic {
    pub(crate) range: Range,
    pub(crate) severity: u8,
    pub(crate) source: String,
    pub(crate) message: String,
}

#[derive(Clone, Copy)]
pub(crate) enum Severity {
    Warning = 2,
    Information = 3,
    Hint = 4,
}
