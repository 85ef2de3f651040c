//! Admission: the order in which incoming messages start, and the number that may run and wait (L2,
//! L8, M11, P4).
//!
//! A message belongs to a *lane*. Messages of a lane start in the order of their arrival. A message
//! that *blocks* its lane finishes before the next one starts:
//!
//! | order | lane | messages that block it |
//! |---|---|---|
//! | sequential | one for all | all |
//! | barrier | one for all | notifications |
//! | concurrent | none | none |
//! | by key | one per key, or none | all |
//!
//! Besides, requests are *held* while too many bytes wait to be sent, and nothing starts beyond the
//! limit on running messages.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::waiting::Waiting;
use super::{Job, Key, OwnedJob};
use crate::limits::Limits;
use crate::message::{Id, IdRef, Params};
use crate::policy::Order;

/// Finds the lane of a message from its method and params. Messages of the same lane stay in order.
pub type LaneOf = Arc<dyn Fn(&str, &Params<'_>) -> Option<u64> + Send + Sync>;

/// The decision about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Start,
    Wait,
    Busy(usize),
    Drop,
}

/// The only lane of the orders that have one.
const MAIN_LANE: u64 = 0;
/// The key under which messages without a lane wait. They do not wait for each other.
const NO_LANE: u64 = u64::MAX;
/// Notifications are dropped only at this multiple of the limit on waiting bytes. They cannot be
/// refused, and a response that we need may follow them.
const STRETCH: usize = 4;

pub(super) struct Admission {
    order: Order,
    limits: Limits,
    running: HashMap<Key, Running>,
    waiting: BTreeMap<(u64, Key), (OwnedJob, Waiting)>,
    waiting_bytes: usize,
    waiting_requests: usize,
    running_requests: usize,
    /// The requests that can be cancelled.
    by_id: HashMap<Id, Place>,
    /// True if two requests with the same id were in flight at some time since no request was.
    /// `by_id` has one of them; when that one ends, a search finds the other.
    has_duplicate_ids: bool,
    /// The number of running messages that block each lane.
    blocked: HashMap<u64, usize>,
    /// Waiting messages with nothing of their lane before them. Requests start unless they are held
    /// or too many run; notifications start unless too many run. The oldest starts first, so that no
    /// lane starves another.
    ready_requests: BTreeMap<Key, u64>,
    ready_notifications: BTreeMap<Key, u64>,
    held: bool,
}

#[derive(Debug)]
struct Running {
    job: OwnedJob,
    /// True if the request was cancelled and its answer sent. Its handler is being stopped.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    key: Key,
    /// The lane in which the request waits; `None` if it runs.
    waits_in: Option<u64>,
}

/// The request that a cancellation names.
pub(super) enum CancelTarget {
    /// It was waiting, and is removed.
    Waiting(OwnedJob),
    /// It runs. Answer it now and stop its handler; the job itself stays.
    Running(OwnedJob),
}

impl Admission {
    pub(super) fn new(order: Order, limits: Limits) -> Self {
        Admission {
            order,
            limits,
            running: HashMap::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            waiting_requests: 0,
            running_requests: 0,
            by_id: HashMap::new(),
            has_duplicate_ids: false,
            blocked: HashMap::new(),
            ready_requests: BTreeMap::new(),
            ready_notifications: BTreeMap::new(),
            held: false,
        }
    }

    /// True if a request of this id runs or waits. Under sequential order two requests are never in
    /// flight at the same time, so none is a duplicate.
    #[inline(always)]
    pub(super) fn is_duplicate(&self, id: IdRef<'_>) -> bool {
        !self.by_id.is_empty()
            && self.order != Order::Sequential
            && self.by_id.contains_key(&id.to_id())
    }

    pub(super) fn lane(&self, of: Option<u64>) -> Option<u64> {
        match self.order {
            Order::Sequential | Order::Barrier => Some(MAIN_LANE),
            Order::Concurrent => None,
            // The last lane number stands for no lane.
            Order::ByKey => of.map(|lane| lane.min(NO_LANE - 1)),
        }
    }

