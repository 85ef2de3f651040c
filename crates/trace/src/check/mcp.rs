//! The rules of the Model Context Protocol for a session.
//!
//! ```text
//!   Start ──initialize──▶ Asked ──answer──▶ Answered ──notifications/initialized──▶ Running
//!     └──server/discover──▶ Running
//! ```
//!
//! | phase | the client may send | the server may send |
//! |---|---|---|
//! | `Start` | `initialize`, `server/discover`, `ping` | nothing |
//! | `Asked` | `ping` | `ping`, `notifications/message` |
//! | `Answered` | `notifications/initialized`, `ping` | `ping`, `notifications/message` |
//! | `Running` | anything but `initialize` | anything |

use std::collections::HashSet;

use super::Rule;
use crate::message::Message;
use crate::record::{Dir, Kind, Record};
use crate::relations::Relation;

/// Ids that are remembered. A session with more requests is checked up to there.
const IDS: usize = 1_000_000;

/// The first version without batches. Versions are dates, so they compare as texts.
const WITHOUT_BATCHES: &str = "2025-06-18";

// Same name: the phases of another protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Start,
    Asked,
    Answered,
    Running,
}

// Same name: each protocol has its state.
#[derive(Debug, Default)]
pub(super) struct State {
    phase: Phase,
    version: Option<String>,
    ids: HashSet<(bool, String)>,
    initialize: Option<String>,
    /// The mistake in the handshake was reported.
    is_reported: bool,
}

impl State {
    /// Takes a record before its messages.
    pub(super) fn handle_record(&mut self, record: &Record<'_>) -> Vec<(Rule, String)> {
        let is_without = self.version.as_deref().is_some_and(|version| version >= WITHOUT_BATCHES);
        match record.kind == Kind::Batch && is_without {
            true => {
                let version = self.version.as_deref().unwrap_or_default();
                vec![(Rule::McpBatch, format!("a batch, but version {version} has none"))]
            }
            false => Vec::new(),
        }
    }

    pub(super) fn handle(
        &mut self,
        dir: Dir,
        message: &Message<'_>,
        relation: &Relation,
    ) -> Vec<(Rule, String)> {
        if let Relation::Answer { to: Some(asked), .. } = relation {
            if asked.method == "initialize" && self.phase == Phase::Asked {
                self.version = message.result.and_then(version);
                self.phase = if message.error.is_some() { Phase::Start } else { Phase::Answered };
            }
            return Vec::new();
        }
        let Some(method) = message.method.as_deref().filter(|_| !message.is_answer()) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if let (Kind::Request, Some(id)) = (message.kind, message.id.as_deref()) {
            let is_new = self.ids.len() >= IDS || self.ids.insert((dir == Dir::C2s, id.to_owned()));
            // A request whose id is still open is the finding of another rule.
            let is_open = matches!(relation, Relation::Request { in_use: Some(_) });
            if id == "null" || (!is_new && !is_open) {
                found.push((Rule::McpIdReused, format!("request {method} has the id {id} again")));
            }
        }
        match dir {
            Dir::C2s => found.extend(self.handle_client(method, message)),
            _ => found.extend(self.handle_server(method)),
        }
        found
    }

    fn handle_client(&mut self, method: &str, message: &Message<'_>) -> Option<(Rule, String)> {
        match (self.phase, method) {
            (_, "ping") => None,
            (Phase::Start, "initialize") => {
                self.phase = Phase::Asked;
                self.initialize = message.id.as_deref().map(str::to_owned);
                None
            }
            (Phase::Start, "server/discover") => {
                self.phase = Phase::Running;
                None
            }
            (_, "initialize") => {
                Some((Rule::McpInitializeTwice, "the client sent initialize twice".to_owned()))
            }
            (Phase::Asked, "notifications/cancelled") => {
                let id = message.param(&["requestId"]).map(str::to_owned);
                (id == self.initialize).then(|| {
                    let text = "the client cancelled initialize".to_owned();
                    (Rule::McpInitializeCancelled, text)
                })
            }
            (Phase::Start, _) => {
                let text = format!("the client sent {method} before initialize");
                self.once(Rule::McpInitializeFirst, text)
            }
            (Phase::Asked, _) => {
                let text = format!("the client sent {method} before the answer to initialize");
                self.once(Rule::McpBeforeInitialized, text)
            }
            (Phase::Answered, "notifications/initialized") => {
                self.phase = Phase::Running;
                None
            }
            (Phase::Answered, _) => {
                self.phase = Phase::Running;
                let text = format!("the client sent {method} before notifications/initialized");
                self.once(Rule::McpBeforeInitialized, text)
            }
            (Phase::Running, _) => None,
        }
    }

    fn handle_server(&mut self, method: &str) -> Option<(Rule, String)> {
        let is_allowed = matches!(method, "ping" | "notifications/message");
        if self.phase == Phase::Running || is_allowed {
            return None;
        }
        let text = format!("the server sent {method} before notifications/initialized");
        self.once(Rule::McpBeforeInitialized, text)
    }

    /// The first mistake in a handshake causes others.
    fn once(&mut self, rule: Rule, text: String) -> Option<(Rule, String)> {
        match std::mem::replace(&mut self.is_reported, true) {
            true => None,
            false => Some((rule, text)),
        }
    }
}

/// The version that the server chose.
fn version(result: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Chosen {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    serde_json::from_str::<Chosen>(result).ok().map(|chosen| chosen.version)
}
