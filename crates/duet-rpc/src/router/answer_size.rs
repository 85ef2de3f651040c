//! Answer size of a method: an estimate that decides when its next handler may begin.
//!
//! The size of an answer is unknown until the answer exists, so each method remembers the sizes of its answers.
//! Before the first answer, handlers of the method begin one at a time. If the last handler awaits or
//! [blocks](Beginning) its thread, the next one may begin, because the last one may be waiting for it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::sync::lock;

/// The interval in which a waiting handler checks whether the handler before it blocks its thread.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// The maximum time that a handler waits for a computing handler. Only Linux reports whether a thread computes; on
/// other systems the maximum is [`STEP`].
pub(crate) const LONGEST: Duration = Duration::from_secs(2);

/// The largest recent answer of a method. Each smaller answer lowers the estimate by at most an eighth.
pub(crate) struct AnswerSize {
    /// The size plus one; 0 if no size is known.
    plus_one: AtomicUsize,
    /// The queue of the method's handlers, until a size is known.
    pub(crate) queue: Semaphore,
    /// The last handler that began, and whose answer will show the size.
    last: Mutex<Option<Beginning>>,
}

impl Default for AnswerSize {
    fn default() -> Self {
        let (plus_one, last) = (AtomicUsize::new(0), Mutex::new(None));
        AnswerSize { plus_one, queue: Semaphore::new(1), last }
    }
}

impl AnswerSize {
    /// Returns `true` once the size of an answer is known.
    pub(crate) fn is_known(&self) -> bool {
        self.plus_one.load(Ordering::Relaxed) > 0
    }

    /// The estimated size of the next answer.
    pub(crate) fn estimate(&self) -> usize {
        self.plus_one.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Records the size of an answer.
    pub(crate) fn record(&self, bytes: usize) {
        let before = self.estimate();
        let after = bytes.max(before - before / 8);
        if after != before || !self.is_known() {
            self.plus_one.store(after.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Lets one handler at a time begin. Fails with the time of the next attempt.
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

/// The beginning of a handler: its time and its thread. The handler may keep the thread because it computes a large
/// answer, or because it blocks.
pub(crate) struct Beginning {
    at: Instant,
    /// The file with the state of the thread, on Linux.
    state: Option<PathBuf>,
}

impl Beginning {
    /// A handler that begins now, on this thread.
    pub(crate) fn here(now: Instant) -> Self {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let state = thread.map(|thread| Path::new("/proc").join(thread).join("stat"));
        Beginning { at: now, state }
    }

    /// Returns `true` if the thread computes or waits for memory.
    fn computes(&self) -> bool {
        let stat = self.state.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        // The state follows the name of the thread, which is in parentheses.
        let state =
            stat.as_ref().and_then(|stat| stat.rsplit(')').next()?.trim_start().chars().next());
        matches!(state, Some('R' | 'D'))
    }
}

/// Fails while the last handler computes, with the time of the next check.
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