    /// Decides about a message. With `must_read_on`, a response that we need may follow this
    /// message, so reading cannot stop.
    #[inline(always)]
    pub(super) fn admit(&self, job: &Job<'_>, must_read_on: bool) -> Verdict {
        if self.is_free_for_any() {
            return Verdict::Start;
        }
        self.admit_beside(job, must_read_on)
    }

    /// Decides about a message while others run, wait or are held.
    fn admit_beside(&self, job: &Job<'_>, must_read_on: bool) -> Verdict {
        let is_request = job.id.is_some();
        let in_flight = self.running_requests + self.waiting_requests;
        if is_request && self.order != Order::Sequential && in_flight >= self.limits.in_flight {
            return Verdict::Busy(self.limits.in_flight);
        }
        if self.can_start(is_request) && self.is_free(job.lane) {
            return Verdict::Start;
        }
        match self.limit_reached() {
            Some(limit) if must_read_on && is_request => Verdict::Busy(limit),
            Some(_) if must_read_on && self.is_stretched() => Verdict::Drop,
            _ => Verdict::Wait,
        }
    }

    /// True if any request would start now: nothing runs, waits or is held.
    #[inline]
    pub(super) fn is_free_for_any(&self) -> bool {
        self.running.is_empty()
            && self.waiting.is_empty()
            && !self.held
            && (self.limits.in_flight > 0 || self.order == Order::Sequential)
    }

    /// Decides about a message over the limit that must not be refused.
    pub(super) fn admit_over_limit(&self, job: &Job<'_>) -> Verdict {
        match self.order != Order::Sequential && !self.held && self.is_free(job.lane) {
            true => Verdict::Start,
            false => Verdict::Wait,
        }
    }

    /// True if the answer to an invalid message has to wait: under sequential order answers leave
    /// in the order of the messages.
    pub(super) fn delays_refusals(&self, must_read_on: bool) -> bool {
        self.order == Order::Sequential
            && !(self.can_start(false) && self.is_free(Some(MAIN_LANE)))
            && !(self.is_full() && must_read_on)
    }

