//! Relates the messages of a trace: requests, answers, cancellations and progress.
//!
//! | message | relates to |
//! |---|---|
//! | response or error | the oldest open request of the other direction with its id |
//! | `$/cancelRequest`, `notifications/cancelled` | the open requests of the same direction with the id in the params |
//! | `$/progress`, `notifications/progress` | the request that brought the token |
//!
//! Memory is bounded: of open requests, answered ids and tokens, only the newest are kept.

mod facts;
mod recent;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::message::Message;
use crate::record::{Dir, Kind, Record};
pub use facts::FactsTable;
use recent::Recent;

/// Open requests, and answered ids, that are remembered.
pub(crate) const REMEMBERED: usize = 100_000;

/// Progress tokens that are remembered.
const TOKENS: usize = 10_000;

/// The requests of a session, and the messages that belong to them.
#[derive(Debug)]
pub struct Relations {
    open: Recent<Vec<OpenRequest>>,
    answered: Recent<u64>,
    tokens: Recent<u64>,
    /// A part of the messages is missing, so an answer may have no request.
    has_gap: bool,
}

/// A request that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The record of the request.
    pub seq: u64,
    /// The time of the request.
    pub at: u64,
    /// The direction of the request.
    pub dir: Dir,
    /// The id: its JSON text.
    pub id: String,
    /// The method.
    pub method: String,
    /// The time of its cancellation.
    pub cancelled: Option<u64>,
    /// It was cancelled with `notifications/cancelled`, so no answer has to come.
    pub is_dropped: bool,
}

/// The place of a message in the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relation {
    /// A request. `in_use` is an open request with the same id.
    Request {
        /// The other request.
        in_use: Option<OpenRequest>,
    },
    /// An answer.
    Answer {
        /// The request.
        to: Option<OpenRequest>,
        /// The request that was answered before with this id, if no other one is open.
        again: Option<u64>,
    },
    /// A cancellation of the request with this `seq`.
    Cancel {
        /// The request; `None` if it is not open.
        of: Option<u64>,
    },
    /// Progress of the request with this `seq`.
    Progress {
        /// The request; `None` if the token is not known.
        of: Option<u64>,
    },
    /// Another notification, or a message that is not valid.
    Other,
}

impl Default for Relations {
    fn default() -> Self {
        Relations {
            open: Recent::new(REMEMBERED),
            answered: Recent::new(REMEMBERED),
            tokens: Recent::new(TOKENS),
            has_gap: false,
        }
    }
}

impl Relations {
    /// A session without messages.
    pub fn new() -> Self {
        Relations::default()
    }

    /// Takes the next message of a record.
    pub fn handle(&mut self, record: &Record<'_>, message: &Message<'_>) -> Relation {
        match message.kind {
            Kind::Request => self.handle_request(record, message),
            Kind::Response | Kind::Error => self.handle_answer(record.dir, message),
            Kind::Notification => self.handle_notification(record, message),
            _ => Relation::Other,
        }
    }

    /// Forgets the open requests, because a part of the messages is missing.
    pub fn handle_gap(&mut self) {
        self.open = Recent::new(REMEMBERED);
        self.has_gap = true;
    }

    /// Returns `true` if an answer may belong to a request that is missing.
    pub fn has_gap(&self) -> bool {
        self.has_gap || self.open.forgotten() > 0
    }

