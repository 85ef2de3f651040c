//! The size of a method's answers, which decides when its next handler may begin.
//!
//! The size of an answer is known only when it is there, so each method remembers how large its answers were.
//! Until the first answer is there, handlers of the method begin one at a time, unless the last one awaits or
//! [blocks](Beginning) its thread: it may be waiting for the handlers behind it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::sync::lock;

/// The time after which a handler checks whether the one before it blocks its thread.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// The longest time that a handler waits for one that computes. Systems other than Linux do not tell whether
/// a thread computes; there it waits for [`STEP`].
pub(crate) const LONGEST: Duration = Duration::from_secs(2);

/// The size of a method's answers: the largest of late. It forgets one that was unusually large by an eighth
/// at a time.
pub(crate) struct AnswerSize {
    /// One more than the size; 0 if nothing is known.
    plus_one: AtomicUsize,
    /// The queue of the method's handlers until the size is known.
    pub(crate) queue: Semaphore,
    /// The last handler that began and is to show it.
    last: Mutex<Option<Beginning>>,
}

impl Default for AnswerSize {
    fn default() -> Self {
        let (plus_one, last) = (AtomicUsize::new(0), Mutex::new(None));
        AnswerSize { plus_one, queue: Semaphore::new(1), last }
    }
}

impl AnswerSize {
    /// Returns `true` once an answer of the method is known.
    pub(crate) fn is_known(&self) -> bool {
        self.plus_one.load(Ordering::Relaxed) > 0
    }

    /// The size to expect.
    pub(crate) fn estimate(&self) -> usize {
        self.plus_one.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Takes in the size of an answer.
    pub(crate) fn record(&self, bytes: usize) {
        let before = self.estimate();
        let after = bytes.max(before - before / 8);
        if after != before || !self.is_known() {
            self.plus_one.store(after.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Lets one handler at a time show the size, or returns when the next may try.
    pub(crate) fn claim(&self, now: Instant) -> Result<(), Option<Instant>> {
        let mut last = lock(&self.last);
        wait_for(last.as_ref(), now)?;
        *last = Some(Beginning::here(now));
        Ok(())
    }

    pub(crate) fn release(&self) {
        *lock(&self.last) = None;
    }
}

/// The beginning of a handler, on a thread that it may hold because it computes a large answer or blocks.
pub(crate) struct Beginning {
    at: Instant,
    /// The file in which the system shows the state of the thread.
    state: Option<PathBuf>,
}

impl Beginning {
    /// A handler that begins now, on this thread.
    pub(crate) fn here(now: Instant) -> Self {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let state = thread.map(|thread| Path::new("/proc").join(thread).join("stat"));
        Beginning { at: now, state }
    }

    /// Returns `true` if the thread computes, or waits for memory.
    fn computes(&self) -> bool {
        let stat = self.state.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        // The state stands behind the name of the thread, which is in brackets.
        let state =
            stat.as_ref().and_then(|stat| stat.rsplit(')').next()?.trim_start().chars().next());
        matches!(state, Some('R' | 'D'))
    }
}

/// Fails while a handler that began before computes, and returns when to check again.
pub(crate) fn wait_for(last: Option<&Beginning>, now: Instant) -> Result<(), Option<Instant>> {
    let Some(last) = last else { return Ok(()) };
    match now.saturating_duration_since(last.at) {
        young if young < STEP => Err(Some(last.at + STEP)),
        old if old < LONGEST && last.computes() => Err(Some(now + STEP)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "answer_size_tests.rs"]
mod tests;
