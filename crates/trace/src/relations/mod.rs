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
use std::collections::VecDeque;

use crate::message::Message;
use crate::record::{Dir, Kind, Record};
pub use facts::FactsTable;
pub(crate) use recent::Recent;

/// Open requests, and answered ids, that are remembered.
pub(crate) const REMEMBERED: usize = 100_000;

/// Progress tokens that are remembered.
const TOKENS: usize = 10_000;

/// The requests of a session, and the messages that belong to them.
#[derive(Debug)]
pub struct Relations {
    /// Requests with the same id, oldest first; mostly one.
    open: Recent<VecDeque<OpenRequest>>,
    open_count: usize,
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
            open_count: 0,
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
        (self.open, self.open_count) = (Recent::new(REMEMBERED), 0);
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
        self.open.get(&key(dir, id)).and_then(|open| open.front())
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
        if self.open_count == REMEMBERED {
            self.forget_oldest();
        }
        self.open_count += 1;
        if let Some(others) = self.open.get_mut(&key) {
            let in_use = others.front().cloned();
            others.push_back(asked);
            return Relation::Request { in_use };
        }
        self.open.insert(key, VecDeque::from([asked]));
        Relation::Request { in_use: None }
    }

    /// Makes room for a request.
    fn forget_oldest(&mut self) {
        let Some((key, requests)) = self.open.oldest_mut() else { return };
        requests.pop_front();
        let emptied = requests.is_empty().then(|| key.clone());
        self.open.count_forgotten();
        self.open_count -= 1;
        if let Some(key) = emptied {
            self.open.remove(&key);
        }
    }

    fn handle_answer(&mut self, dir: Dir, message: &Message<'_>) -> Relation {
        let key = key(other(dir), message.id.as_deref().unwrap_or("null"));
        let Some(open) = self.open.get_mut(&key) else {
            return Relation::Answer { to: None, again: self.answered.get(&key).copied() };
        };
        let to = open.pop_front();
        if open.is_empty() {
            self.open.remove(&key);
        }
        if let Some(asked) = &to {
            self.open_count -= 1;
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
        // The requests before one that was cancelled were cancelled with it.
        let is_new = |it: &&mut OpenRequest| it.cancelled.is_none() || is_dropped && !it.is_dropped;
        for asked in open.iter_mut().rev().take_while(is_new) {
            asked.cancelled.get_or_insert(record.at);
            asked.is_dropped |= is_dropped;
        }
        Relation::Cancel { of: open.front().map(|asked| asked.seq) }
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

/// The direction and the value of an id or a token.
fn key(dir: Dir, id: &str) -> (Dir, String) {
    (dir, id_key(id).into_owned())
}

/// A text that is the same for all spellings of an id, as a session compares ids (M2). `raw` is its JSON text.
///
/// ```
/// use duet_rpc_trace::id_key;
///
/// assert_eq!(id_key(r#""\u0061""#), id_key(r#""a""#));
/// assert_ne!(id_key(r#""1""#), id_key("1"));
/// assert_ne!(id_key("1.0"), id_key("1"));
/// ```
pub fn id_key(raw: &str) -> Cow<'_, str> {
    let has_escape = raw.starts_with('"') && raw.contains('\\');
    match has_escape.then(|| serde_json::from_str::<String>(raw)) {
        Some(Ok(text)) => Cow::Owned(serde_json::Value::from(text).to_string()),
        _ => Cow::Borrowed(raw),
    }
}
