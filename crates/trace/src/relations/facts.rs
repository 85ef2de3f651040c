//! The facts of each record, for filters.

use std::collections::HashMap;

use super::{Relation, Relations};
use crate::filter::Facts;
use crate::message::Message;
use crate::record::{Dir, Kind, Record};

/// The state of the requests of a trace, by record.
///
/// Read a whole trace with [`handle`](FactsTable::handle), then [`finish`](FactsTable::finish), then
/// ask for the facts of each record. A program that reads only once asks after each record: then
/// the facts are those at that time.
#[derive(Debug, Default)]
pub struct FactsTable {
    relations: Relations,
    facts: HashMap<u64, Facts>,
    /// Cancellations, with their request.
    cancels: HashMap<u64, u64>,
    /// The threshold for late answers, in microseconds.
    slow: u64,
    last: u64,
    is_over: bool,
}

impl FactsTable {
    /// A table with the threshold for late answers, in microseconds.
    pub fn new(slow: u64) -> Self {
        FactsTable { slow, ..FactsTable::default() }
    }

    /// Takes the next record, and fills in members that it lacks: see [`Relation::complete`].
    pub fn handle(&mut self, record: &mut Record<'_>) -> Vec<Relation> {
        self.last = self.last.max(record.at);
        match record.kind {
            Kind::End | Kind::Exit => self.is_over = true,
            Kind::Eof if record.dir == Dir::S2c => self.is_over = true,
            Kind::Loss => self.relations.handle_gap(),
            _ => {}
        }
        let mut relations = Vec::new();
        for message in record.messages() {
            let relation = self.relations.handle(record, &message);
            self.note(record, &message, &relation);
            relations.push(relation);
        }
        if let [relation] = &relations[..] {
            relation.complete(record);
        }
        relations
    }

    fn note(&mut self, record: &Record<'_>, message: &Message<'_>, relation: &Relation) {
        match relation {
            Relation::Request { .. } => {
                self.facts.insert(record.seq, Facts { pending: true, ..Facts::default() });
            }
            Relation::Answer { to: Some(asked), .. } => {
                let took = record.took.unwrap_or_else(|| record.at.saturating_sub(asked.at));
                let facts = Facts {
                    late: took > self.slow,
                    cancelled: asked.cancelled.is_some(),
                    failed: message.kind == Kind::Error && asked.cancelled.is_none(),
                    took: Some(took),
                    ..Facts::default()
                };
                self.facts.insert(asked.seq, facts);
                self.facts.insert(record.seq, facts);
            }
            Relation::Cancel { of: Some(seq) } => {
                if let Some(facts) = self.facts.get_mut(seq) {
                    facts.cancelled = true;
                }
                self.cancels.insert(record.seq, *seq);
            }
            _ => {}
        }
    }

    /// Ends the trace. Open requests are unanswered if the session is over. Otherwise they are pending, and late if they
    /// were open for longer than the threshold.
    pub fn finish(&mut self) {
        for asked in self.relations.open() {
            if let Some(facts) = self.facts.get_mut(&asked.seq) {
                facts.late = !self.is_over && self.last.saturating_sub(asked.at) > self.slow;
                facts.unanswered = self.is_over && !asked.is_dropped;
                facts.pending = !self.is_over;
            }
        }
    }

    /// The facts of a record.
    pub fn get(&self, seq: u64) -> Facts {
        if let Some(request) = self.cancels.get(&seq) {
            // The other facts are those of the request alone.
            let cancelled = self.facts.get(request).is_some_and(|facts| facts.cancelled);
            return Facts { cancelled, ..Facts::default() };
        }
        self.facts.get(&seq).copied().unwrap_or_default()
    }

    /// Forgets the facts of a record that is not needed again.
    pub fn remove(&mut self, seq: u64) {
        self.facts.remove(&seq);
        self.cancels.remove(&seq);
    }

    /// The relations so far.
    pub fn relations(&self) -> &Relations {
        &self.relations
    }
}
