//! Batches: the answers to one array leave as one array, once all of them are there (M6).
//!
//! A batch that arrived before the connection began to close is answered in full: requests that do
//! not start are answered with an error. A later batch gets no answer, like any other message then
//! (L4).
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

/// Distinguishes the batches of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchKey(u64);

#[derive(Debug, Default)]
pub(super) struct Batches {
    open: HashMap<BatchKey, OpenBatch>,
    last_key: u64,
    /// The total size of the answers in all batches.
    bytes: usize,
}

#[derive(Debug)]
struct OpenBatch {
    /// The answers so far: a JSON array without its closing bracket.
    text: Vec<u8>,
    /// The number of unanswered requests.
    unanswered: usize,
    /// True while entries of the batch are still to be handled.
    is_arriving: bool,
    /// True if the batch arrived before the connection began to close.
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

    /// True if every request of the batch must be answered.
    pub(super) fn is_in_time(&self, key: BatchKey) -> bool {
        self.open.get(&key).is_some_and(|batch| batch.is_in_time)
    }

    /// Counts one more answer to come.
    pub(super) fn expect(&mut self, key: BatchKey) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.unanswered += 1;
        }
    }

    /// The total size of answers that wait for the rest of their batches. A batch may be
    /// large, and there may be many batches.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an answer. If writing it fails or panics, nothing is added.
    pub(super) fn add<E>(
        &mut self,
        key: BatchKey,
        answer: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(batch) = self.open.get_mut(&key) else { return Ok(()) };
        // Write into a separate buffer, because a half-written answer must not stay.
        let mut text = Vec::new();
        answer(&mut text)?;
        self.bytes += text.len() + 1;
        batch.text.push(if batch.text.is_empty() { b'[' } else { b',' });
        batch.text.append(&mut text);
        Ok(())
    }

    /// Counts an expected answer as done, whether it came or not.
    pub(super) fn settle(&mut self, key: BatchKey, out: &mut impl Sink) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.unanswered = batch.unanswered.saturating_sub(1);
        }
        self.send_if_whole(key, out);
    }

    /// Marks all entries as handled.
    pub(super) fn end(&mut self, key: BatchKey, out: &mut impl Sink) {
        if let Some(batch) = self.open.get_mut(&key) {
            batch.is_arriving = false;
        }
        self.send_if_whole(key, out);
    }

    /// Sends the answers so far of all unfinished batches.
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

    /// Sends the answers so far, and removes the batch.
    fn send(&mut self, key: BatchKey, out: &mut impl Sink) {
        let Some(mut batch) = self.open.remove(&key) else { return };
        self.bytes -= batch.text.len();
        // A batch of only notifications and responses gets no answer.
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
