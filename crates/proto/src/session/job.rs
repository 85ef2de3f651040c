//! Job: an incoming message that is to be answered or parked.

use super::BatchKey;
use crate::message::{Id, IdRef};

/// Tells one incoming message of a session from another; later ones have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) u64);

/// A message whose handler is to run. It must be given back to the session: answered, or parked. It borrows
/// the id from the message, so a handler that is ready immediately costs no copy of it.
#[derive(Debug)]
#[must_use = "a job that is not given back is never answered"]
pub struct Job<'m> {
    pub(super) key: Key,
    pub(super) id: Option<IdRef<'m>>,
    pub(super) lane: Option<u64>,
    pub(super) batch: Option<BatchKey>,
}

impl<'m> Job<'m> {
    /// Its key.
    #[inline]
    pub fn key(&self) -> Key {
        self.key
    }

    /// The id to answer with; `None` for a notification.
    #[inline]
    pub fn id(&self) -> Option<IdRef<'m>> {
        self.id
    }

    /// Whether its answer is a part of the answer to a batch.
    pub fn is_in_batch(&self) -> bool {
        self.batch.is_some()
    }

    pub(super) fn to_owned(&self) -> OwnedJob {
        let Job { key, lane, batch, .. } = *self;
        OwnedJob { key, id: self.id.map(IdRef::to_id), lane, batch }
    }
}

/// A job that outlives its frame: its message waits for its turn, or its handler does.
#[derive(Clone, Debug)]
pub struct OwnedJob {
    pub(super) key: Key,
    pub(super) id: Option<Id>,
    pub(super) lane: Option<u64>,
    pub(super) batch: Option<BatchKey>,
}

impl OwnedJob {
    /// The same job, to be answered or parked.
    pub fn borrow(&self) -> Job<'_> {
        let OwnedJob { key, lane, batch, .. } = *self;
        Job { key, id: self.id.as_ref().map(IdRef::from), lane, batch }
    }

    /// The id to answer with; `None` for a notification.
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    pub(super) fn into_id(self) -> Option<Id> {
        self.id
    }

    pub(super) fn key(&self) -> Key {
        self.key
    }

    pub(super) fn batch(&self) -> Option<BatchKey> {
        self.batch
    }
}
