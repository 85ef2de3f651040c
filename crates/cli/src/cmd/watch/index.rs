//! Index of one session: where its records are, and the fate of its requests.
//!
//! A request changes its fate as later records arrive:
//!
//! | record | fate before | fate after |
//! |---|---|---|
//! | the request | | `Open` |
//! | a cancellation of it | `Open` | `Cancelled` |
//! | its result | `Open` | `Answered` |
//! | its error | `Open` | `Failed` |
//! | its result or error | `Cancelled` | `Cancelled` |
//!
//! A second answer changes nothing. The index is built in slices of time, so that the page shows the beginning of a
//! large trace while the rest is read.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use duet_rpc_trace::{Dir, Entry, Facts, Header, Kind, Record, id_key};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::entry::{Entries, Fate, IndexEntry, NONE};
use super::methods::Methods;
use super::part::{FileState, Part};

/// Maximum number of records of a session. The index then has 240 MB.
const MOST_RECORDS: u32 = 5_000_000;

/// The time after which an answer is late.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// Maximum number of open requests that are found by their id.
const MOST_OPEN: usize = 100_000;

/// Maximum number of files of a rotated trace.
const MOST_PARTS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Index {
    parts: Vec<Part>,
    pub(super) header: Option<Header>,
    pub(super) entries: Entries,
    pub(super) methods: Methods,
    /// Open requests, by direction and id.
    open: HashMap<(Dir, Box<str>), u32>,
    /// Number of requests with each fate, in the order of [`Fate::ALL`].
    fates: [u32; 4],
    /// Number of answers that took more than [`LATE`].
    late: u32,
    /// Number of records with bytes that are not a message.
    pub(super) noise: u32,
    /// Requests whose fate changed after they were indexed, in that order. Queries that have seen them look again.
    pub(super) changed: Vec<u32>,
    /// Counts the times that the index was built from the start.
    pub(super) generation: u32,
    pub(super) bad_lines: u64,
    pub(super) end: u64,
    pub(super) is_gone: bool,
    has_end: bool,
}

/// The result of one call of [`Index::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Nothing,
    /// Records were added, or the index was built again.
    Changed,
}

impl Index {
    /// Reads on, for about this time. `paths` are the files of the session, in order.
    pub(super) fn advance(&mut self, paths: &[PathBuf], budget: Duration) -> io::Result<Progress> {
        let before = (self.generation, self.entries.len(), self.changed.len(), self.is_gone);
        self.check_files();
        for path in paths.iter().take(MOST_PARTS) {
            if !self.parts.iter().any(|part| part.path() == path) {
                self.parts.push(Part::open(path)?);
                self.is_gone = false;
            }
        }
        let deadline = Instant::now() + budget;
        for number in 0..self.parts.len() {
            if !self.read_part(number, deadline)? {
                break;
            }
        }
        let after = (self.generation, self.entries.len(), self.changed.len(), self.is_gone);
        Ok(if before == after { Progress::Nothing } else { Progress::Changed })
    }

