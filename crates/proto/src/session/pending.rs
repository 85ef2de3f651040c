//! The calls that wait for an answer (M7).

use std::collections::HashMap;

use crate::message::{Id, Response};
use crate::notice::Notice;

/// Pending calls by their id, each with what is to be told of its answer.
#[derive(Clone, Debug)]
pub struct Pending<T> {
    calls: HashMap<u64, T>,
    last_id: u64,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { calls: HashMap::new(), last_id: 0 }
    }
}

impl<T> Pending<T> {
    /// Begins a call, and returns the id to send it with.
    pub fn begin(&mut self, call: T) -> Id {
        self.last_id += 1;
        self.calls.insert(self.last_id, call);
        Id::from(self.last_id)
    }

    /// Finds the call that a response answers, and ends it. A response that answers none is to be
    /// logged and dropped; it is never answered.
    pub fn settle(&mut self, response: &Response<'_>) -> Result<T, Notice> {
        self.end(&response.id).ok_or(Notice::UnmatchedResponse)
    }

    /// Ends a call that will not be answered: it timed out, or its caller is gone.
    pub fn end(&mut self, id: &Id) -> Option<T> {
        self.calls.remove(&id.as_u64()?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}
