//! Requests of workers to this caller (N6): their ids, which are unique only for their worker.
//!
//! A caller has many workers, and each numbers its requests by itself. So each request gets an id of our own, and its
//! answer gets the old id back. Only ids in this table are answered, and only to the subject that the worker named: the
//! answer may come from a client behind a gateway, which must not choose a subject.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use async_nats::Subject;
use duet_rpc::Id;

/// Maximum number of requests of workers without an answer.
pub(crate) const MOST: usize = 1024;

/// The time after which the worker of a call is known, because it has sent a sign.
const KNOWN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Callbacks {
    last: u64,
    open: HashMap<Id, Open>,
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    worker: Subject,
    id: Id,
    begun: Instant,
}

impl Callbacks {
    /// The id for a request of the worker at this subject; `None` if there are too many. If there is no room, requests
    /// are forgotten whose call is not among the running ones: nobody waits for their answers.
    pub(crate) fn begin(
        &mut self,
        worker: Subject,
        id: Id,
        now: Instant,
        running: impl FnOnce() -> HashSet<String>,
    ) -> Option<Id> {
        if self.open.len() >= MOST {
            let running = running();
            let is_new = |it: &Open| now.duration_since(it.begun) < KNOWN;
            self.open.retain(|_, it| is_new(it) || running.contains(it.worker.as_str()));
        }
        if self.open.len() >= MOST {
            return None;
        }
        self.last += 1;
        let own = Id::from(self.last);
        self.open.insert(own.clone(), Open { worker, id, begun: now });
        Some(own)
    }

    /// Ends a request: returns its worker, and the id that the worker gave it.
    pub(crate) fn answer(&mut self, own: &Id) -> Option<(Subject, Id)> {
        self.open.remove(own).map(|open| (open.worker, open.id))
    }

    /// Ends a request that its worker cancels, and returns our id for it. Nobody waits for the answer.
    pub(crate) fn cancel(&mut self, worker: &str, id: &Id) -> Option<Id> {
        let is_it = |(_, it): &(&Id, &Open)| it.worker.as_str() == worker && &it.id == id;
        let own = self.open.iter().find(is_it)?.0.clone();
        self.open.remove(&own);
        Some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of a worker whose call runs.
    fn begin(callbacks: &mut Callbacks, worker: &'static str, id: u64) -> Option<Id> {
        callbacks.begin(worker.into(), id.into(), Instant::now(), HashSet::new)
    }

    #[test]
    fn n6_requests_of_two_workers_with_the_same_id_stay_apart() {
        let mut callbacks = Callbacks::default();
        let one = begin(&mut callbacks, "w.1", 7).expect("room");
        let two = begin(&mut callbacks, "w.2", 7).expect("room");
        let three = begin(&mut callbacks, "w.3", 7).expect("room");
        assert_ne!(one, two);
        assert_eq!(callbacks.cancel("w.3", &7.into()), Some(three.clone()));
        assert_eq!(callbacks.cancel("w.3", &7.into()), None);
        assert_eq!(callbacks.answer(&three), None, "its worker does not wait");
        assert_eq!(callbacks.answer(&two), Some(("w.2".into(), 7.into())));
        assert_eq!(callbacks.answer(&two), None, "answered once");
        assert_eq!(callbacks.answer(&99.into()), None, "an id that nobody gave");
        assert_eq!(callbacks.answer(&one), Some(("w.1".into(), 7.into())));
    }

    #[test]
    fn n6_requests_of_workers_are_bounded_and_those_of_ended_calls_make_room() {
        let mut callbacks = Callbacks::default();
        let begun = Instant::now();
        for id in 0..MOST as u64 {
            let worker = if id < 10 { "ended" } else { "runs" };
            assert!(callbacks.begin(worker.into(), id.into(), begun, HashSet::new).is_some());
        }
        // The worker of a new call may be unknown for a moment.
        for (after, room) in [(KNOWN / 2, 0), (KNOWN, 10)] {
            let next = || {
                let running = || HashSet::from(["runs".into()]);
                callbacks.begin("runs".into(), 0.into(), begun + after, running)
            };
            assert_eq!(std::iter::from_fn(next).take(MOST).count(), room);
        }
    }
}
