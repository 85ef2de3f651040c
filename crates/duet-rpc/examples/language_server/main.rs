//! A language server for plain text on stdin and stdout. It follows documents while they are edited,
//! describes the word under the cursor, and marks tasks, doubled words, trailing white space and long lines.
//!
//! ```console
//! cargo build -p duet-rpc --example language_server
//! emacs -Q --eval "(progn (require 'eglot) (add-to-list 'eglot-server-programs
//!   '(text-mode \"target/debug/examples/language_server\")))" notes.txt -f eglot
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `main` | the server's methods, and the process |
//! | `protocol` | the types of the protocol, and the editor's methods |
//! | `session` | the state between two messages |
//! | `document` | a text, its words, and positions in it |
//! | `checks` | the diagnostics of a text |

mod checks;
mod document;
mod protocol;
mod session;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use duet_rpc::{Failure, Profile, Server};
use serde_json::{Value, json};

use document::{Document, Encoding};
use protocol::{
    Change, Diagnostics, EditorClient, NamedDocument, OpenedDocument, Position, VersionedDocument,
    offers,
};
use session::{Phase, Session};

/// The server. It has one client, the editor that started it, so its state is a field.
struct PlainText {
    session: Session,
    /// The exit status of the process.
    status: Arc<AtomicU8>,
}

#[duet_rpc::service(
    callbacks = protocol::Editor,
    prefix = "textDocument/",
    rename_all = "camelCase",
    rename_params = "camelCase"
)]
impl PlainText {
    #[rpc(name = "initialize")]
    async fn initialize(&self, capabilities: Value) -> Result<Value, Failure> {
        let mut state = self.session.begin()?;
        // UTF-8 is less work for both sides. Every editor knows UTF-16.
        let mut encodings = offers(&capabilities, "/general/positionEncodings");
        if encodings.any(|encoding| encoding == "utf-8") {
            state.encoding = Encoding::Utf8;
        }
        // The editor lists the formats that it prefers first.
        let mut formats = offers(&capabilities, "/textDocument/hover/contentFormat");
        let format = formats.find(|format| ["markdown", "plaintext"].contains(format));
        state.likes_markdown = format == Some("markdown");
        const INCREMENTAL: u8 = 2;
        Ok(json!({
            "capabilities": {
                "positionEncoding": state.encoding.name(),
                "textDocumentSync": {"openClose": true, "change": INCREMENTAL},
                "hoverProvider": true,
            },
            "serverInfo": {"name": "plain-text", "version": env!("CARGO_PKG_VERSION")},
        }))
    }

    #[rpc(notification, name = "initialized")]
    fn initialized(&self) {}

    #[rpc(notification)]
    async fn did_open(
        &self,
        text_document: OpenedDocument,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let OpenedDocument { uri, version, text } = text_document;
        self.session.open()?.documents.insert(uri.clone(), Document::new(text));
        self.publish(VersionedDocument { uri, version }, editor).await
    }

    #[rpc(notification)]
    async fn did_change(
        &self,
        text_document: VersionedDocument,
        content_changes: Vec<Change>,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        {
            let mut state = self.session.open()?;
            let encoding = state.encoding;
            let document = state.documents.get_mut(&text_document.uri);
            let document = document.ok_or_else(|| Failure::internal("the document is not open"))?;
            // The positions of each change refer to the text after the change before it.
            for change in content_changes {
                match change.range {
                    Some(range) => document.replace(range, &change.text, encoding),
                    None => *document = Document::new(change.text),
                }
            }
        }
        self.publish(text_document, editor).await
    }

    #[rpc(notification)]
    async fn did_close(
        &self,
        text_document: NamedDocument,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let uri = text_document.uri;
        self.session.open()?.documents.remove(&uri);
        // An editor shows diagnostics until it gets others for the same document.
        let nothing = Diagnostics { uri, version: None, diagnostics: Vec::new() };
        Ok(editor.publish_diagnostics(nothing).await?)
    }

    #[rpc]
    async fn hover(
        &self,
        text_document: NamedDocument,
        position: Position,
    ) -> Result<Option<Value>, Failure> {
        let state = self.session.open()?;
        let Some(document) = state.documents.get(&text_document.uri) else { return Ok(None) };
        let Some(range) = document.word_at(position, state.encoding) else { return Ok(None) };
        let word = &document.text()[range.clone()];
        let characters = match word.chars().count() {
            1 => "1 character".to_owned(),
            count => format!("{count} characters"),
        };
        let times = match document.words().filter(|(_, other)| *other == word).count() {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let (kind, word) = match state.likes_markdown {
            // A code span needs no escapes.
            true => ("markdown", format!("`{word}`")),
            false => ("plaintext", word.to_owned()),
        };
        let value = format!("{word}\n\n{characters}, {times} in this document");
        let range = document.range(range, state.encoding);
        Ok(Some(json!({"contents": {"kind": kind, "value": value}, "range": range})))
    }

    /// An editor sends `shutdown`, waits for the answer, and then sends `exit`.
    #[rpc(name = "shutdown")]
    async fn shutdown(&self) -> Result<(), Failure> {
        self.session.open()?.phase = Phase::ShutDown;
        Ok(())
    }

    #[rpc(name = "exit", notification, shutdown)]
    fn exit(&self) {
        let is_polite = self.session.phase() == Phase::ShutDown;
        self.status.store(u8::from(!is_polite), Ordering::Relaxed);
    }

    /// Sends the diagnostics of a document to the editor.
    async fn publish(
        &self,
        document: VersionedDocument,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let VersionedDocument { uri, version } = document;
        let diagnostics = {
            let state = self.session.open()?;
            let document = state.documents.get(&uri);
            document.map(|document| checks::check(document, state.encoding)).unwrap_or_default()
        };
        // It waits while the editor does not read. The next change is not begun before that.
        let diagnostics = Diagnostics { uri, version: Some(version), diagnostics };
        Ok(editor.publish_diagnostics(diagnostics).await?)
    }
}

fn main() -> ExitCode {
    let status = Arc::new(AtomicU8::new(0));
    let server = PlainText { session: Session::default(), status: Arc::clone(&status) };
    // The editor profile handles one message after the other, so a hover sees every change before it.
    let server = Server::new().profile(Profile::editor()).router(server.into_router());
    match server.exit_with_parent().run() {
        Ok(()) => ExitCode::from(status.load(Ordering::Relaxed)),
        Err(error) => {
            eprintln!("the language server failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}