    /// Bytes that were indexed, and bytes that exist.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let read = self.parts.iter().map(Part::position).sum();
        (read, self.parts.iter().map(Part::size).sum::<u64>().max(read))
    }

    /// Returns true if the last record says that the trace is whole.
    pub(super) fn has_end(&self) -> bool {
        self.has_end
    }

    /// The number of requests with this fate.
    pub(super) fn count(&self, fate: Fate) -> u32 {
        Fate::ALL.iter().position(|it| *it == fate).map_or(0, |place| self.fates[place])
    }

    /// The number of answers that took more than this time, in µs; `None` is [`LATE`].
    pub(super) fn count_late(&self, late: Option<u64>) -> u32 {
        if late.is_none_or(|late| Duration::from_micros(late) == LATE) {
            return self.late;
        }
        let is_late_request = |entry: &&IndexEntry| {
            entry.kind == Kind::Request && self.took(entry).is_some_and(|took| is_late(took, late))
        };
        self.entries.iter().filter(is_late_request).count() as u32
    }

    /// The time from a request to its answer, of both.
    pub(super) fn took(&self, entry: &IndexEntry) -> Option<u64> {
        let partner = self.entries.get(entry.partner)?;
        match entry.kind {
            Kind::Request => Some(partner.at.saturating_sub(entry.at)),
            Kind::Response | Kind::Error => Some(entry.at.saturating_sub(partner.at)),
            _ => None,
        }
    }

    /// The facts of a request, also for its answer. A cancellation is only cancelled.
    pub(super) fn facts(&self, entry: &IndexEntry, is_running: bool, late: Option<u64>) -> Facts {
        let mut facts = Facts::default();
        let request = match entry.kind {
            Kind::Request => Some(entry),
            _ => self.entries.get(entry.partner),
        };
        let Some(request) = request else { return facts };
        facts.cancelled = request.fate == Fate::Cancelled;
        if !matches!(entry.kind, Kind::Request | Kind::Response | Kind::Error) {
            return facts;
        }
        facts.took = self.took(request);
        let open = facts.took.is_none();
        facts.pending = open && is_running && request.fate == Fate::Open;
        facts.failed = request.fate == Fate::Failed;
        facts.unanswered = open && !is_running && request.fate == Fate::Open;
        let pending_for = facts.pending.then(|| self.end.saturating_sub(request.at));
        facts.late = facts.took.or(pending_for).is_some_and(|took| is_late(took, late));
        facts
    }

    /// Reads a record again and passes it on.
    pub(super) fn read<T>(
        &mut self,
        number: u32,
        then: impl FnOnce(&Record<'_>) -> T,
    ) -> io::Result<T> {
        let lost = || io::Error::new(io::ErrorKind::NotFound, "there is no such record");
        let entry = self.entries.get(number).ok_or_else(lost)?;
        let part = self.parts.get_mut(usize::from(entry.part)).ok_or_else(lost)?;
        let line = part.line(entry.offset, entry.length)?;
        let record = Record::from_line(line).map_err(io::Error::other)?;
        Ok(then(&record))
    }

    /// Frees memory that only reading needs.
    pub(super) fn trim(&mut self) {
        self.parts.iter_mut().for_each(Part::trim);
    }

    /// Starts again if a file was truncated or replaced.
    fn check_files(&mut self) {
        let states: Vec<_> = self.parts.iter_mut().map(Part::check).collect();
        self.is_gone = !states.is_empty() && states.iter().all(|state| *state == FileState::Gone);
        if states.contains(&FileState::Replaced) {
            *self = Index { generation: self.generation + 1, ..Index::default() };
        }
    }

    /// Reads on in one file. Returns false if there was no time for all of it.
    fn read_part(&mut self, number: usize, deadline: Instant) -> io::Result<bool> {
        let mut count = 0_u32;
        while self.entries.len() < MOST_RECORDS {
            count += 1;
            if count.is_multiple_of(128) && Instant::now() >= deadline {
                return Ok(false);
            }
            let Some(part) = self.parts.get_mut(number) else { return Ok(true) };
            match part.reader.next_entry()? {
                None => return Ok(true),
                Some(Entry::Header(header)) => {
                    self.header.get_or_insert(header);
                }
                Some(Entry::Record(record)) => {
                    let found = Found::new(&record);
                    let (mut entry, method) = (found.entry, found.method);
                    // Not the line end.
                    let (start, end) = part.reader.span();
                    entry.offset = start;
                    entry.length = u32::try_from(end - start - 1).unwrap_or(u32::MAX);
                    entry.part = u16::try_from(number).unwrap_or(u16::MAX);
                    if let Some(method) = method {
                        entry.method = self.methods.number(&method);
                    }
                    self.add(entry, found.id, found.of, found.cancels);
                }
                Some(_) => self.bad_lines += 1,
            }
        }
        Ok(true)
    }

    fn add(
        &mut self,
        entry: IndexEntry,
        id: Option<Box<str>>,
        of: Option<u64>,
        cancels: Option<Box<str>>,
    ) {
        let (kind, dir) = (entry.kind, entry.dir);
        self.end = self.end.max(entry.at);
        self.has_end = kind == Kind::End;
        let number = self.entries.push(entry);
        match kind {
            Kind::Request => {
                self.change(number, Fate::Open);
                if let Some(id) = id.filter(|_| self.open.len() < MOST_OPEN) {
                    self.open.entry((dir, id)).or_insert(number);
                }
            }
            Kind::Response | Kind::Error => {
                let other = if dir == Dir::C2s { Dir::S2c } else { Dir::C2s };
                let open = id.and_then(|id| self.open.remove(&(other, id)));
                // Traces of other programs may not say which request it answers.
                if let Some(request) = of.and_then(|seq| self.entries.find_seq(seq)).or(open) {
                    self.answer(request, number, kind == Kind::Error);
                }
            }
            Kind::Noise | Kind::Broken | Kind::More if dir != Dir::Err => self.noise += 1,
            _ => {}
        }
        if let Some(request) = cancels.and_then(|id| self.open.get(&(dir, id)).copied()) {
            self.cancel(request, number);
        }
    }

    fn cancel(&mut self, request: u32, cancellation: u32) {
        if let Some(entry) = self.entries.get_mut(cancellation) {
            entry.partner = request;
        }
        if self.entries.get(request).is_some_and(|it| it.fate == Fate::Open) {
            self.change(request, Fate::Cancelled);
            self.changed.push(request);
        }
    }

    fn answer(&mut self, request: u32, answer: u32, is_error: bool) {
        if let Some(entry) = self.entries.get_mut(answer) {
            entry.partner = request;
        }
        let Some(entry) = self.entries.get_mut(request) else { return };
        if entry.kind != Kind::Request || entry.partner != NONE {
            return;
        }
        entry.partner = answer;
        let fate = match (entry.fate, is_error) {
            (Fate::Cancelled, _) => Fate::Cancelled,
            (_, true) => Fate::Failed,
            (_, false) => Fate::Answered,
        };
        self.change(request, fate);
        self.changed.push(request);
        let took = self.entries.get(request).and_then(|entry| self.took(entry));
        self.late += u32::from(took.is_some_and(|took| is_late(took, None)));
    }

    fn change(&mut self, number: u32, fate: Fate) {
        let Some(entry) = self.entries.get_mut(number) else { return };
        let place = |fate| Fate::ALL.iter().position(|it| *it == fate);
        if let Some(old) = place(entry.fate) {
            self.fates[old] -= 1;
        }
        entry.fate = fate;
        if let Some(new) = place(fate) {
            self.fates[new] += 1;
        }
    }
}

