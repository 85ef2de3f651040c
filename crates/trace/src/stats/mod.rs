//! Figures of a trace, for each method.

mod histogram;

use std::collections::BTreeMap;

use crate::message::Message;
use crate::record::{Dir, Kind, Record};
use crate::relations::{OpenRequest, Relation, Relations};
use histogram::Histogram;

/// Methods that have their own row. A trace with more has the rest in one row, [`OTHER`].
const METHODS: usize = 10_000;

/// The name of the row for methods beyond the limit.
const OTHER: &str = "(other)";

/// The slowest requests that are named.
const SLOWEST: usize = 5;

/// Figures of a session.
#[derive(Debug, Default)]
pub struct Stats {
    relations: Relations,
    methods: BTreeMap<(bool, String), MethodStats>,
    slowest: Vec<SlowRequest>,
    messages: u64,
    noise: u64,
    last: u64,
}

/// Figures of a method.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MethodStats {
    /// Requests and notifications.
    pub count: u64,
    /// Answers with an error.
    pub errors: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Bytes of all bodies: requests, notifications and answers.
    pub bytes: u64,
    latencies: Histogram,
}

/// One of the slowest requests of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowRequest {
    /// The time to its answer, in microseconds.
    pub took: u64,
    /// The method.
    pub method: String,
    /// The id: its JSON text.
    pub id: String,
    /// The `seq` of the request.
    pub request: u64,
    /// The `seq` of its answer.
    pub answer: u64,
}

impl MethodStats {
    /// The latency that a share of the answers did not exceed, in microseconds, to within 1 %.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        self.latencies.percentile(percent)
    }

    /// The longest latency, in microseconds.
    pub fn max(&self) -> Option<u64> {
        self.latencies.max()
    }
}

impl Stats {
    /// Figures of nothing.
    pub fn new() -> Self {
        Stats::default()
    }

    /// Takes the next record. A record that is not counted still relates answers to requests.
    pub fn handle(&mut self, record: &Record<'_>, is_counted: bool) {
        self.last = self.last.max(record.at);
        if record.kind == Kind::Loss {
            self.relations.handle_gap();
        }
        let is_stray = matches!(record.kind, Kind::Noise | Kind::Broken | Kind::Invalid);
        self.noise += u64::from(is_stray && is_counted);
        let messages = record.messages();
        // The bytes of a batch are shared among its messages.
        let size = record.size.unwrap_or_default() / (messages.len() as u64).max(1);
        for message in &messages {
            let relation = self.relations.handle(record, message);
            if is_counted {
                self.messages += 1;
                self.count(record, message, &relation, size);
            }
        }
    }

    /// Ends the session: open requests have no answer.
    pub fn finish(&mut self) {
        let open: Vec<_> =
            self.relations.open().filter(|asked| !asked.is_dropped).cloned().collect();
        for asked in open {
            if let Some(row) = self.methods.get_mut(&(asked.dir == Dir::S2c, asked.method)) {
                row.unanswered += 1;
            }
        }
    }

    /// Adds the figures of another session. The [slowest requests](Stats::slowest) stay those of this one, because each
    /// session numbers its records.
    pub fn merge(&mut self, other: &Stats) {
        for ((is_s2c, method), theirs) in &other.methods {
            let dir = if *is_s2c { Dir::S2c } else { Dir::C2s };
            let row = self.row(dir, method);
            row.count += theirs.count;
            row.errors += theirs.errors;
            row.unanswered += theirs.unanswered;
            row.bytes = row.bytes.saturating_add(theirs.bytes);
            row.latencies.merge(&theirs.latencies);
        }
        self.messages += other.messages;
        self.noise += other.noise;
        self.last = self.last.max(other.last);
    }

    /// The latencies of all answers: the number of those up to each power of two, in microseconds, and
    /// above the one before it. Without the empty rows at both ends.
    pub fn distribution(&self) -> Vec<(u64, u64)> {
        let mut all = Histogram::default();
        self.methods.values().for_each(|row| all.merge(&row.latencies));
        all.powers()
    }

    /// The figures of each method with the direction of its requests, most frequent first.
    pub fn methods(&self) -> Vec<(Dir, &str, &MethodStats)> {
        let rows = self.methods.iter().map(|((is_s2c, name), row)| {
            (if *is_s2c { Dir::S2c } else { Dir::C2s }, name.as_str(), row)
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(_, _, row)| std::cmp::Reverse(row.count));
        rows
    }

    /// The five slowest requests, slowest first.
    ///
    /// ```
    /// use duet_rpc_trace::{Body, Dir, Kind, Record, Stats};
    ///
    /// let mut stats = Stats::new();
    /// for (seq, at, dir, kind, json) in [
    ///     (1, 0, Dir::C2s, Kind::Request, r#"{"id":7,"method":"search"}"#),
    ///     (2, 1_500, Dir::S2c, Kind::Response, r#"{"id":7,"result":[]}"#),
    /// ] {
    ///     let mut record = Record::new(seq, at, dir, kind);
    ///     record.body = Some(Body::from_json(json));
    ///     stats.handle(&record, true);
    /// }
    /// let slowest = &stats.slowest()[0];
    /// assert_eq!((slowest.took, &*slowest.method, slowest.request), (1_500, "search", 1));
    /// ```
    pub fn slowest(&self) -> &[SlowRequest] {
        &self.slowest
    }

    /// The number of messages.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// The number of records with bytes that are not a message.
    pub fn noise(&self) -> u64 {
        self.noise
    }

    /// The time of the last record, in microseconds.
    pub fn duration(&self) -> u64 {
        self.last
    }

    fn count(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        relation: &Relation,
        size: u64,
    ) {
        match relation {
            Relation::Answer { to: Some(asked), .. } => {
                let row = self.row(asked.dir, &asked.method);
                row.bytes = row.bytes.saturating_add(size);
                row.errors += u64::from(message.kind == Kind::Error);
                let took = record.took.unwrap_or_else(|| record.at.saturating_sub(asked.at));
                row.latencies.add(took);
                self.note_slow(took, asked, record.seq);
            }
            Relation::Answer { .. } => {}
            _ => {
                let row = self.row(record.dir, message.method.as_deref().unwrap_or_default());
                row.count += 1;
                row.bytes = row.bytes.saturating_add(size);
            }
        }
    }

    fn note_slow(&mut self, took: u64, asked: &OpenRequest, answer: u64) {
        let place = self.slowest.partition_point(|it| it.took >= took);
        if place < SLOWEST {
            let (method, id) = (asked.method.clone(), asked.id.clone());
            self.slowest
                .insert(place, SlowRequest { took, method, id, request: asked.seq, answer });
            self.slowest.truncate(SLOWEST);
        }
    }

    fn row(&mut self, dir: Dir, method: &str) -> &mut MethodStats {
        let is_s2c = dir == Dir::S2c;
        let is_full = self.methods.len() >= METHODS;
        let key = (is_s2c, method.to_owned());
        let is_known = !is_full || self.methods.contains_key(&key);
        self.methods.entry(if is_known { key } else { (is_s2c, OTHER.to_owned()) }).or_default()
    }
}
