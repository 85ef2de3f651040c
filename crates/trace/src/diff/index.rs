//! The exchanges of a trace and their places in the file.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use super::values::{self, Bodies};
use super::{DiffError, DiffOptions};
use crate::filter::matches_stars;
use crate::parse;
use crate::reader::{Entry, Reader};
use crate::record::{Dir, Kind, Record};
use crate::relations::{Relation, Relations};

/// A request with its answer, or a notification.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) seq: u64,
    pub(super) dir: Dir,
    pub(super) method: Arc<str>,
    /// The hash of the values, if the order does not matter.
    pub(super) hash: u64,
    /// The time to the answer.
    pub(super) took: Option<u64>,
    asked: MessagePlace,
    answered: Option<MessagePlace>,
}

/// A message in the file: the line, and the number in a batch.
#[derive(Clone, Copy, Debug)]
struct MessagePlace {
    start: u64,
    item: u32,
}

pub(super) struct Index<R> {
    source: R,
    exchanges: Vec<Exchange>,
}

impl<R: Read + Seek> Index<R> {
    pub(super) fn read(mut source: R, options: &DiffOptions) -> Result<Self, DiffError> {
        let mut exchanges: Vec<Exchange> = Vec::new();
        let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
        // The place in `exchanges` of the requests of a record, by seq and id.
        let mut open: HashMap<(u64, String), usize> = HashMap::new();
        let mut relations = Relations::new();
        source.seek(SeekFrom::Start(0))?;
        let mut reader = Reader::new(&mut source);
        let mut position = 0;
        loop {
            let entry = reader.next_entry()?;
            let record = match entry {
                None => break,
                Some(Entry::Record(record)) => record,
                Some(Entry::Bad(line)) => return Err(DiffError::Line(line)),
                Some(Entry::Header(_)) => {
                    position = reader.span().1;
                    continue;
                }
            };
            for (item, message) in record.messages().iter().enumerate() {
                let item = u32::try_from(item).unwrap_or(u32::MAX);
                let place = MessagePlace { start: position, item };
                let relation = relations.handle(&record, message);
                let key = |seq, id: &str| (seq, id.to_owned());
                match &relation {
                    Relation::Answer { to: Some(asked), .. } => {
                        if let Some(at) = open.remove(&key(asked.seq, &asked.id)) {
                            exchanges[at].answered = Some(place);
                            exchanges[at].took = Some(record.at.saturating_sub(asked.at));
                        }
                        continue;
                    }
                    Relation::Answer { .. } => continue,
                    _ => {}
                }
                let method = message.method.as_deref().unwrap_or_default();
                let is_ignored = options.ignore_methods.iter().any(|it| matches_stars(it, method));
                if is_ignored || message.kind == Kind::Invalid {
                    continue;
                }
                let method = names.get(method).cloned().unwrap_or_else(|| {
                    let name: Arc<str> = method.into();
                    names.insert(Arc::clone(&name));
                    name
                });
                if let Relation::Request { .. } = relation {
                    let id = message.id.as_deref().unwrap_or("null");
                    open.insert(key(record.seq, id), exchanges.len());
                }
                exchanges.push(Exchange {
                    seq: record.seq,
                    dir: record.dir,
                    method,
                    hash: 0,
                    took: None,
                    asked: place,
                    answered: None,
                });
            }
            position = reader.span().1;
        }
        drop(reader);
        let mut index = Index { source, exchanges };
        if options.is_unordered {
            index.hash_all(options)?;
        }
        Ok(index)
    }

    /// The exchanges, in the order of the trace.
    pub(super) fn take_exchanges(&mut self) -> Vec<Exchange> {
        std::mem::take(&mut self.exchanges)
    }

    /// Reads the values of an exchange again.
    pub(super) fn bodies(&mut self, exchange: &Exchange) -> Result<Bodies, DiffError> {
        let mut bodies = Bodies::default();
        let note = |record: &Record<'_>, bodies: &mut Bodies| {
            bodies.is_cut |= record.cut;
            bodies.is_redacted |= record.redacted;
        };
        self.with_message(exchange.asked, |record, message| {
            bodies.params = values::parse(message.params);
            note(record, &mut bodies);
        })?;
        if let Some(place) = exchange.answered {
            self.with_message(place, |record, message| {
                bodies.result = values::parse(message.result);
                bodies.error = values::parse(message.error);
                note(record, &mut bodies);
            })?;
        }
        Ok(bodies)
    }

    fn hash_all(&mut self, options: &DiffOptions) -> Result<(), DiffError> {
        for at in 0..self.exchanges.len() {
            let exchange = self.exchanges[at].clone();
            let bodies = self.bodies(&exchange)?.without(&options.ignore);
            let mut hasher = DefaultHasher::new();
            bodies.to_string().hash(&mut hasher);
            self.exchanges[at].hash = hasher.finish();
        }
        Ok(())
    }

    fn with_message(
        &mut self,
        place: MessagePlace,
        take: impl FnOnce(&Record<'_>, &crate::message::Message<'_>),
    ) -> Result<(), DiffError> {
        self.source.seek(SeekFrom::Start(place.start))?;
        // Most messages are short.
        let mut reader = Reader::with_capacity(4 * 1024, &mut self.source);
        match reader.next_entry()? {
            Some(Entry::Record(record)) => {
                if let Some(message) = record.messages().get(place.item as usize) {
                    take(&record, message);
                }
                Ok(())
            }
            _ => {
                let why = "the file changed while it was read".to_owned();
                Err(DiffError::Line(parse::BadLine { line: 0, why }))
            }
        }
    }
}
