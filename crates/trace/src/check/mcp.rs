//! The rules of the Model Context Protocol for a session.
//!
//! ```text
//!   Start ──initialize──▶ Asked ──answer──▶ Answered ──notifications/initialized──▶ Running
//!     └──server/discover──▶ Running
//! ```
//!
//! `handshake.rs` follows it.
//!
//! | phase | the client may send | the server may send |
//! |---|---|---|
//! | `Start` | `initialize`, `server/discover`, `ping` | nothing |
//! | `Asked` | `ping` | `ping`, `notifications/message` |
//! | `Answered` | `notifications/initialized`, `ping` | `ping`, `notifications/message` |
//! | `Running` | anything but `initialize` | anything |

use std::collections::HashSet;

use super::Rule;
use super::handshake::{Handshake, HandshakePhase, HandshakeRules};
use crate::message::Message;
use crate::record::{Dir, Kind, Record};
use crate::relations::Relation;

/// Ids that are remembered. A session with more requests is checked up to there.
const IDS: usize = 1_000_000;

/// The first version without batches. Versions are dates, so they compare as texts.
const WITHOUT_BATCHES: &str = "2025-06-18";

const HANDSHAKE: HandshakeRules = HandshakeRules {
    initialized: "notifications/initialized",
    first: Rule::McpInitializeFirst,
    twice: Rule::McpInitializeTwice,
    before: Rule::McpBeforeInitialized,
};

// Same name: each protocol has its state.
#[derive(Debug)]
pub(super) struct State {
    handshake: Handshake,
    version: Option<String>,
    ids: HashSet<(bool, String)>,
    initialize: Option<String>,
}

impl Default for State {
    fn default() -> Self {
        let handshake = Handshake::new(&HANDSHAKE);
        State { handshake, version: None, ids: HashSet::new(), initialize: None }
    }
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
        if self.handshake.handle_answer(message, relation) {
            self.version = message.result.and_then(version);
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
        match (self.handshake.phase, method) {
            (_, "ping") => None,
            (HandshakePhase::Start, "server/discover") => {
                self.handshake.phase = HandshakePhase::Running;
                None
            }
            (HandshakePhase::Asked, "notifications/cancelled") => {
                let id = message.param(&["requestId"]).map(str::to_owned);
                (id == self.initialize).then(|| {
                    let text = "the client cancelled initialize".to_owned();
                    (Rule::McpInitializeCancelled, text)
                })
            }
            (phase, _) => {
                if (phase, method) == (HandshakePhase::Start, "initialize") {
                    self.initialize = message.id.as_deref().map(str::to_owned);
                }
                self.handshake.handle_client(method)
            }
        }
    }

    fn handle_server(&mut self, method: &str) -> Option<(Rule, String)> {
        let is_allowed = matches!(method, "ping" | "notifications/message");
        if self.handshake.phase == HandshakePhase::Running || is_allowed {
            return None;
        }
        self.handshake.report_server(method, HANDSHAKE.initialized)
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