    /// True if reading should stop because too much waits. A remote that does not read answers does
    /// not read refusals either. So while requests are held, reading stops at the limit of requests
    /// in flight.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        let Limits { waiting, waiting_bytes, .. } = self.limits;
        let is_far = self.waiting_requests < waiting && self.waiting_bytes < waiting_bytes;
        (self.held || !is_far) && self.limit_reached().is_some()
    }

    /// The limit on waiting messages that is reached, if any.
    fn limit_reached(&self) -> Option<usize> {
        let Limits { waiting, waiting_bytes, .. } = self.limits;
        let in_flight = self.limits.in_flight.max(1);
        let is_at_in_flight = self.held
            && self.order != Order::Sequential
            && self.running_requests + self.waiting_requests >= in_flight;
        let has_many = (self.waiting_requests >= waiting).then_some(waiting);
        let has_many = has_many.or(is_at_in_flight.then_some(in_flight));
        has_many.or_else(|| (self.waiting_bytes >= waiting_bytes).then_some(waiting_bytes))
    }

    fn is_stretched(&self) -> bool {
        self.waiting_bytes / STRETCH >= self.limits.waiting_bytes
    }

    fn can_start(&self, is_request: bool) -> bool {
        // Under sequential order the lane ensures that one runs at a time.
        self.running.len() < self.limits.in_flight.max(1) && !(is_request && self.held)
    }

    /// True if no earlier message of the lane blocks a new one.
    fn is_free(&self, lane: Option<u64>) -> bool {
        let Some(lane) = lane else { return true };
        !self.is_blocked(lane) && self.first_waiting(lane).is_none()
    }

    fn is_blocked(&self, lane: u64) -> bool {
        !self.blocked.is_empty() && self.blocked.contains_key(&lane)
    }

    fn first_waiting(&self, lane: u64) -> Option<(u64, Key)> {
        if self.waiting.is_empty() {
            return None;
        }
        let lane = (lane, Key(0))..=(lane, Key(u64::MAX));
        self.waiting.range(lane).next().map(|(&place, _)| place)
    }

    fn blocks(&self, job: &OwnedJob) -> Option<u64> {
        let blocks = match self.order {
            Order::Sequential | Order::ByKey => true,
            Order::Barrier => job.id.is_none(),
            Order::Concurrent => false,
        };
        job.lane.filter(|_| blocks)
    }

    /// Queues a message until its turn comes.
    pub(super) fn wait(&mut self, job: OwnedJob, waiting: Waiting) {
        let lane = job.lane.unwrap_or(NO_LANE);
        self.waiting_bytes += waiting.cost();
        if let Some(id) = &job.id {
            self.waiting_requests += 1;
            let place = Place { key: job.key, waits_in: Some(lane) };
            self.has_duplicate_ids |= self.by_id.insert(id.clone(), place).is_some();
        }
        let is_ready = lane == NO_LANE || self.is_free(Some(lane));
        if is_ready {
            self.ready(job.id.is_some()).insert(job.key, lane);
        }
        self.waiting.insert((lane, job.key), (job, waiting));
    }

    /// True if a waiting message can start.
    #[inline]
    pub(super) fn has_ready(&self) -> bool {
        !self.waiting.is_empty() && self.first_ready().is_some()
    }

    /// The next waiting message that can start.
    #[inline]
    pub(super) fn next_ready(&mut self) -> Option<(OwnedJob, Waiting)> {
        if self.waiting.is_empty() {
            return None;
        }
        let (key, lane) = self.first_ready()?;
        self.unqueue((lane, key))
    }

    fn first_ready(&self) -> Option<(Key, u64)> {
        let oldest =
            |ready: &BTreeMap<Key, u64>| ready.first_key_value().map(|(&k, &lane)| (k, lane));
        let request = oldest(&self.ready_requests).filter(|_| self.can_start(true));
        let notification = oldest(&self.ready_notifications).filter(|_| self.can_start(false));
        request.into_iter().chain(notification).min()
    }

    fn ready(&mut self, is_request: bool) -> &mut BTreeMap<Key, u64> {
        if is_request { &mut self.ready_requests } else { &mut self.ready_notifications }
    }

    /// Marks the first message of a lane as ready, once nothing blocks the lane.
    fn set_ready(&mut self, lane: u64) {
        if lane != NO_LANE
            && !self.is_blocked(lane)
            && let Some(place) = self.first_waiting(lane)
            && let Some((job, _)) = self.waiting.get(&place)
        {
            let is_request = job.id.is_some();
            self.ready(is_request).insert(place.1, lane);
        }
    }

    fn unqueue(&mut self, place: (u64, Key)) -> Option<(OwnedJob, Waiting)> {
        let (job, waiting) = self.waiting.remove(&place)?;
        self.waiting_bytes -= waiting.cost();
        if let Some(id) = &job.id {
            self.waiting_requests -= 1;
            self.forget(id, job.key);
        }
        if self.ready(job.id.is_some()).remove(&job.key).is_some() {
            self.set_ready(place.0);
        }
        Some((job, waiting))
    }

    /// Counts a waiting handler as running.
    pub(super) fn park(&mut self, job: OwnedJob) -> Key {
        let key = job.key;
        if let Some(lane) = self.blocks(&job) {
            *self.blocked.entry(lane).or_default() += 1;
            if let Some((_, first)) = self.first_waiting(lane) {
                self.ready_requests.remove(&first);
                self.ready_notifications.remove(&first);
            }
        }
        if let Some(id) = &job.id {
            self.running_requests += 1;
            let place = Place { key, waits_in: None };
            self.has_duplicate_ids |= self.by_id.insert(id.clone(), place).is_some();
        }
        self.running.insert(key, Running { job, is_answered: false });
        key
    }

    /// Ends a parked job. Returns it if it is still to be answered.
    pub(super) fn finish(&mut self, key: Key) -> Option<OwnedJob> {
        let Running { job, is_answered } = self.running.remove(&key)?;
        if let Some(lane) = self.blocks(&job)
            && let Some(count) = self.blocked.get_mut(&lane)
        {
            *count -= 1;
            if *count == 0 {
                self.blocked.remove(&lane);
                self.set_ready(lane);
            }
        }
        if let Some(id) = &job.id {
            self.running_requests -= 1;
            self.forget(id, key);
        }
        (!is_answered).then_some(job)
    }

    /// Removes an id, unless another request has taken it over, which sequential order allows.
    fn forget(&mut self, id: &Id, key: Key) {
        if self.by_id.get(id).is_some_and(|place| place.key == key) {
            self.by_id.remove(id);
            self.find_duplicate_id(id);
        }
    }

    /// Finds another request of an id that was just removed: the latest that waits, else the one
    /// that runs. Without duplicate ids, which is the rule, it searches nothing.
    fn find_duplicate_id(&mut self, id: &Id) {
        if !self.has_duplicate_ids {
            return;
        }
        let is_it = |job: &OwnedJob| job.id.as_ref() == Some(id);
        let waits = self.waiting.iter().rev().find(|(_, (job, _))| is_it(job));
        let waits = waits.map(|(&(lane, key), _)| Place { key, waits_in: Some(lane) });
        let runs = || {
            let mut running = self.running.iter();
            let found = running.find(|(_, running)| is_it(&running.job) && !running.is_answered);
            found.map(|(&key, _)| Place { key, waits_in: None })
        };
        if let Some(place) = waits.or_else(runs) {
            self.by_id.insert(id.clone(), place);
        }
        self.has_duplicate_ids = !self.by_id.is_empty();
    }

    pub(super) fn cancel(&mut self, id: &Id) -> Option<CancelTarget> {
        let place = *self.by_id.get(id)?;
        if let Some(lane) = place.waits_in {
            return self.unqueue((lane, place.key)).map(|(job, _)| CancelTarget::Waiting(job));
        }
        self.by_id.remove(id);
        let running = self.running.get_mut(&place.key)?;
        running.is_answered = true;
        let job = running.job.clone();
        self.find_duplicate_id(id);
        Some(CancelTarget::Running(job))
    }

    /// The job of a running handler.
    pub(super) fn job(&self, key: Key) -> Option<&OwnedJob> {
        self.running.get(&key).map(|running| &running.job)
    }

    /// Holds requests back, or releases them.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Drops waiting messages that arrived after this one.
    pub(super) fn drop_after(&mut self, key: Key) -> Vec<(OwnedJob, Waiting)> {
        let later: Vec<_> =
            self.waiting.keys().copied().filter(|&(_, waiting)| waiting > key).collect();
        later.into_iter().filter_map(|place| self.unqueue(place)).collect()
    }

    /// Drops all waiting messages.
    pub(super) fn drop_all(&mut self) {
        self.drop_after(Key(0));
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The number of entries left in the tables; 0 if nothing runs or waits.
    pub(super) fn left_behind(&self) -> usize {
        let ready = [self.ready_requests.len(), self.ready_notifications.len()];
        let rest = [self.by_id.len(), self.blocked.len(), self.waiting_bytes];
        ready.into_iter().chain(rest).sum()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Admission");
        shown.field("order", &self.order).field("running", &self.running.len());
        shown.field("waiting", &self.waiting.len()).field("held", &self.held).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Key, OwnedJob};
    use crate::limits::Limits;
    use crate::message::Id;
    use crate::policy::Order;

    #[test]
    fn p9_ids_and_lanes_are_removed_with_their_jobs() {
        let mut admission = Admission::new(Order::Sequential, Limits::default());
        assert_eq!(admission.left_behind(), 0);
        let (key, lane) = (Key(1), admission.lane(None));
        admission.park(OwnedJob { key, id: Some(Id::from(1)), lane, batch: None });
        assert_eq!(admission.left_behind(), 2, "its id, and the lane that it blocks");
        assert!(admission.finish(key).is_some());
        assert_eq!(admission.left_behind(), 0);
    }
}
