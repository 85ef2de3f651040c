//! A language server for plain text, as an editor starts one: `Content-Length` over stdin and stdout.
//! It follows documents as they are edited, says what it knows of the word under the cursor, and marks
//! tasks, doubled words, white space at line ends and long lines.
//!
//! ```console
//! cargo build -p duet-rpc --example language_server
//! emacs -Q --eval "(progn (require 'eglot) (add-to-list 'eglot-server-programs
//!   '(text-mode \"target/debug/examples/language_server\")))" notes.txt -f eglot
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `main` | the methods, and the life of a language server |
//! | `protocol` | what is sent and received |
//! | `document` | a text, its words, and positions in it |
//! | `checks` | what is found in a text |

mod checks;
mod document;
mod protocol;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duet_rpc::proto::message::ErrorObject;
use duet_rpc::{Context, Failure, Profile, Router, Server};
use serde_json::{Value, json};

use document::{Document, Encoding};
use protocol::{DidChange, DidClose, DidOpen, HoverAt, Initialize, VersionedDocument};

/// What the server knows of its client. The connection keeps it.
#[derive(Default)]
struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    phase: Phase,
    encoding: Encoding,
    likes_markdown: bool,
    documents: HashMap<String, Document>,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum Phase {
    #[default]
    New,
    Open,
    ShutDown,
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        // A handler that panicked has answered for itself; the others go on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for all that may only come between `initialize` and `shutdown`.
    fn open(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let state = self.state();
        match state.phase {
            Phase::Open => Ok(state),
            Phase::New => Err(Failure::new(-32002, "The server is not initialized")),
            Phase::ShutDown => Err(ErrorObject::invalid_request().into()),
        }
    }
}

async fn initialize(params: Initialize, cx: Context) -> Result<Value, Failure> {
    let session = cx.peer().extension::<Session>();
    let mut state = session.state();
    if state.phase != Phase::New {
        return Err(ErrorObject::invalid_request().into());
    }
    state.phase = Phase::Open;
    // UTF-8 is less work for both, where the editor counts so too. Every editor knows UTF-16.
    if params.offers("/general/positionEncodings").any(|encoding| encoding == "utf-8") {
        state.encoding = Encoding::Utf8;
    }
    // The first that we know is what the editor likes best.
    let mut formats = params.offers("/textDocument/hover/contentFormat");
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

async fn did_open(params: DidOpen, cx: Context) -> Result<(), Failure> {
    let opened = params.text_document;
    let document = Document::new(opened.text);
    cx.peer().extension::<Session>().open()?.documents.insert(opened.uri.clone(), document);
    publish(VersionedDocument { uri: opened.uri, version: opened.version }, &cx).await
}

async fn did_change(params: DidChange, cx: Context) -> Result<(), Failure> {
    let session = cx.peer().extension::<Session>();
    {
        let mut state = session.open()?;
        let encoding = state.encoding;
        let document = state.documents.get_mut(&params.text_document.uri);
        let document = document.ok_or_else(|| Failure::internal("the document is not open"))?;
        // Each change counts its positions in what the ones before it have left.
        for change in params.content_changes {
            match change.range {
                Some(range) => document.replace(range, &change.text, encoding),
                None => *document = Document::new(change.text),
            }
        }
    }
    publish(params.text_document, &cx).await
}

async fn did_close(params: DidClose, cx: Context) -> Result<(), Failure> {
    let uri = params.text_document.uri;
    cx.peer().extension::<Session>().open()?.documents.remove(&uri);
    // What is said of a document stays until something else is said.
    let nothing = json!({"uri": uri, "diagnostics": []});
    Ok(cx.peer().notify("textDocument/publishDiagnostics", nothing).await?)
}

/// Tells the editor what is found in a document now.
async fn publish(document: VersionedDocument, cx: &Context) -> Result<(), Failure> {
    let VersionedDocument { uri, version } = document;
    let found = {
        let session = cx.peer().extension::<Session>();
        let state = session.open()?;
        let encoding = state.encoding;
        state.documents.get(&uri).map(|document| checks::check(document, encoding))
    };
    let params = json!({"uri": uri, "version": version, "diagnostics": found.unwrap_or_default()});
    // It waits while the editor does not read, and then no further change is begun either.
    Ok(cx.peer().notify("textDocument/publishDiagnostics", params).await?)
}

async fn hover(params: HoverAt, cx: Context) -> Result<Option<Value>, Failure> {
    let session = cx.peer().extension::<Session>();
    let state = session.open()?;
    let Some(document) = state.documents.get(&params.text_document.uri) else { return Ok(None) };
    let Some(range) = document.word_at(params.position, state.encoding) else { return Ok(None) };
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
        // In a code span nothing of a word means anything else.
        true => ("markdown", format!("`{word}`")),
        false => ("plaintext", word.to_owned()),
    };
    let value = format!("{word}\n\n{characters}, {times} in this document");
    let range = document.range(range, state.encoding);
    Ok(Some(json!({"contents": {"kind": kind, "value": value}, "range": range})))
}

/// An editor says `shutdown` first, gets an answer, and then says `exit`: the server lives until then.
async fn shutdown(cx: Context) -> Result<(), Failure> {
    cx.peer().extension::<Session>().open()?.phase = Phase::ShutDown;
    Ok(())
}

fn main() -> ExitCode {
    let status = Arc::new(AtomicU8::new(0));
    let at_exit = Arc::clone(&status);
    let router = Router::new()
        .method("initialize", initialize)
        .method("initialized", async || ())
        .method("textDocument/didOpen", did_open)
        .method("textDocument/didChange", did_change)
        .method("textDocument/didClose", did_close)
        .method("textDocument/hover", hover)
        .method("shutdown", shutdown)
        // `exit` ends the process, not `shutdown`.
        .shutdown_method("exit", move |cx: Context| {
            let is_polite = cx.peer().extension::<Session>().state().phase == Phase::ShutDown;
            at_exit.store(u8::from(!is_polite), Ordering::Relaxed);
            async {}
        });
    // The editor profile handles one message after the other, so a hover sees every change before it.
    let ended = Server::new().profile(Profile::editor()).router(router).exit_with_parent().run();
    match ended {
        Ok(()) => ExitCode::from(status.load(Ordering::Relaxed)),
        Err(error) => {
            eprintln!("the language server ended: {error:#}");
            ExitCode::FAILURE
        }
    }
}
