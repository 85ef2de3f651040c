//! Event queue: a stream of events that a remote may be too slow for (P9).
//!
//! Events are news: who is too slow gets fewer, and is told how many were left out. So the queue
//! has a bound in events and in bytes, and past it the oldest events of low priority go first.
//!
//! Events are taken in the order of their sequence, so what is missing between two of them was
//! dropped: the gap itself is the count, and it stands in the first event behind the gap.

use std::collections::VecDeque;

/// What goes first when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Goes before any of high priority, oldest first.
    Low,
    /// Goes only when none of low priority is left.
    High,
}

/// An event on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedEvent<T> {
    /// Counts all events of the stream, those that were dropped too.
    pub sequence: u64,
    /// How many were dropped between the event that was taken before and this one.
    pub dropped: u64,
    /// What it says.
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
    /// The sequence of the event that was taken last.
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

    /// Adds an event of this size, and drops others, or itself, if there is no room.
    pub fn push(&mut self, priority: Priority, data: T, bytes: usize) {
        self.last_sequence += 1;
        // For one that never fits, no other needs to go.
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

    /// Sets other bounds, and drops what is beyond them.
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

    /// The size of all that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.low.len() + self.high.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were dropped since the beginning.
    pub fn dropped_in_all(&self) -> u64 {
        self.dropped_in_all
    }
}
