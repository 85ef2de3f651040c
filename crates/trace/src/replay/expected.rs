//! The messages of the recorded server, and those that have come.

use std::collections::{HashMap, VecDeque};

use crate::record::{Dir, Kind};
use crate::script::{Item, Place, Script, Step};

/// Messages of the same method among which the one with the same values is searched.
const WINDOW: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedState {
    Open,
    /// The replay went on without it.
    GivenUp,
    Came,
}

/// A message that the server sent in the recording.
#[derive(Debug)]
struct ExpectedMessage {
    place: Place,
    /// The client cannot go on without it: an answer.
    is_strict: bool,
    state: ExpectedState,
    hash: u64,
}

#[derive(Debug)]
pub(super) struct Expected {
    /// In the order of the recording.
    entries: Vec<ExpectedMessage>,
    by_place: HashMap<Place, usize>,
    /// The notifications and requests of a method that have not come.
    by_method: HashMap<(Kind, String), VecDeque<usize>>,
    /// All entries before this one have come or were given up.
    first: usize,
    /// The first answer that has not come is not before this one.
    first_strict: usize,
    /// The ids of the requests that came.
    ids: HashMap<Place, String>,
}

impl Expected {
    pub(super) fn new(script: &Script) -> Self {
        let mut entries = Vec::new();
        let mut by_method: HashMap<_, VecDeque<usize>> = HashMap::new();
        for (number, step) in
            script.steps.iter().enumerate().filter(|(_, step)| step.dir == Dir::S2c)
        {
            for (at, item) in step.items.iter().enumerate() {
                let is_request = matches!(item.kind, Kind::Notification | Kind::Request);
                if is_request {
                    let key = (item.kind, item.method.clone());
                    by_method.entry(key).or_default().push_back(entries.len());
                }
                if is_request || item.is_answer() {
                    let (is_strict, hash) = (item.request.is_some(), item.hash);
                    let place = (number, at);
                    entries.push(ExpectedMessage {
                        place,
                        is_strict,
                        state: ExpectedState::Open,
                        hash,
                    });
                }
            }
        }
        let by_place = entries.iter().enumerate().map(|(at, entry)| (entry.place, at)).collect();
        let mut expected = Expected {
            entries,
            by_place,
            by_method,
            first: 0,
            first_strict: 0,
            ids: HashMap::new(),
        };
        expected.advance();
        expected
    }

    /// Returns `None` if a step of the client can be sent. Otherwise `true` if it waits for an answer.
    pub(super) fn is_open_before(&self, number: usize, step: &Step) -> Option<bool> {
        let is_before =
            |at: usize| self.entries.get(at).is_some_and(|entry| entry.place.0 < number);
        if is_before(self.first_strict) {
            return Some(true);
        }
        if !step.is_answer() {
            return is_before(self.first).then_some(false);
        }
        let is_open = |item: &Item| {
            let entry = item.request.and_then(|request| self.by_place.get(&request));
            entry.is_some_and(|at| self.entries[*at].state == ExpectedState::Open)
        };
        step.items.iter().any(is_open).then_some(false)
    }

    /// Gives up the notifications and requests before a step. Returns `true` if there were any.
    pub(super) fn give_up_before(&mut self, number: usize) -> bool {
        let mut has_changed = false;
        for entry in self.entries.iter_mut().skip(self.first) {
            if entry.place.0 >= number {
                break;
            }
            if entry.state == ExpectedState::Open && !entry.is_strict {
                (entry.state, has_changed) = (ExpectedState::GivenUp, true);
            }
        }
        self.advance();
        has_changed
    }

    /// Returns whether any message has not come, and whether one of them is an answer.
    pub(super) fn open_kinds(&self) -> (bool, bool) {
        (self.first < self.entries.len(), self.first_strict < self.entries.len())
    }

    /// The counterpart of a notification or request: one with the same values, or else the first.
    pub(super) fn take(&mut self, item: &Item, hash: u64) -> Option<Place> {
        let key = (item.kind, item.method.clone());
        let queue = self.by_method.get_mut(&key)?;
        let same = queue.iter().take(WINDOW).position(|at| self.entries[*at].hash == hash);
        let at = queue.remove(same.unwrap_or(0))?;
        Some(self.entries[at].place)
    }

    /// The counterpart of an answer to nothing, such as an error with `id: null`.
    pub(super) fn take_stray(&mut self, script: &Script, item: &Item) -> Option<Place> {
        let is_it = |entry: &&ExpectedMessage| {
            let recorded = &script.steps[entry.place.0].items[entry.place.1];
            let is_open = entry.state != ExpectedState::Came && !entry.is_strict;
            is_open && recorded.is_answer() && recorded.id == item.id
        };
        self.entries.iter().find(is_it).map(|entry| entry.place)
    }

    /// Notes that the counterpart of a message came.
    pub(super) fn settle(&mut self, place: Place, id: Option<&str>) {
        if let Some(&at) = self.by_place.get(&place) {
            self.entries[at].state = ExpectedState::Came;
            self.ids.extend(id.map(|id| (place, id.to_owned())));
            self.advance();
        }
    }

    /// The new id of a request of the server.
    pub(super) fn id_of(&self, request: Place) -> Option<&str> {
        self.ids.get(&request).map(String::as_str)
    }

    /// The messages before a step that have not come, in words. At the end, all of them.
    pub(super) fn open(&self, script: &Script, before: usize) -> Vec<String> {
        let open =
            self.entries.iter().skip(self.first).filter(|entry| entry.state == ExpectedState::Open);
        let name = |entry: &ExpectedMessage| {
            let (step, item) =
                (&script.steps[entry.place.0], &script.steps[entry.place.0].items[entry.place.1]);
            let what = match item.kind {
                Kind::Notification => "the notification",
                Kind::Request => "the request",
                _ => "the answer to",
            };
            format!("{what} {} (record {})", item.method, step.seq)
        };
        open.filter(|entry| entry.place.0 < before).map(name).collect()
    }

    fn advance(&mut self) {
        let is_open = |entry: &ExpectedMessage| entry.state == ExpectedState::Open;
        while self.entries.get(self.first).is_some_and(|entry| !is_open(entry)) {
            self.first += 1;
        }
        let is_missing = |entry: &ExpectedMessage| is_open(entry) && entry.is_strict;
        while self.entries.get(self.first_strict).is_some_and(|entry| !is_missing(entry)) {
            self.first_strict += 1;
        }
    }
}
