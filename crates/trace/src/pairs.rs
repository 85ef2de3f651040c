//! Requests that wait for their answer, so that an answer can name its request.
//!
//! Each direction has its own ids. The table is bounded: when it is full, the oldest request is
//! dropped, and its answer is recorded without `of`.

use std::collections::{HashMap, VecDeque};

use duet_rpc_proto::message::Id;

/// Maximum number of requests that wait, in one direction.
const MOST_WAITING: usize = 64 * 1024;

/// A longer method is kept without its end.
const LONGEST_METHOD: usize = 256;

/// A request that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) method: String,
}

/// The waiting requests of one direction.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    waiting: HashMap<Id, Asked>,
    /// In order of arrival. An entry may be of a request that is answered.
    order: VecDeque<(u64, Id)>,
}

impl Pairs {
    /// Adds a request. A later request with the same id replaces an earlier one.
    pub(crate) fn ask(&mut self, id: Id, asked: Asked) {
        self.order.push_back((asked.seq, id.clone()));
        self.waiting.insert(id, asked);
        while self.waiting.len() > MOST_WAITING {
            let Some((seq, id)) = self.order.pop_front() else { break };
            if self.waiting.get(&id).is_some_and(|asked| asked.seq == seq) {
                self.waiting.remove(&id);
            }
        }
        // Forget answered requests, so that the order stays as long as the table.
        if self.order.len() > 2 * self.waiting.len() + 16 {
            let waiting = &self.waiting;
            self.order.retain(|(seq, id)| waiting.get(id).is_some_and(|asked| asked.seq == *seq));
        }
    }

    /// Takes the request that a message with this id answers.
    pub(crate) fn answer(&mut self, id: &Id) -> Option<Asked> {
        self.waiting.remove(id)
    }
}

/// The part of a method that a record shows beside the message.
pub(crate) fn short(method: &str) -> &str {
    let end =
        (0..=LONGEST_METHOD.min(method.len())).rev().find(|&end| method.is_char_boundary(end));
    &method[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(seq: u64) -> Asked {
        Asked { seq, at: seq, method: String::new() }
    }

    #[test]
    fn w3_waiting_requests_are_bounded_and_the_oldest_goes_first() {
        let mut pairs = Pairs::default();
        let most = MOST_WAITING as u64;
        for seq in 0..=most {
            pairs.ask(Id::from(seq), asked(seq));
        }
        assert_eq!(pairs.answer(&Id::from(0)), None);
        assert_eq!(pairs.answer(&Id::from(1)), Some(asked(1)));
        assert_eq!(pairs.answer(&Id::from(1)), None, "answered twice");
        for seq in 0..4 * most {
            pairs.ask(Id::from("same"), asked(seq));
            assert!(pairs.order.len() <= 4 * MOST_WAITING);
        }
        assert_eq!(pairs.answer(&Id::from("same")), Some(asked(4 * most - 1)));
    }

    #[test]
    fn long_methods_are_cut_between_characters() {
        let long = "ü".repeat(LONGEST_METHOD);
        for (method, length) in [("", 0), ("a", 1), (&long, LONGEST_METHOD), (&long[..4], 4)] {
            assert_eq!(short(method).len(), length);
        }
        assert_eq!(short(&format!("a{long}")).len(), LONGEST_METHOD - 1);
    }
}
