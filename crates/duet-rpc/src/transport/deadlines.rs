//! CallDeadlines of the calls among the messages of an outbox. Most messages have none.

use std::collections::VecDeque;
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct CallDeadlines {
    /// Each with the number of its message.
    waiting: VecDeque<(u64, Instant)>,
    /// The number of messages that have left.
    popped: u64,
}

impl CallDeadlines {
    /// Adds the deadline of a message, behind this many others.
    pub(super) fn push(&mut self, before: usize, deadline: Instant) {
        self.waiting.push_back((self.popped + before as u64, deadline));
    }

    /// The deadline of the message that has waited longest.
    pub(super) fn first(&self) -> Option<Instant> {
        self.waiting.front().filter(|(number, _)| *number == self.popped).map(|(_, at)| *at)
    }

    /// Counts a message that leaves.
    pub(super) fn pop(&mut self) {
        if self.first().is_some() {
            self.waiting.pop_front();
        }
        self.popped += 1;
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
