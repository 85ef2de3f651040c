//! Ledger: the simplest model of a session's duties, checked after every step.
//!
//! It lists the messages in the order of their arrival. A walk over all of them decides which may
//! run. A session must start a message exactly when the ledger allows it.

use std::collections::BTreeMap;

use duet_rpc_proto::policy::Order;
use duet_rpc_proto::session::Key;
use duet_rpc_proto::{Limits, Profile};

/// A request or notification that runs or waits. Ended ones are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The method.
    pub name: String,
    /// The id as JSON; `None` for a notification.
    pub id: Option<String>,
    /// Its lane, under the order by key.
    pub lane: Option<u64>,
    /// `None` while it waits.
    pub key: Option<Key>,
    /// True if it was cancelled while it ran.
    pub is_answered: bool,
    /// True if it may be answered without being started: a request of a batch, or an invalid
    /// message.
    pub may_be_refused: bool,
}

impl Entry {
    fn is_request(&self) -> bool {
        self.id.is_some()
    }

    fn waits(&self) -> bool {
        self.key.is_none()
    }
}

/// Counts for an id: requests, answers, and requests that rightly get no answer.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    asked: usize,
    answered: usize,
    excused: usize,
}

/// The duties of one side.
#[derive(Debug)]
pub struct Ledger {
    order: Order,
    limits: Limits,
    /// In the order of arrival.
    pub entries: Vec<Entry>,
    accounts: BTreeMap<String, Account>,
    /// True if requests are held.
    pub held: bool,
}

impl Ledger {
    pub fn new(profile: &Profile) -> Self {
        let (order, limits) = (profile.order, profile.limits);
        Ledger { order, limits, entries: Vec::new(), accounts: BTreeMap::new(), held: false }
    }

    pub fn asked(&mut self, id: &str) {
        self.account(id).asked += 1;
    }

    pub fn excused(&mut self, id: &str) {
        self.account(id).excused += 1;
    }

    pub fn answered(&mut self, id: &str) {
        let account = self.account(id);
        account.answered += 1;
        assert!(account.answered + account.excused <= account.asked, "{id} twice: {account:?}");
    }

    fn account(&mut self, id: &str) -> &mut Account {
        self.accounts.entry(id.to_owned()).or_default()
    }

    /// Notes that a message waits.
    pub fn wait(&mut self, entry: Entry) {
        self.entries.push(entry);
        let last = self.entries.len() - 1;
        assert!(!self.may_run(last), "a message waits although it may run: {:?}", self.entries);
        self.check_in_flight();
    }

    /// Notes that a message starts, immediately or after waiting.
    pub fn start(&mut self, entry: &Entry) {
        let is_it =
            |other: &Entry| other.waits() && (&other.name, &other.id) == (&entry.name, &entry.id);
        let place = self.entries.iter().position(is_it).unwrap_or_else(|| {
            self.entries.push(Entry { key: None, ..entry.clone() });
            self.entries.len() - 1
        });
        assert!(self.may_run(place), "{place} starts too early: {:?}", self.entries);
        self.entries[place].key = entry.key;
        let most = if self.order == Order::Sequential { 1 } else { self.limits.in_flight.max(1) };
        assert!(self.running() <= most, "too many run: {:?}", self.entries);
        self.check_in_flight();
    }

    /// Notes that `count` messages were answered in their turn without being started.
    pub fn refuse_ready(&mut self, count: usize) {
        for _ in 0..count {
            let is_it = |place: &usize| {
                let entry = &self.entries[*place];
                entry.may_be_refused && self.may_run(*place)
            };
            let place = (0..self.entries.len()).find(is_it).expect("its turn had come");
            self.entries.remove(place);
        }
    }

    /// Notes that a message has ended.
    pub fn end(&mut self, key: Key) -> Entry {
        let place = self.entries.iter().position(|entry| entry.key == Some(key));
        self.entries.remove(place.expect("it runs"))
    }

    /// Notes that a running request was cancelled.
    pub fn stop(&mut self, key: Key) -> String {
        let found = self.entries.iter_mut().find(|entry| entry.key == Some(key));
        let entry = found.expect("it runs");
        assert!(!std::mem::replace(&mut entry.is_answered, true), "stopped twice");
        entry.name.clone()
    }

    /// Notes that a waiting request was cancelled: the later one of two with the same id.
    pub fn cancel_waiting(&mut self, id: &str) {
        let is_it = |entry: &Entry| entry.waits() && entry.id.as_deref() == Some(id);
        let place = self.entries.iter().rposition(is_it).expect("it waits");
        self.entries.remove(place);
    }

