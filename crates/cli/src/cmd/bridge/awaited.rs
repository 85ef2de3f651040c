//! Requests of a client that its server has not answered: they get an error if the server ends.

use std::collections::HashSet;

use duet_rpc::proto::message::{ErrorObject, Id};
use duet_rpc::proto::text::{Kind, Member, Text};

use super::routes::error_answer;

/// The number of requests whose answers are awaited, and the size of their ids.
const MOST_AWAITED: usize = 65_536;
const MOST_AWAITED_BYTES: usize = 1024 * 1024;

/// Requests without an answer. Beyond the limits, further ones are not noted.
#[derive(Default)]
pub(super) struct Awaited {
    ids: HashSet<Id>,
    bytes: usize,
}

impl Awaited {
    /// This error as the answer to each request.
    pub(super) fn errors(&self, error: &ErrorObject) -> Vec<Vec<u8>> {
        self.ids.iter().map(|id| error_answer(id, error)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Notes the requests of a message.
    pub(super) fn note_request(&mut self, text: &Text<'_>) {
        if text.kind() == Kind::Array {
            text.elements().for_each(|entry| self.note_request(&entry));
        } else if text.member(Member::Method).is_some()
            && self.ids.len() < MOST_AWAITED
            && let Some(raw) = text.member(Member::Id)
            && self.bytes + raw.len() <= MOST_AWAITED_BYTES
            && let Some(id) = Id::from_raw(raw)
        {
            let size = id.as_raw().len();
            self.bytes += if self.ids.insert(id) { size } else { 0 };
        }
    }

    /// Notes the answers of a message.
    pub(super) fn note_answer(&mut self, text: &Text<'_>) {
        if self.is_empty() {
            return;
        }
        if text.kind() == Kind::Array {
            text.elements().for_each(|entry| self.note_answer(&entry));
        } else if text.member(Member::Method).is_none()
            && let Some(id) = text.member(Member::Id).and_then(Id::from_raw)
        {
            self.remove(&id);
        }
    }

    pub(super) fn remove(&mut self, id: &Id) {
        // The same id may be written otherwise.
        if let Some(id) = self.ids.take(id) {
            self.bytes -= id.as_raw().len();
        }
    }
}
