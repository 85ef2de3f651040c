//! Session: the state of the server between two messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duet_rpc::Failure;
use duet_rpc::proto::message::ErrorObject;

use crate::document::{Document, Encoding};

#[derive(Default)]
pub(crate) struct Session(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) encoding: Encoding,
    pub(crate) likes_markdown: bool,
    /// The open documents, shared with running requests. A change copies a document that a request still reads.
    pub(crate) documents: HashMap<String, Arc<Document>>,
}

/// A document at the time of a request, and the settings for the answer.
pub(crate) struct Snapshot {
    pub(crate) document: Arc<Document>,
    pub(crate) encoding: Encoding,
    pub(crate) likes_markdown: bool,
}

#[derive(Default, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    #[default]
    New,
    Open,
    ShutDown,
}

impl Session {
    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// The state for `initialize`, which an editor sends once.
    pub(crate) fn begin(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let mut state = self.state();
        if state.phase != Phase::New {
            return Err(ErrorObject::invalid_request().into());
        }
        state.phase = Phase::Open;
        Ok(state)
    }

    /// The state for all messages between `initialize` and `shutdown`.
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let state = self.state();
        match state.phase {
            Phase::Open => Ok(state),
            Phase::New => Err(Failure::new(-32002, "The server is not initialized")),
            Phase::ShutDown => Err(ErrorObject::invalid_request().into()),
        }
    }

    /// The document in its current version; `None` if it is not open.
    pub(crate) fn snapshot(&self, uri: &str) -> Result<Option<Snapshot>, Failure> {
        let state = self.open()?;
        let State { encoding, likes_markdown, .. } = *state;
        let document = state.documents.get(uri).cloned();
        Ok(document.map(|document| Snapshot { document, encoding, likes_markdown }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic in one handler, the others continue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
