//! The handshake of LSP and MCP, whose steps are the same: only names and rules differ.
//!
//! ```text
//!   Start ──initialize──▶ Asked ──answer──▶ Answered ──initialized──▶ Running
//!     ▲                     │ error                      (another message: a mistake, once)
//!     └─────────────────────┘
//! ```

use super::Rule;
use crate::message::Message;
use crate::relations::Relation;

/// The names and rules of a protocol.
#[derive(Debug)]
pub(super) struct HandshakeRules {
    /// The notification that ends the handshake.
    pub(super) initialized: &'static str,
    /// A message before `initialize`.
    pub(super) first: Rule,
    /// A second `initialize`.
    pub(super) twice: Rule,
    /// A message before the handshake is over.
    pub(super) before: Rule,
}

/// The phase of a session. A mistake is reported once, and the session then goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakePhase {
    Start,
    Asked,
    Answered,
    Running,
}

/// The handshake of a session.
#[derive(Debug)]
pub(super) struct Handshake {
    rules: &'static HandshakeRules,
    pub(super) phase: HandshakePhase,
    /// The server refused `initialize`.
    is_refused: bool,
    /// The mistake in the handshake was reported.
    pub(super) is_reported: bool,
}

impl Handshake {
    pub(super) fn new(rules: &'static HandshakeRules) -> Self {
        Handshake { rules, phase: HandshakePhase::Start, is_refused: false, is_reported: false }
    }

    /// Takes an answer. Returns `true` if it is the answer to `initialize`.
    pub(super) fn handle_answer(&mut self, message: &Message<'_>, relation: &Relation) -> bool {
        let is_answer = matches!(relation, Relation::Answer { to: Some(asked), .. }
            if asked.method == "initialize" && self.phase == HandshakePhase::Asked);
        if is_answer {
            // After an error, the client may try again.
            self.is_refused = message.error.is_some();
            self.phase =
                if self.is_refused { HandshakePhase::Start } else { HandshakePhase::Answered };
        }
        is_answer
    }

    /// Takes a request or a notification of the client.
    pub(super) fn handle_client(&mut self, method: &str) -> Option<(Rule, String)> {
        let HandshakeRules { initialized, first, twice, before } = self.rules;
        match (self.phase, method) {
            (HandshakePhase::Start, "initialize") => {
                self.phase = HandshakePhase::Asked;
                None
            }
            (_, "initialize") => Some((*twice, "the client sent initialize twice".to_owned())),
            (HandshakePhase::Start, _) if self.is_refused => {
                self.once(*first, format!("the client sent {method} although initialize failed"))
            }
            (HandshakePhase::Start, _) => {
                self.once(*first, format!("the client sent {method} before initialize"))
            }
            (HandshakePhase::Asked, _) => {
                let text = format!("the client sent {method} before the answer to initialize");
                self.once(*before, text)
            }
            (HandshakePhase::Answered, _) => {
                self.phase = HandshakePhase::Running;
                let text = format!("the client sent {method} before {initialized}");
                if method == *initialized { None } else { self.once(*before, text) }
            }
            (HandshakePhase::Running, _) => None,
        }
    }

    /// Reports a message of the server that came too early.
    pub(super) fn report_server(&mut self, method: &str, before: &str) -> Option<(Rule, String)> {
        self.once(self.rules.before, format!("the server sent {method} before {before}"))
    }

    /// The first mistake in a handshake causes others.
    fn once(&mut self, rule: Rule, text: String) -> Option<(Rule, String)> {
        let is_first = !std::mem::replace(&mut self.is_reported, true);
        is_first.then_some((rule, text))
    }
}
