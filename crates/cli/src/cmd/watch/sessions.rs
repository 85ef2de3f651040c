//! The sessions that pages look at: which exist, how far each is indexed, and the version of the last change.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duet_rpc::Failure;
use duet_rpc_trace::Filter;
use serde::Serialize;

use super::entry::Fate;
use super::folder::{Folder, SessionInfo, SessionState, WatchTarget};
use super::index::{Index, Progress};
use super::query::{Query, Selection};

/// Time that one call may read and filter. The page asks again for the rest.
const SLICE: Duration = Duration::from_millis(60);
/// Maximum number of sessions with an index. The one that was not used for the longest time is dropped.
const MOST_OPEN: usize = 3;
/// Maximum number of queries of a session whose matches are kept.
const MOST_QUERIES: usize = 4;

/// Code of an error that the user can correct: a filter, or a record that does not exist.
const WRONG: i64 = 1;
/// Code of an error while reading.
pub(super) const UNREADABLE: i64 = 2;

/// Shared state of all pages.
#[derive(Debug)]
pub(super) struct Watch {
    folder: Mutex<Folder>,
    /// The sessions with an index, the last used one first.
    open: Mutex<VecDeque<(String, Arc<Mutex<OpenSession>>)>>,
    /// Counts the changes that pages can see.
    version: Mutex<u64>,
}

#[derive(Debug, Default)]
pub(super) struct OpenSession {
    pub(super) index: Index,
    queries: VecDeque<Query>,
    pub(super) is_running: bool,
    /// Reading failed.
    problem: Option<String>,
    /// The version of the last change.
    changed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Changes {
    pub(super) version: u64,
    folder: String,
    sessions: Vec<SessionInfo>,
    session: Option<String>,
    summary: Option<Summary>,
}

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    version: u64,
    records: u32,
    end: u64,
    states: States,
    noise: u32,
    /// Bytes that were indexed, and bytes that exist.
    indexed: u64,
    bytes: u64,
    problem: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct States {
    pending: u32,
    unanswered: u32,
    ok: u32,
    error: u32,
    cancelled: u32,
    late: u32,
}

impl Watch {
    pub(super) fn new(target: WatchTarget) -> Self {
        let (folder, open) = (Mutex::new(Folder::new(target)), Mutex::default());
        Watch { folder, open, version: Mutex::new(0) }
    }

    /// Looks at the files, and reads on in one session.
    pub(super) fn look(&self, since: u64, name: Option<String>, late: Option<u64>) -> Changes {
        let mut version = lock(&self.version);
        let mut folder = lock(&self.folder);
        let is_open = |key: &str| lock(&self.open).iter().any(|(open, _)| open == key);
        if folder.update(is_open) || *version == 0 {
            *version += 1;
        }
        let shown = |it: &&SessionInfo| Some(&it.key) == name.as_ref();
        let sessions = folder.sessions();
        // A page that has not chosen yet shows the first one.
        let info = sessions.iter().find(shown).or(sessions.first()).cloned();
        let (sessions, path) = (sessions.to_vec(), folder.target().path().display().to_string());
        drop(folder);
        let summary = info.as_ref().map(|info| {
            let session = self.open(&info.key);
            let mut session = lock(&session);
            if session.advance(info) {
                *version += 1;
                session.changed = *version;
            }
            session.summary(late)
        });
        let is_old = since > *version;
        Changes {
            version: if is_old { since.saturating_add(1) } else { *version },
            folder: path,
            sessions,
            session: info.map(|info| info.key),
            summary,
        }
    }

    /// The index of a session, new if there is none.
    fn open(&self, key: &str) -> Arc<Mutex<OpenSession>> {
        let mut open = lock(&self.open);
        let place = open.iter().position(|(name, _)| name == key);
        let entry = place.and_then(|place| open.remove(place));
        let entry = entry.unwrap_or_else(|| (key.to_owned(), Arc::default()));
        let session = Arc::clone(&entry.1);
        open.push_front(entry);
        open.truncate(MOST_OPEN);
        session
    }

    /// The index of a session that exists.
    pub(super) fn session(&self, key: &str) -> Result<Arc<Mutex<OpenSession>>, Failure> {
        let folder = lock(&self.folder);
        match folder.sessions().iter().any(|info| info.key == key) {
            true => Ok(self.open(key)),
            false => Err(Failure::new(WRONG, "there is no such session")),
        }
    }
}

impl OpenSession {
    /// Reads on. Returns true if something has changed.
    fn advance(&mut self, info: &SessionInfo) -> bool {
        let is_running = info.state == SessionState::Running && !self.index.has_end();
        let was = (self.is_running, self.problem.take());
        self.is_running = is_running;
        let paths = if info.state == SessionState::Deleted { &[][..] } else { &info.paths[..] };
        let progress = self.index.advance(paths, SLICE).unwrap_or_else(|error| {
            self.problem = Some(format!("Cannot read the trace: {error}"));
            Progress::Nothing
        });
        progress == Progress::Changed || was != (self.is_running, self.problem.clone())
    }

    /// Runs a query as far as the time allows, and passes it on.
    pub(super) fn ask<T>(
        &mut self,
        selection: Selection,
        then: impl FnOnce(&mut Index, &Query, bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let place = self.queries.iter().position(|query| query.selection == selection);
        let mut query = match place.and_then(|place| self.queries.remove(place)) {
            Some(query) => query,
            None => {
                let wrong = |error| Failure::new(WRONG, format!("Filter: {error}"));
                let filter = Filter::parse(&selection.filter).map_err(wrong)?;
                Query::new(selection, filter)
            }
        };
        let deadline = Instant::now() + SLICE;
        let advanced = query.advance(&mut self.index, self.is_running, deadline);
        let answer = match advanced {
            Ok(()) => then(&mut self.index, &query, self.is_running),
            Err(error) => Err(unreadable(&error)),
        };
        self.queries.push_front(query);
        self.queries.truncate(MOST_QUERIES);
        self.index.trim();
        answer
    }

    fn summary(&self, late: Option<u64>) -> Summary {
        let index = &self.index;
        let open = index.count(Fate::Open);
        let (indexed, bytes) = index.bytes();
        Summary {
            version: self.changed,
            records: index.entries.len(),
            end: index.end,
            states: States {
                pending: if self.is_running { open } else { 0 },
                unanswered: if self.is_running { 0 } else { open },
                ok: index.count(Fate::Answered),
                error: index.count(Fate::Failed),
                cancelled: index.count(Fate::Cancelled),
                late: index.count_late(late),
            },
            noise: index.noise,
            indexed,
            bytes,
            problem: self.problem.clone().or_else(|| self.warning()),
        }
    }

    fn warning(&self) -> Option<String> {
        let index = &self.index;
        if index.is_gone {
            return Some(
                "The trace file was deleted. Its records are shown as long as this page is open."
                    .into(),
            );
        }
        let lines = index.bad_lines;
        (lines > 0)
            .then(|| format!("{lines} lines of the trace are not records. They are not shown."))
    }
}

pub(super) fn unreadable(error: &io::Error) -> Failure {
    Failure::new(UNREADABLE, format!("Cannot read the trace: {error}"))
}

/// Locks. After a panic the state is still usable: each change is a single assignment or append.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
