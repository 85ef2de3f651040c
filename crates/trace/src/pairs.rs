//! Requests that wait for their answer, so that an answer can name its request.
//!
//! Each direction has its own ids. The table is bounded: when it is full, the oldest request is
//! dropped, and its answer is recorded without `of`.

use std::collections::hash_map::Entry;
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
    waiting: HashMap<Id, Waiting>,
    count: usize,
    /// In order of arrival. An entry may be of a request that is answered.
    order: VecDeque<(u64, Id)>,
}

/// The requests with one id, oldest first. A second one is a fault of its sender.
#[derive(Debug)]
struct Waiting {
    first: Asked,
    others: VecDeque<Asked>,
}

impl Pairs {
    /// Adds a request. The answers to requests with the same id come in their order (R2).
    pub(crate) fn ask(&mut self, id: Id, asked: Asked) {
        self.order.push_back((asked.seq, id.clone()));
        match self.waiting.entry(id) {
            Entry::Occupied(mut same) => same.get_mut().others.push_back(asked),
            Entry::Vacant(none) => {
                none.insert(Waiting { first: asked, others: VecDeque::new() });
            }
        }
        self.count += 1;
        while self.count > MOST_WAITING {
            let Some((seq, id)) = self.order.pop_front() else { break };
            if self.is_waiting(seq, &id) {
                self.answer(&id);
            }
        }
        // Forget answered requests, so that the order stays as long as the table.
        if self.order.len() > 2 * self.count + 16 {
            let order = std::mem::take(&mut self.order);
            self.order = order.into_iter().filter(|(seq, id)| self.is_waiting(*seq, id)).collect();
        }
    }

    /// Takes the request that a message with this id answers.
    pub(crate) fn answer(&mut self, id: &Id) -> Option<Asked> {
        let same = self.waiting.get_mut(id)?;
        self.count -= 1;
        match same.others.pop_front() {
            Some(next) => Some(std::mem::replace(&mut same.first, next)),
            None => self.waiting.remove(id).map(|same| same.first),
        }
    }

    /// The requests with an id leave in their order, so this one waits unless it is before the first.
    fn is_waiting(&self, seq: u64, id: &Id) -> bool {
        self.waiting.get(id).is_some_and(|same| same.first.seq <= seq)
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
        for seq in most + 1..4 * most {
            pairs.ask(Id::from("same"), asked(seq));
            assert!(pairs.order.len() <= 4 * MOST_WAITING);
            assert!(pairs.count <= MOST_WAITING);
        }
        assert_eq!(pairs.answer(&Id::from("same")), Some(asked(3 * most)));
    }

    #[test]
    fn r2_answer_belongs_to_the_oldest_request_with_its_id() {
        let mut pairs = Pairs::default();
        for (seq, id) in [(1, "7"), (2, "7"), (3, "\"7\""), (4, "7.0"), (5, "7")] {
            pairs.ask(Id::from_raw(id).expect("an id"), asked(seq));
        }
        for (id, expect) in [
            ("7", Some(1)),
            ("7", Some(2)),
            ("\"\\u0037\"", Some(3)),
            ("7.0", Some(4)),
            ("7", Some(5)),
            ("7", None),
        ] {
            let id = Id::from_raw(id).expect("an id");
            assert_eq!(pairs.answer(&id), expect.map(asked), "{id}");
        }
        assert_eq!(pairs.count, 0);
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
