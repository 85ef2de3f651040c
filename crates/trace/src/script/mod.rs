//! A recorded session in memory, for a program that plays one of its sides.
//!
//! A step is a frame that one side sent: a message, or a batch of them. Answers know their requests.
//! Bytes that are not messages are not part of a script; they are counted.

pub(crate) mod scalars;

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;

use serde_json::Value;

use crate::envelope::kind_of;
use crate::message::Message;
use crate::record::{Dir, Kind, Record};
use crate::relations::{Relation, Relations};
use crate::wire::Wire;

/// A recorded session: the messages of both sides, in order.
///
/// ```
/// use duet_rpc_trace::{Body, Dir, Kind, Record, Script};
///
/// let mut script = Script::new();
/// let mut record = Record::new(1, 250, Dir::C2s, Kind::Request);
/// record.body = Some(Body::from_json(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#));
/// script.handle(&record);
/// assert_eq!(script.messages(Dir::C2s), 1);
/// assert!(script.check(Dir::C2s).is_ok());
/// ```
#[derive(Debug, Default)]
pub struct Script {
    pub(crate) steps: Vec<Step>,
    /// The bytes of each side that were not recorded.
    lost: HashMap<Dir, u64>,
    /// Records with bytes of each side that are not messages.
    stray: HashMap<Dir, u64>,
    redacted: u64,
    has_end: bool,
    wire: Option<Wire>,
    /// The server closed its stream, and the client had not.
    pub(crate) is_ended_by_server: bool,
    has_client_eof: bool,
    relations: Relations,
    /// Requests without an answer so far, by `seq` and id.
    open: HashMap<(u64, String), Place>,
}

/// The place of a message: the step, and the number in a batch.
pub(crate) type Place = (usize, usize);

/// A frame.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) dir: Dir,
    /// The text of the frame. Empty if it was cut.
    pub(crate) json: String,
    pub(crate) items: Vec<Item>,
    pub(crate) is_cut: bool,
    pub(crate) is_redacted: bool,
}

/// A message in a frame.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    /// The id, a JSON text.
    pub(crate) id: Option<String>,
    pub(crate) method: String,
    /// The bytes of the message in the frame.
    pub(crate) range: Range<usize>,
    /// The bytes of the id in the frame.
    pub(crate) id_range: Option<Range<usize>>,
    /// The request that this message answers.
    pub(crate) request: Option<Place>,
    /// The answer to this request.
    pub(crate) answer: Option<Place>,
    /// The hash of params, result or error.
    pub(crate) hash: u64,
}

/// A script that cannot be played.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptError {
    /// The side sent no message.
    Empty(Dir),
    /// A message of the side is not whole. Has its `seq`.
    Cut(u64),
    /// Bytes of the side were not recorded.
    Lost(u64),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptError::Empty(Dir::S2c) => {
                f.write_str("the recording has no message of the server")
            }
            ScriptError::Empty(_) => f.write_str("the recording has no message of the client"),
            ScriptError::Cut(seq) => write!(
                f,
                "the message of record {seq} is not whole: record again without --max-body"
            ),
            ScriptError::Lost(bytes) => write!(
                f,
                "{bytes} bytes were not recorded, so messages are missing: record again with a larger --buffer"
            ),
        }
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// A script without messages.
    pub fn new() -> Self {
        Script::default()
    }

    /// Adds the next record of a trace.
    pub fn handle(&mut self, record: &Record<'_>) {
        match record.kind {
            Kind::Loss => {
                *self.lost.entry(record.dir).or_default() += record.lost.unwrap_or_default();
                self.relations.handle_gap();
            }
            Kind::Noise | Kind::Broken => *self.stray.entry(record.dir).or_default() += 1,
            Kind::Eof if record.dir == Dir::C2s => self.has_client_eof = true,
            Kind::Eof if record.dir == Dir::S2c => self.is_ended_by_server = !self.has_client_eof,
            Kind::End => self.has_end = true,
            _ if record.kind.is_message() => self.handle_frame(record),
            _ => {}
        }
    }

    /// Checks that this side can be played.
    ///
    /// # Errors
    ///
    /// If messages of the side are missing or not whole.
    pub fn check(&self, side: Dir) -> Result<(), ScriptError> {
        match self.steps_of(side).find(|step| step.is_cut) {
            _ if self.lost(side) > 0 => Err(ScriptError::Lost(self.lost(side))),
            _ if self.messages(side) == 0 => Err(ScriptError::Empty(side)),
            Some(cut) => Err(ScriptError::Cut(cut.seq)),
            None => Ok(()),
        }
    }

    /// The number of frames that a side sent.
    pub fn messages(&self, side: Dir) -> usize {
        self.steps_of(side).count()
    }

    /// The bytes of a side that were not recorded.
    pub fn lost(&self, side: Dir) -> u64 {
        self.lost.get(&side).copied().unwrap_or_default()
    }

    /// The number of records with bytes of a side that are not messages: noise and broken frames.
    pub fn stray(&self, side: Dir) -> u64 {
        self.stray.get(&side).copied().unwrap_or_default()
    }

    /// The number of messages in which values were replaced.
    pub fn redacted(&self) -> u64 {
        self.redacted
    }

    /// Returns `true` if the recording has its last record. Without it, the recorder still runs or
    /// was killed.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// Returns `true` if this side speaks first.
    pub fn begins_with(&self, side: Dir) -> bool {
        self.steps.first().is_some_and(|step| step.dir == side)
    }

    /// The framing of the recorded messages.
    pub fn wire(&self) -> Option<Wire> {
        self.wire
    }

    fn steps_of(&self, side: Dir) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(move |step| step.dir == side)
    }

    fn handle_frame(&mut self, record: &Record<'_>) {
        // A client that writes to a server that has ended gets no answer, and changes nothing.
        if record.dir == Dir::C2s && self.is_ended_by_server {
            return;
        }
        self.wire = self.wire.or(record.wire);
        self.redacted += u64::from(record.redacted);
        let number = self.steps.len();
        let json = record.json().unwrap_or_default();
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok();
        let json = if is_json { json } else { "" };
        let mut items = match json {
            "" => Vec::new(),
            json => items_of(json),
        };
        if items.is_empty() && json.is_empty() {
            // The members of the record are all that is known.
            items.extend(
                record.messages().iter().map(|message| Item::new(message, "", record.kind)),
            );
        }
        let messages = record.messages();
        for (at, (item, message)) in items.iter_mut().zip(&messages).enumerate() {
            let mut message = message.clone();
            message.kind = item.kind;
            match self.relations.handle(record, &message) {
                Relation::Answer { to: Some(asked), .. } => {
                    item.method.clone_from(&asked.method);
                    item.request = self.open.remove(&(asked.seq, asked.id));
                    if let Some((step, place)) = item.request
                        && let Some(step) = self.steps.get_mut(step)
                        && let Some(request) = step.items.get_mut(place)
                    {
                        request.answer = Some((number, at));
                    }
                }
                Relation::Request { .. } => {
                    let id = item.id.clone().unwrap_or_default();
                    self.open.insert((record.seq, id), (number, at));
                }
                _ => {}
            }
        }
        self.steps.push(Step {
            seq: record.seq,
            at: record.at,
            dir: record.dir,
            is_cut: json.is_empty(),
            is_redacted: record.redacted,
            json: json.to_owned(),
            items,
        });
    }
}

