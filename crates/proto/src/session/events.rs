//! Event queue: a bounded stream of events for a remote that may read too slowly (P9).
//!
//! A slow remote gets fewer events, and the number of dropped ones. The queue is bounded in events
//! and in bytes; over a bound, the oldest events of low priority are dropped first.
//!
//! Events leave in the order of their sequence, so a gap between two sequence numbers is the
//! number of dropped events. The first event after the gap carries that number.

use std::collections::VecDeque;

/// Priority when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Dropped before any event of high priority, oldest first.
    Low,
    /// Dropped only when no event of low priority is left.
    High,
}

/// An event taken from the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEvent<T> {
    /// The number of the event in its stream, counting dropped events.
    pub sequence: u64,
    /// The number of events dropped between the event taken before and this one.
    pub dropped: u64,
    /// The content.
    pub data: T,
}

/// A bounded queue of events.
///
/// ```
/// use duet_rpc_proto::session::{EventQueue, Priority};
///
/// let mut queue = EventQueue::new(2, 1000);
/// for word in ["one", "two", "three"] {
///     queue.push(Priority::Low, word, word.len());
/// }
/// let event = queue.pop().expect("two are left");
/// assert_eq!((event.sequence, event.dropped, event.data), (2, 1, "two"));
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue<T> {
    low: VecDeque<WaitingEvent<T>>,
    high: VecDeque<WaitingEvent<T>>,
    bytes: usize,
    most_events: usize,
    most_bytes: usize,
    last_sequence: u64,
    /// The sequence of the last event taken.
    last_taken: u64,
    dropped_in_all: u64,
}

#[derive(Clone, Debug)]
struct WaitingEvent<T> {
    sequence: u64,
    bytes: usize,
    data: T,
}

impl<T> EventQueue<T> {
    /// An empty queue with these bounds.
    pub fn new(most_events: usize, most_bytes: usize) -> Self {
        EventQueue {
            low: VecDeque::new(),
            high: VecDeque::new(),
            bytes: 0,
            most_events,
            most_bytes,
            last_sequence: 0,
            last_taken: 0,
            dropped_in_all: 0,
        }
    }

    /// Adds an event of this size. If there is no room, drops others or the event itself.
    pub fn push(&mut self, priority: Priority, data: T, bytes: usize) {
        self.last_sequence += 1;
        // An event that never fits must not displace others.
        if bytes > self.most_bytes {
            self.dropped_in_all += 1;
            return;
        }
        let waiting = WaitingEvent { sequence: self.last_sequence, bytes, data };
        self.bytes = self.bytes.saturating_add(bytes);
        match priority {
            Priority::Low => self.low.push_back(waiting),
            Priority::High => self.high.push_back(waiting),
        }
        self.drop_excess();
    }

    /// Sets new bounds, and drops the events beyond them.
    pub fn set_bounds(&mut self, most_events: usize, most_bytes: usize) {
        (self.most_events, self.most_bytes) = (most_events, most_bytes);
        self.drop_excess();
    }

    fn drop_excess(&mut self) {
        while self.len() > self.most_events || self.bytes > self.most_bytes {
            let Some(gone) = self.low.pop_front().or_else(|| self.high.pop_front()) else { break };
            self.bytes = self.bytes.saturating_sub(gone.bytes);
            self.dropped_in_all += 1;
        }
    }

    /// Takes the oldest event.
    pub fn pop(&mut self) -> Option<QueuedEvent<T>> {
        let is_low = match (self.low.front(), self.high.front()) {
            (Some(low), Some(high)) => low.sequence < high.sequence,
            (low, _) => low.is_some(),
        };
        let waiting = if is_low { self.low.pop_front() } else { self.high.pop_front() }?;
        self.bytes = self.bytes.saturating_sub(waiting.bytes);
        let sequence = waiting.sequence;
        let before = std::mem::replace(&mut self.last_taken, sequence);
        Some(QueuedEvent { sequence, dropped: sequence - before - 1, data: waiting.data })
    }

    /// The total size of the waiting events.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of waiting events.
    pub fn len(&self) -> usize {
        self.low.len() + self.high.len()
    }

    /// True if no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of events dropped since the beginning.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped_in_all
    }
}
