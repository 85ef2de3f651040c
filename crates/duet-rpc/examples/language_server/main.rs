//! A language server for plain text, on stdin and stdout. It tracks open documents, describes the word under the cursor,
//! marks tasks, doubled words, trailing white space and long lines, and removes trailing white space if the user agrees.
//! Requests run concurrently while documents change.
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
//! | `hover` | the description of a word |

mod checks;
mod document;
mod hover;
mod protocol;
mod session;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use duet_rpc::{Failure, OrInternal, Order, Profile, Server};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use document::{Document, Encoding};
use protocol::{
    Action, Change, Diagnostics, DocumentEdit, EditorClient, NamedDocument, OpenedDocument,
    Position, Question, TextEdit, VersionedDocument, WorkspaceEdit, offers,
};
use session::{Phase, Session, Snapshot};

/// Maximum number of requests that run at the same time. Further requests get the answer `Server busy`.
const MOST_REQUESTS: usize = 256;

/// The command that removes white space at the ends of lines of a document.
const TRIM: &str = "plain-text.trim";

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
    #[rpc(name = "initialize", quick)]
    async fn initialize(&self, capabilities: Value) -> Result<Value, Failure> {
        let mut state = self.session.begin()?;
        // UTF-8 is less work for both sides. UTF-16 is the default of the protocol.
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
                "executeCommandProvider": {"commands": [TRIM]},
            },
            "serverInfo": {"name": "plain-text", "version": env!("CARGO_PKG_VERSION")},
        }))
    }

    #[rpc(notification, name = "initialized")]
    fn initialized(&self) {}

    #[rpc(notification, quick)]
    async fn did_open(
        &self,
        text_document: OpenedDocument,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let OpenedDocument { uri, version, text } = text_document;
        let document = Arc::new(Document::new(version, text));
        self.session.open()?.documents.insert(uri.clone(), document);
        self.publish(uri, editor).await
    }

    #[rpc(notification, quick)]
    async fn did_change(
        &self,
        text_document: VersionedDocument,
        content_changes: Vec<Change>,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let VersionedDocument { uri, version } = text_document;
        {
            let mut state = self.session.open()?;
            let encoding = state.encoding;
            let document = state.documents.get_mut(&uri);
            let document = document.ok_or_else(|| Failure::internal("the document is not open"))?;
            // A running request keeps the old text.
            let document = Arc::make_mut(document);
            document.version = version;
            // The positions of each change refer to the text after the change before it.
            for change in content_changes {
                match change.range {
                    Some(range) => document.replace(range, &change.text, encoding),
                    None => *document = Document::new(version, change.text),
                }
            }
        }
        self.publish(uri, editor).await
    }

    #[rpc(notification, quick)]
    async fn did_close(
        &self,
        text_document: NamedDocument,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let uri = text_document.uri;
        self.session.open()?.documents.remove(&uri);
        // An editor shows diagnostics until it receives new ones for the same document.
        let nothing = Diagnostics { uri, version: None, diagnostics: Vec::new() };
        Ok(editor.publish_diagnostics(nothing).await?)
    }

    #[rpc(quick)]
    async fn hover(
        &self,
        text_document: NamedDocument,
        position: Position,
    ) -> Result<Option<Value>, Failure> {
        // No `await` has happened yet, so this is the document at the time of the request.
        let Some(snapshot) = self.session.snapshot(&text_document.uri)? else { return Ok(None) };
        // A long document takes time. Changes and other requests continue meanwhile.
        spawn_blocking(move || hover::describe(&snapshot, position)).await.or_internal()
    }

    /// Removes white space at the ends of lines, if the user agrees.
    #[rpc(name = "workspace/executeCommand", quick)]
    async fn execute_command(
        &self,
        command: String,
        #[rpc(default)] arguments: Vec<String>,
        editor: EditorClient,
    ) -> Result<(), Failure> {
        let (TRIM, [uri]) = (&*command, &*arguments) else {
            return Err(Failure::new(-32602, "Unknown command"));
        };
        let Some(Snapshot { document, encoding, .. }) = self.session.snapshot(uri)? else {
            return Err(Failure::not_found("The document is not open"));
        };
        let edits: Vec<_> = checks::trailing_spaces(&document)
            .map(|place| TextEdit {
                range: document.range(place, encoding),
                new_text: String::new(),
            })
            .collect();
        const INFO: u8 = 3;
        let question = Question {
            kind: INFO,
            message: format!("Remove white space at the end of {} lines?", edits.len()),
            actions: vec![Action { title: "Remove".to_owned() }],
        };
        // The user may take long to answer. Other requests continue meanwhile.
        if editor.show_message_request(question).no_timeout().await?.is_some() {
            let text_document = VersionedDocument { uri: uri.clone(), version: document.version };
            let change = DocumentEdit { text_document, edits };
            editor.apply_edit(WorkspaceEdit { document_changes: vec![change] }).await?;
        }
        Ok(())
    }

    /// An editor sends `shutdown`, waits for the answer, and then sends `exit`.
    #[rpc(name = "shutdown", quick)]
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
    async fn publish(&self, uri: String, editor: EditorClient) -> Result<(), Failure> {
        let Some(Snapshot { document, encoding, .. }) = self.session.snapshot(&uri)? else {
            return Ok(());
        };
        // The checks are quick. Slow checks would use `spawn_blocking`, as `hover` does.
        let diagnostics = checks::check(&document, encoding);
        let version = Some(document.version);
        Ok(editor.publish_diagnostics(Diagnostics { uri, version, diagnostics }).await?)
    }
}

fn main() -> ExitCode {
    let status = Arc::new(AtomicU8::new(0));
    let server = PlainText { session: Session::default(), status: Arc::clone(&status) };
    // Requests run concurrently. The part of a quick handler before its first `await` runs in order: a request sees
    // every earlier change and no later one.
    let profile = Profile::editor().order(Order::Concurrent).max_in_flight(MOST_REQUESTS);
    let server = Server::new().profile(profile).router(server.into_router());
    match server.exit_with_parent().run() {
        Ok(()) => ExitCode::from(status.load(Ordering::Relaxed)),
        Err(error) => {
            eprintln!("the language server failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}
