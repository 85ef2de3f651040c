//! Batches: the answers to one array leave as one array, when all of them are there (M6).
//!
//! A batch that came before the connection began to close is answered in full: requests that are
//! not begun any more are answered with an error. A batch that comes later is not answered, as
//! no other message is then (L4).
//!
//! ```text
//!             all entries handled          last answer
//!   arriving ────────────────────▶ waiting ───────────▶ sent as one array, if there is any answer
//!                                     │ out of time
//!                                     └───────────────▶ sent with the answers that it has
//! ```

use std::collections::HashMap;
use std::convert::Infallible;

use super::Sink;

/// Tells one batch of a session from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey(u64);

#[derive(Debug, Default)]
pub(super) struct Batches {
    open: HashMap<BatchKey, OpenBatch>,
    last_key: u64,
    /// How many bytes of answers all of them hold.
    bytes: usize,
}

#[derive(Debug)]
struct OpenBatch {
    /// The answers so far: an array that is not closed yet.
    text: Vec<u8>,
    /// How many requests are not answered.
    unanswered: usize,
    /// Whether entries of the batch are still to be looked at.
    is_arriving: bool,
    /// Whether it came before the connection began to close.
    is_in_time: bool,
}

impl Batches {
    pub(super) fn begin(&mut self, is_in_time: bool) -> BatchKey {
        self.last_key += 1;
        let key = BatchKey(self.last_key);
        let (text, unanswered, is_arriving) = (Vec::new(), 0, true);
        self.open.insert(key, OpenBatch { text, unanswered, is_arriving, is_in_time });
        key
    }

    /// Whether every request of it is to be answered.
    pub(super) fn is_in_time(&self, key: BatchKey) -> bool {
        self.open.get(&key).is_some_and(|batch| batch.is_in_time)
    }

    /// Another answer will come.
    pub(super) fn expect(&mut self, key: BatchKey) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.unanswered += 1;
        }
    }

    /// How many bytes of answers wait for the rest of their batches, in all: one batch may be
    /// large, and there may be many.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an answer; one that fails or panics adds nothing.
    pub(super) fn add<E>(
        &mut self,
        key: BatchKey,
        answer: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(batch) = self.open.get_mut(&key) else { return Ok(()) };
        // The answer is written elsewhere first, as what is half written must not stay.
        let mut text = Vec::new();
        answer(&mut text)?;
        self.bytes += text.len() + 1;
        batch.text.push(if batch.text.is_empty() { b'[' } else { b',' });
        batch.text.append(&mut text);
        Ok(())
    }

    /// An answer that was expected has come, or never will.
    pub(super) fn settle(&mut self, key: BatchKey, out: &mut impl Sink) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.unanswered = batch.unanswered.saturating_sub(1);
        }
        self.send_if_whole(key, out);
    }

    /// All entries have been looked at.
    pub(super) fn end(&mut self, key: BatchKey, out: &mut impl Sink) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.is_arriving = false;
        }
        self.send_if_whole(key, out);
    }

    /// Sends the answers of batches that will not be done in time.
    pub(super) fn give_up(&mut self, out: &mut impl Sink) {
        let mut keys: Vec<_> = self.open.keys().copied().collect();
        keys.sort_unstable_by_key(|key| key.0);
        for key in keys {
            self.send(key, out);
        }
    }

    fn send_if_whole(&mut self, key: BatchKey, out: &mut impl Sink) {
        let is_whole = |batch: &OpenBatch| batch.unanswered == 0 && !batch.is_arriving;
        if self.open.get(&key).is_some_and(is_whole) {
            self.send(key, out);
        }
    }

    /// Sends the answers that there are, and forgets the batch.
    fn send(&mut self, key: BatchKey, out: &mut impl Sink) {
        let Some(mut batch) = self.open.remove(&key) else { return };
        self.bytes -= batch.text.len();
        // One that holds only notifications and responses is not answered at all.
        if !batch.text.is_empty() {
            batch.text.push(b']');
            let Ok(()) = out.send(|out| {
                out.extend_from_slice(&batch.text);
                Ok::<_, Infallible>(())
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