impl Step {
    /// The text of a message.
    pub(crate) fn item_json(&self, item: usize) -> &str {
        self.items.get(item).and_then(|it| self.json.get(it.range.clone())).unwrap_or_default()
    }

    /// Returns `true` if every message of the frame is an answer to a request.
    pub(crate) fn is_answer(&self) -> bool {
        !self.items.is_empty() && self.items.iter().all(|item| item.request.is_some())
    }
}

impl Item {
    /// A message of a frame. Its parts borrow from the frame.
    fn new(message: &Message<'_>, frame: &str, kind: Kind) -> Self {
        let range = |part: &str| {
            let start = (part.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
            frame.get(start..start.wrapping_add(part.len())).map(|_| start..start + part.len())
        };
        Item {
            kind,
            id: message.id.as_deref().map(ToOwned::to_owned),
            method: message.method.as_deref().unwrap_or_default().to_owned(),
            range: 0..0,
            id_range: message.id.as_deref().and_then(range),
            request: None,
            answer: None,
            hash: values_hash(message),
        }
    }

    /// Returns `true` for a response with a result or an error.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.kind, Kind::Response | Kind::Error)
    }
}

/// The messages of a frame: JSON that was checked.
pub(crate) fn items_of(json: &str) -> Vec<Item> {
    if !json.trim_start().starts_with('[') {
        let mut item = Item::new(&Message::from_json(json), json, kind_of(json));
        item.range = 0..json.len();
        return vec![item];
    }
    let entries: Vec<&serde_json::value::RawValue> = serde_json::from_str(json).unwrap_or_default();
    let item = |entry: &&serde_json::value::RawValue| {
        let text = entry.get();
        let mut item = Item::new(&Message::from_json(text), json, kind_of(text));
        let start = (text.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
        item.range = start..start.wrapping_add(text.len());
        item
    };
    entries.iter().map(item).collect()
}

/// The hash of the values of a message. The order of members does not matter.
pub(crate) fn values_hash(message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in [message.params, message.result, message.error] {
        let value = part.map(|part| serde_json::from_str::<Value>(part).ok());
        // Members are in the order of their names.
        value.map(|value| value.map_or_else(String::new, |it| it.to_string())).hash(&mut hasher);
    }
    hasher.finish()
}

/// The value of an id: `"a"` and `"\u0061"` are the same.
pub(crate) fn id_key(id: &str) -> String {
    match serde_json::from_str::<String>(id) {
        Ok(text) => format!("\"{text}"),
        Err(_) => id.to_owned(),
    }
}
