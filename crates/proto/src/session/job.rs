//! Job: an incoming message whose handler is to run.

use super::BatchKey;
use crate::message::{Id, IdRef};

/// Distinguishes the incoming messages of a session. Later messages have greater keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) u64);

/// A message whose handler is to run. Give it back to the session: answer or park it. It borrows
/// the id from the message, so a handler that is ready immediately needs no copy.
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

    /// True if its answer belongs to a batch.
    pub fn is_in_batch(&self) -> bool {
        self.batch.is_some()
    }

    pub(super) fn to_owned(&self) -> OwnedJob {
        let Job { key, lane, batch, .. } = *self;
        OwnedJob { key, id: self.id.map(IdRef::to_id), lane, batch }
    }
}

/// A job that outlives its frame, because its message or its handler waits.
#[derive(Clone, Debug)]
pub struct OwnedJob {
    pub(super) key: Key,
    pub(super) id: Option<Id>,
    pub(super) lane: Option<u64>,
    pub(super) batch: Option<BatchKey>,
}

impl OwnedJob {
    /// This job, to answer or park it.
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