    /// The requests without an answer, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &OpenRequest> {
        self.open.values().flatten()
    }

    /// The oldest open request with this direction and id, a JSON text.
    pub fn find(&self, dir: Dir, id: &str) -> Option<&OpenRequest> {
        self.open.get(&key(dir, id)).and_then(|open| open.first())
    }

    fn handle_request(&mut self, record: &Record<'_>, message: &Message<'_>) -> Relation {
        for path in [&["workDoneToken"][..], &["partialResultToken"], &["_meta", "progressToken"]] {
            if let Some(token) = message.param(path) {
                // Progress comes from the side that answers.
                self.tokens.insert(key(other(record.dir), token), record.seq);
            }
        }
        if message.method.as_deref() == Some("window/workDoneProgress/create")
            && let Some(token) = message.param(&["token"])
        {
            self.tokens.insert(key(record.dir, token), record.seq);
        }
        let id = message.id.as_deref().unwrap_or("null");
        let asked = OpenRequest {
            seq: record.seq,
            at: record.at,
            dir: record.dir,
            id: id.to_owned(),
            method: message.method.as_deref().unwrap_or_default().to_owned(),
            cancelled: None,
            is_dropped: false,
        };
        let key = key(record.dir, id);
        self.answered.remove(&key);
        if let Some(others) = self.open.get_mut(&key) {
            let in_use = others.first().cloned();
            others.push(asked);
            return Relation::Request { in_use };
        }
        self.open.insert(key, vec![asked]);
        Relation::Request { in_use: None }
    }

    fn handle_answer(&mut self, dir: Dir, message: &Message<'_>) -> Relation {
        let key = key(other(dir), message.id.as_deref().unwrap_or("null"));
        let Some(open) = self.open.get_mut(&key) else {
            return Relation::Answer { to: None, again: self.answered.get(&key).copied() };
        };
        let to = (!open.is_empty()).then(|| open.remove(0));
        if open.is_empty() {
            self.open.remove(&key);
        }
        if let Some(asked) = &to {
            self.answered.insert(key, asked.seq);
        }
        Relation::Answer { to, again: None }
    }

    fn handle_notification(&mut self, record: &Record<'_>, message: &Message<'_>) -> Relation {
        let (path, is_dropped) = match message.method.as_deref() {
            Some("$/cancelRequest") => ("id", false),
            Some("notifications/cancelled") => ("requestId", true),
            Some("$/progress") => return self.progress(record.dir, message.param(&["token"])),
            Some("notifications/progress") => {
                return self.progress(record.dir, message.param(&["progressToken"]));
            }
            _ => return Relation::Other,
        };
        let Some(id) = message.param(&[path]) else { return Relation::Cancel { of: None } };
        let Some(open) = self.open.get_mut(&key(record.dir, id)) else {
            return Relation::Cancel { of: None };
        };
        for asked in &mut *open {
            asked.cancelled.get_or_insert(record.at);
            asked.is_dropped |= is_dropped;
        }
        Relation::Cancel { of: open.first().map(|asked| asked.seq) }
    }

    fn progress(&self, dir: Dir, token: Option<&str>) -> Relation {
        let of = token.and_then(|token| self.tokens.get(&key(dir, token)).copied());
        Relation::Progress { of }
    }
}

impl Relation {
    /// The `seq` of the request that the message belongs to.
    pub fn request(&self) -> Option<u64> {
        match self {
            Relation::Answer { to, .. } => to.as_ref().map(|asked| asked.seq),
            Relation::Cancel { of } | Relation::Progress { of } => *of,
            Relation::Request { .. } | Relation::Other => None,
        }
    }

    /// Fills in the members of a record that other tools left out: the request of an answer, its
    /// method and the time that it took.
    pub fn complete(&self, record: &mut Record<'_>) {
        if let (Relation::Answer { to: Some(asked), .. }, Kind::Response | Kind::Error) =
            (self, record.kind)
        {
            record.of.get_or_insert(asked.seq);
            record.took.get_or_insert(record.at.saturating_sub(asked.at));
            record.method.get_or_insert_with(|| Cow::Owned(asked.method.clone()));
        }
    }
}

/// The direction of the answers to messages of this one.
fn other(dir: Dir) -> Dir {
    match dir {
        Dir::C2s => Dir::S2c,
        _ => Dir::C2s,
    }
}

/// The direction and the value of an id or a token: `"a"` and `"\u0061"` are the same.
fn key(dir: Dir, id: &str) -> (Dir, String) {
    match serde_json::from_str::<String>(id) {
        Ok(text) => (dir, format!("\"{text}")),
        Err(_) => (dir, id.to_owned()),
    }
}
