//! The largest messages that were sent, to find the message that a remote refused as too large without naming its
//! id.
//!
//! If a remote refused *n* messages, at least the *n* largest messages are too large. So each refusal is matched to
//! the largest message that has no refusal yet.

use duet_rpc_proto::message::Id;

/// The number of messages that are remembered.
const MOST: usize = 8;

/// The largest messages so far. Before the first call, only the size of the largest message is kept.
#[derive(Default)]
pub(super) struct Largest {
    /// A message up to this size is not remembered.
    floor: usize,
    has_calls: bool,
    /// The size of each message with its frame, and its id if it is a call. The newest is the last.
    messages: Vec<(usize, Option<Id>)>,
    /// The number of messages that were remembered since the beginning.
    remembered: u64,
}

impl Largest {
    /// Notes that a message of this size is sent.
    #[inline]
    pub(super) fn note(&mut self, size: usize) {
        if size > self.floor {
            self.remember(size);
        }
    }

    #[cold]
    fn remember(&mut self, size: usize) {
        if !self.has_calls {
            self.floor = size;
            return;
        }
        self.messages.push((size, None));
        self.remembered += 1;
        if self.messages.len() > MOST
            && let Some(least) = (0..=MOST).min_by_key(|&at| self.messages[at].0)
        {
            self.floor = self.messages.remove(least).0;
            // The removed message may be the newest itself.
            self.remembered -= u64::from(least == MOST);
        }
    }

    /// Begins to remember single messages, because the next one is a call. Give the result to
    /// [`name`](Largest::name) when the call was sent.
    pub(super) fn before_call(&mut self) -> u64 {
        self.has_calls = true;
        self.remembered
    }

    /// Notes that the message since [`before_call`](Largest::before_call) was this call.
    #[inline]
    pub(super) fn name(&mut self, before: u64, id: &Id) {
        if self.remembered > before
            && let Some((_, call)) = self.messages.last_mut()
        {
            *call = Some(id.clone());
        }
    }

    /// Forgets the largest message; returns its id if it is a call.
    pub(super) fn take(&mut self) -> Option<Id> {
        let largest = (0..self.messages.len()).max_by_key(|&at| self.messages[at].0)?;
        self.messages.remove(largest).1
    }
}

#[cfg(test)]
mod tests {
    use duet_rpc_proto::message::Id;

    use super::{Largest, MOST};

    fn call(largest: &mut Largest, size: usize) {
        let before = largest.before_call();
        largest.note(size);
        largest.name(before, &Id::from(size as u64));
    }

    fn all(mut largest: Largest) -> Vec<Option<u64>> {
        let count = largest.messages.len();
        let number = |id: Id| id.as_raw().parse().expect("a number");
        (0..count).map(|_| largest.take().map(number)).collect()
    }

    #[test]
    fn m5_each_refusal_is_matched_to_the_next_largest_message() {
        let mut largest = Largest::default();
        // Before the first call only the largest counts.
        [30, 10].into_iter().for_each(|size| largest.note(size));
        [20, 50, 40].into_iter().for_each(|size| call(&mut largest, size));
        largest.note(45);
        assert_eq!(all(largest), [Some(50), None, Some(40)]);
    }

    #[test]
    fn p9_only_the_largest_messages_are_remembered() {
        for sizes in [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]] {
            let mut largest = Largest::default();
            sizes.into_iter().for_each(|size| call(&mut largest, size));
            assert_eq!(largest.messages.len(), MOST);
            assert_eq!(all(largest), [10, 9, 8, 7, 6, 5, 4, 3].map(Some));
        }
    }
}