    /// Checks that a cancellation rightly found nothing (P3).
    pub fn check_unknown(&self, id: &str) {
        let is_it = |entry: &Entry| entry.id.as_deref() == Some(id) && !entry.is_answered;
        assert!(!self.entries.iter().any(is_it), "{id} could be cancelled: {:?}", self.entries);
    }

    /// Notes that messages that wait after the message `behind` will never start. In a batch they
    /// are still answered.
    pub fn give_up(&mut self, behind: Key) {
        let is_it = |entry: &Entry| entry.key == Some(behind);
        let first = self.entries.iter().position(is_it).expect("it runs");
        for entry in self.entries.split_off(first) {
            match &entry.id {
                _ if !entry.waits() => self.entries.push(entry),
                Some(id) if !entry.may_be_refused => self.excused(id),
                _ => {}
            }
        }
    }

    /// Notes that waiting messages will never start and nothing will be answered, not even the
    /// waiting answers of a batch.
    pub fn give_up_all(&mut self) {
        self.entries.retain(|entry| !entry.waits());
        for entry in &mut self.entries {
            entry.is_answered = true;
        }
        for account in self.accounts.values_mut() {
            account.excused = account.asked - account.answered;
        }
    }

    /// Checks that a request was rightly refused as a duplicate.
    pub fn check_duplicate(&self, id: &str) {
        let is_it = |entry: &Entry| entry.id.as_deref() == Some(id) && !entry.is_answered;
        assert!(self.order != Order::Sequential && self.entries.iter().any(is_it), "no duplicate");
    }

    /// Checks that a request was rightly answered busy.
    pub fn check_busy(&self, has_calls: bool, batch_is_full: bool) {
        let requests = self.entries.iter().filter(|entry| entry.is_request()).count();
        let too_many = self.order != Order::Sequential && requests >= self.limits.in_flight;
        let is_full = has_calls && self.is_full();
        assert!(too_many || is_full || batch_is_full, "no reason to be busy: {:?}", self.entries);
    }

    /// Checks that a notification was rightly dropped.
    pub fn check_dropped(&self, has_calls: bool) {
        assert!(has_calls && self.is_full(), "no reason to drop it: {:?}", self.entries);
    }

    /// True if the limit on waiting messages is reached, by number or by the maximum cost in these
    /// tests.
    fn is_full(&self) -> bool {
        self.waiting_requests() >= self.limits.waiting
            || self.waiting() * 350 >= self.limits.waiting_bytes
    }

    fn check_in_flight(&self) {
        let requests = self.entries.iter().filter(|entry| entry.is_request()).count();
        let is_bound = self.order != Order::Sequential;
        assert!(!is_bound || requests <= self.limits.in_flight, "too many: {:?}", self.entries);
    }

    /// Checks that no message waits that may run.
    pub fn check_no_runnable_message_waits(&self) {
        for place in 0..self.entries.len() {
            assert!(!self.may_run(place), "{place} waits although it may run: {:?}", self.entries);
        }
    }

    pub fn running(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.waits()).count()
    }

    pub fn waiting(&self) -> usize {
        self.entries.iter().filter(|entry| entry.waits()).count()
    }

    pub fn waiting_requests(&self) -> usize {
        self.entries.iter().filter(|entry| entry.waits() && entry.is_request()).count()
    }

    /// Checks that every request was answered once, if it had to be.
    pub fn check_settled(&self) {
        assert_eq!(self.entries, [], "something still runs or waits");
        // Invalid messages share the null id, and need not be answered.
        for (id, account) in self.accounts.iter().filter(|(id, _)| *id != "null") {
            assert_eq!(account.asked, account.answered + account.excused, "{id}: {account:?}");
        }
    }

    /// True if the message at this place waits and nothing blocks it (L2).
    fn may_run(&self, place: usize) -> bool {
        let entry = &self.entries[place];
        let most = if self.order == Order::Sequential { 1 } else { self.limits.in_flight.max(1) };
        let before = &self.entries[..place];
        let is_free = match self.order {
            Order::Sequential => before.is_empty(),
            Order::Barrier => before.iter().all(|before| before.is_request() && !before.waits()),
            Order::Concurrent => true,
            Order::ByKey => {
                entry.lane.is_none() || before.iter().all(|before| before.lane != entry.lane)
            }
            other => panic!("the ledger does not know {other:?}"),
        };
        let is_held = self.held && entry.is_request();
        entry.waits() && is_free && !is_held && self.running() < most
    }
}
