//! The state of the server between two messages.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    pub(crate) documents: HashMap<String, Document>,
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

    /// The state, for `initialize`, which comes once.
    pub(crate) fn begin(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let mut state = self.state();
        if state.phase != Phase::New {
            return Err(ErrorObject::invalid_request().into());
        }
        state.phase = Phase::Open;
        Ok(state)
    }

    /// The state, for everything between `initialize` and `shutdown`.
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, State>, Failure> {
        let state = self.state();
        match state.phase {
            Phase::Open => Ok(state),
            Phase::New => Err(Failure::new(-32002, "The server is not initialized")),
            Phase::ShutDown => Err(ErrorObject::invalid_request().into()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A handler that panicked was answered with an error. The others go on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
