//! The records that `--where` chooses.
//!
//! A filter may ask for the end of a request when the request is shown. So a file is read twice: once
//! for the facts, once for the records. Stdin, and a file that is followed, are read once, and a
//! request is judged by what happened before it.

use std::path::Path;

use duet_rpc_trace::{Facts, FactsTable, Filter, Record, Relation};

use super::input::{Item, Stop, for_each_quietly, is_stdin};

pub(super) struct Chosen<'a> {
    filter: &'a Filter,
    /// The facts of the whole trace.
    known: Option<FactsTable>,
    /// The facts up to now.
    running: FactsTable,
}

impl<'a> Chosen<'a> {
    /// Chooses records while a trace is read once.
    pub(super) fn once(filter: &'a Filter, slow: u64) -> Self {
        Chosen { filter, known: None, running: FactsTable::new(slow) }
    }

    /// Reads the facts of a trace first, if the filter needs them, or if they are shown.
    pub(super) fn twice(
        path: &Path,
        filter: &'a Filter,
        slow: u64,
        is_shown: bool,
    ) -> Result<Self, Stop> {
        let mut chosen = Chosen::once(filter, slow);
        let is_file = !is_stdin(path) && path.is_file();
        if is_file && (is_shown || filter.needs_facts()) {
            let mut known = FactsTable::new(slow);
            for_each_quietly(path, |item| {
                if let Item::Record(record, _) = item {
                    // The second reading knows everything about an answer when it comes.
                    if is_answer(&known.handle(record)) {
                        known.remove(record.seq);
                    }
                }
                Ok(())
            })?;
            known.finish();
            chosen.known = Some(known);
        }
        Ok(chosen)
    }

    /// Fills in members that the record lacks. Returns its facts, and whether the filter chose it.
    pub(super) fn judge(&mut self, record: &mut Record<'_>) -> (Facts, bool) {
        let relations = self.running.handle(record);
        let known = self.known.as_ref().filter(|_| !is_answer(&relations));
        let facts = known.unwrap_or(&self.running).get(record.seq);
        // Only open requests are needed later.
        for relation in &relations {
            if let Relation::Answer { to: Some(asked), .. } = relation {
                self.running.remove(asked.seq);
            }
            if !matches!(relation, Relation::Request { .. }) {
                self.running.remove(record.seq);
            }
        }
        (facts, self.filter.matches(record, &facts))
    }
}

/// Returns true for a record with answers alone.
fn is_answer(relations: &[Relation]) -> bool {
    let is_answer = |it: &Relation| matches!(it, Relation::Answer { .. });
    !relations.is_empty() && relations.iter().all(is_answer)
}
