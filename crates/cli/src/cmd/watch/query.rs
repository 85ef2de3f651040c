//! Queries: the records that a list shows, in its order.
//!
//! A query looks at every record once, in slices of time, and keeps the numbers of those that match: 4 bytes for each. When
//! a request changes its fate later, the query looks at it again.

use std::io;
use std::time::Instant;

use duet_rpc_trace::{Filter, Kind};
use serde::Deserialize;

use super::entry::{Fate, IndexEntry};
use super::index::Index;

/// The records that the page wants in a list, and their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) filter: String,
    pub(super) only: Only,
    pub(super) sort: Sort,
    /// The time after which an answer is late, in µs; `None` is the usual one.
    pub(super) late: Option<u64>,
    /// Only requests that were open at some time in this range, in µs.
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
}

/// The records that a list is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Only {
    #[default]
    All,
    Requests,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sort {
    /// As recorded.
    #[default]
    Time,
    /// Slowest first.
    Took,
}

#[derive(Debug)]
pub(super) struct Query {
    pub(super) selection: Selection,
    filter: Filter,
    matches: Vec<u32>,
    scanned: u32,
    changes_seen: usize,
    generation: u32,
    is_running: bool,
    /// The matches in another order than that of the trace.
    sorted: Option<Vec<u32>>,
}

impl Query {
    pub(super) fn new(selection: Selection, filter: Filter) -> Self {
        Query {
            selection,
            filter,
            matches: Vec::new(),
            scanned: 0,
            changes_seen: 0,
            generation: 0,
            is_running: true,
            sorted: None,
        }
    }

    /// Looks at further records until the deadline.
    pub(super) fn advance(
        &mut self,
        index: &mut Index,
        is_running: bool,
        deadline: Instant,
    ) -> io::Result<()> {
        if self.generation != index.generation || self.is_running != is_running {
            let fresh = Query::new(self.selection.clone(), self.filter.clone());
            *self = Query { generation: index.generation, is_running, ..fresh };
        }
        if self.is_everything() {
            self.scanned = index.entries.len();
            return Ok(());
        }
        self.look_again(index)?;
        let before = self.matches.len();
        let mut count = 0_u32;
        while self.scanned < index.entries.len() {
            count += 1;
            if count.is_multiple_of(64) && Instant::now() >= deadline {
                break;
            }
            if self.fits(index, self.scanned)? {
                self.matches.push(self.scanned);
            }
            self.scanned += 1;
        }
        if self.matches.len() != before {
            self.sorted = None;
        }
        if self.selection.sort == Sort::Took && self.sorted.is_none() {
            self.sorted = Some(slowest_first(index, &self.matches, self.is_running));
        }
        Ok(())
    }

    /// The number of matches so far.
    pub(super) fn total(&self, index: &Index) -> u32 {
        match self.is_everything() {
            true => index.entries.len(),
            false => u32::try_from(self.matches.len()).unwrap_or(u32::MAX),
        }
    }

    /// The number of records that the query has looked at.
    pub(super) fn scanned(&self) -> u32 {
        self.scanned
    }

    /// The record at a position of the list.
    pub(super) fn at(&self, position: u32) -> Option<u32> {
        match self.is_everything() {
            true => (position < self.scanned).then_some(position),
            false => self.order().get(position as usize).copied(),
        }
    }

    /// The position of a record in the list.
    pub(super) fn position(&self, number: u32) -> Option<u32> {
        let place = match (self.is_everything(), &self.sorted) {
            (true, _) => return (number < self.scanned).then_some(number),
            (false, Some(sorted)) => sorted.iter().position(|it| *it == number),
            (false, None) => self.matches.binary_search(&number).ok(),
        };
        place.and_then(|place| u32::try_from(place).ok())
    }

    /// The numbers of all matches.
    pub(super) fn numbers(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self.is_everything() {
            true => Box::new(0..self.scanned),
            false => Box::new(self.matches.iter().copied()),
        }
    }

    fn order(&self) -> &[u32] {
        self.sorted.as_deref().unwrap_or(&self.matches)
    }

    fn is_everything(&self) -> bool {
        let Selection { only, sort, from, to, .. } = &self.selection;
        let is_plain = *only == Only::All && *sort == Sort::Time;
        is_plain && from.is_none() && to.is_none() && self.filter.is_empty()
    }

    /// Looks again at requests whose fate has changed, and at their answers.
    fn look_again(&mut self, index: &mut Index) -> io::Result<()> {
        let depends = self.filter.needs_facts()
            || self.selection.from.is_some()
            || self.selection.sort == Sort::Took;
        while let Some(&number) = index.changed.get(self.changes_seen) {
            self.changes_seen += 1;
            if !depends || number >= self.scanned {
                continue;
            }
            self.sorted = None;
            match (self.matches.binary_search(&number), self.fits(index, number)?) {
                (Ok(place), false) => drop(self.matches.remove(place)),
                (Err(place), true) => self.matches.insert(place, number),
                _ => {}
            }
        }
        Ok(())
    }

    fn fits(&self, index: &mut Index, number: u32) -> io::Result<bool> {
        let Some(entry) = index.entries.get(number) else { return Ok(false) };
        if !self.fits_columns(index, entry) {
            return Ok(false);
        }
        if self.filter.is_empty() {
            return Ok(true);
        }
        let facts = index.facts(entry, self.is_running, self.selection.late);
        index.read(number, |record| self.filter.matches(record, &facts))
    }

    /// Checks the conditions for which the index is enough.
    fn fits_columns(&self, index: &Index, entry: &IndexEntry) -> bool {
        let Selection { only, from, to, .. } = &self.selection;
        if *only == Only::Requests && entry.kind != Kind::Request {
            return false;
        }
        let end = index.took(entry).map_or(u64::MAX, |took| entry.at.saturating_add(took));
        to.is_none_or(|to| entry.at <= to) && from.is_none_or(|from| end >= from)
    }
}

/// Pending requests first, whose time still grows; then the slowest, each request before its answer; then the records
/// without an answer.
fn slowest_first(index: &Index, matches: &[u32], is_running: bool) -> Vec<u32> {
    let took = |number: u32| {
        let entry = index.entries.get(number)?;
        let is_pending = is_running && entry.fate == Fate::Open;
        if is_pending { Some(u64::MAX) } else { index.took(entry) }
    };
    let mut keyed: Vec<_> = matches.iter().map(|&number| (took(number), number)).collect();
    keyed.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, number)| number).collect()
}
