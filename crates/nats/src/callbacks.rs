//! Requests of workers to this caller (N6): their ids, which are unique only for their worker.
//!
//! A caller has many workers, and each numbers its requests by itself. So each request gets an id of our own, and its
//! answer gets the old id back. Only ids in this table are answered, and only to the subject that the worker named: the
//! answer may come from a client behind a gateway, which must not choose a subject.

use std::collections::HashMap;

use async_nats::Subject;
use duet_rpc::Id;

/// Maximum number of requests of workers without an answer.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    last: u64,
    open: HashMap<Id, (Subject, Id)>,
}

impl Callbacks {
    /// The id for a request of the worker at this subject; `None` if there are too many.
    pub(crate) fn begin(&mut self, worker: Subject, id: Id) -> Option<Id> {
        if self.open.len() >= MOST {
            return None;
        }
        self.last += 1;
        let own = Id::from(self.last);
        self.open.insert(own.clone(), (worker, id));
        Some(own)
    }

    /// Ends a request: returns its worker, and the id that the worker gave it.
    pub(crate) fn answer(&mut self, own: &Id) -> Option<(Subject, Id)> {
        self.open.remove(own)
    }

    /// Our id for a request of this worker, which it cancels. The answer still follows.
    pub(crate) fn find(&self, worker: &str, id: &Id) -> Option<&Id> {
        let is_it =
            |entry: &(&Id, &(Subject, Id))| entry.1.0.as_str() == worker && &entry.1.1 == id;
        self.open.iter().find(is_it).map(|(own, _)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n6_requests_of_two_workers_with_the_same_id_stay_apart() {
        let mut callbacks = Callbacks::default();
        let one = callbacks.begin("w.1".into(), 7.into()).expect("room");
        let two = callbacks.begin("w.2".into(), 7.into()).expect("room");
        assert_ne!(one, two);
        assert_eq!(callbacks.find("w.2", &7.into()), Some(&two));
        assert_eq!(callbacks.find("w.3", &7.into()), None);
        assert_eq!(callbacks.answer(&two), Some(("w.2".into(), 7.into())));
        assert_eq!(callbacks.answer(&two), None, "answered once");
        assert_eq!(callbacks.answer(&99.into()), None, "an id that nobody gave");
        assert_eq!(callbacks.answer(&one), Some(("w.1".into(), 7.into())));
    }

    #[test]
    fn n6_requests_of_workers_are_bounded() {
        let mut callbacks = Callbacks::default();
        for id in 0..MOST as u64 {
            assert!(callbacks.begin("w.1".into(), id.into()).is_some());
        }
        assert_eq!(callbacks.begin("w.1".into(), 0.into()), None);
    }
}