/// Returns true if this time to an answer is late. Both times are in µs; `None` is [`LATE`].
pub(super) fn is_late(took: u64, late: Option<u64>) -> bool {
    Duration::from_micros(took) > late.map_or(LATE, Duration::from_micros)
}

/// The parts of a record that the index needs, without a borrow of its line.
struct Found {
    entry: IndexEntry,
    method: Option<Box<str>>,
    id: Option<Box<str>>,
    of: Option<u64>,
    cancels: Option<Box<str>>,
}

impl Found {
    fn new(record: &Record<'_>) -> Self {
        let size =
            record.size.or_else(|| record.body.as_ref().map(|it| it.as_bytes().len() as u64));
        let entry = IndexEntry {
            offset: 0,
            at: record.at,
            seq: record.seq,
            length: 0,
            size: u32::try_from(size.unwrap_or(0)).unwrap_or(u32::MAX),
            partner: NONE,
            method: NONE,
            part: 0,
            kind: record.kind,
            dir: record.dir,
            fate: Fate::None,
        };
        Found {
            entry,
            method: record.method.as_deref().map(Box::from),
            id: record.id.as_deref().map(|id| id_key(id).into()),
            of: record.of,
            cancels: cancelled_id(record),
        }
    }
}

/// The id that a cancellation of LSP or MCP names.
fn cancelled_id(record: &Record<'_>) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, alias = "requestId")]
        id: &'a RawValue,
    }
    if !matches!(record.method.as_deref()?, "$/cancelRequest" | "notifications/cancelled") {
        return None;
    }
    let message: Message<'_> = serde_json::from_str(record.json()?).ok()?;
    Some(id_key(message.params.id.get()).into())
}
