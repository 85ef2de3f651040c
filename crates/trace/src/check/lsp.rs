//! The rules of the Language Server Protocol for a session.
//!
//! ```text
//!   Start ──initialize──▶ Asked ──answer──▶ Answered ──initialized──▶ Running ──shutdown──▶ Down ──exit──▶ Exited
//! ```
//!
//! | phase | the client may send | the server may send |
//! |---|---|---|
//! | `Start` | `initialize`, `exit` | nothing |
//! | `Asked` | `$/cancelRequest`, `$/…` | `window/logMessage`, `window/showMessage`, `window/showMessageRequest`, `telemetry/event`, `$/…` |
//! | `Answered` | `initialized`, `shutdown`, `exit` first | anything |
//! | `Running` | anything but `initialize`, `initialized` | anything |
//! | `Down` | `exit`, answers | anything |

use super::Rule;
use crate::message::Message;
use crate::record::Dir;
use crate::relations::Relation;

/// The phase of a session. A mistake is reported once, and the session then goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Start,
    Asked,
    Answered,
    Running,
    Down,
    Exited,
}

// Same name: each protocol has its state.
#[derive(Debug, Default)]
pub(super) struct State {
    phase: Phase,
    /// `exit` came without `shutdown`, so the server has to exit with 1.
    is_forced: bool,
    /// The server refused `initialize`.
    is_refused: bool,
    /// The mistake in the handshake was reported.
    is_reported: bool,
}

const EARLY: [&str; 4] =
    ["window/logMessage", "window/showMessage", "window/showMessageRequest", "telemetry/event"];

impl State {
    pub(super) fn handle(
        &mut self,
        dir: Dir,
        message: &Message<'_>,
        relation: &Relation,
    ) -> Vec<(Rule, String)> {
        if let Relation::Answer { to: Some(asked), .. } = relation {
            if asked.method == "initialize" && self.phase == Phase::Asked {
                // After an error, the client may try again.
                self.is_refused = message.error.is_some();
                self.phase = if self.is_refused { Phase::Start } else { Phase::Answered };
            }
            return Vec::new();
        }
        let Some(method) = message.method.as_deref().filter(|_| !message.is_answer()) else {
            return Vec::new();
        };
        match dir {
            Dir::C2s => self.handle_client(method),
            _ => self.handle_server(method),
        }
    }

    /// The exit code that the protocol asks for.
    pub(super) fn expected_exit_code(&self) -> i32 {
        i32::from(self.is_forced)
    }

    pub(super) fn handle_eof(&mut self) -> Vec<(Rule, String)> {
        match self.phase {
            Phase::Exited => Vec::new(),
            Phase::Down => vec![(Rule::LspNoShutdown, "the client left without exit".to_owned())],
            _ => {
                vec![(Rule::LspNoShutdown, "the client left without shutdown and exit".to_owned())]
            }
        }
    }

    fn handle_client(&mut self, method: &str) -> Vec<(Rule, String)> {
        let before = self.phase;
        match (before, method) {
            (Phase::Exited, _) => {
                return vec![(
                    Rule::LspAfterShutdown,
                    format!("the client sent {method} after exit"),
                )];
            }
            (_, "exit") => {
                self.phase = Phase::Exited;
                self.is_forced = before != Phase::Down;
                if self.is_forced {
                    let text = "the client sent exit without shutdown".to_owned();
                    return vec![(Rule::LspNoShutdown, text)];
                }
            }
            (Phase::Start, "initialize") => self.phase = Phase::Asked,
            (_, "initialize") => {
                return vec![(Rule::LspInitializeTwice, "the client sent initialize twice".into())];
            }
            (Phase::Start, _) => {
                self.note_shutdown(method);
                let text = match self.is_refused {
                    true => format!("the client sent {method} although initialize failed"),
                    false => format!("the client sent {method} before initialize"),
                };
                return self.once(Rule::LspInitializeFirst, text);
            }
            (Phase::Asked, _) if method.starts_with("$/") => {}
            (Phase::Asked, _) => {
                self.note_shutdown(method);
                let text = format!("the client sent {method} before the answer to initialize");
                return self.once(Rule::LspBeforeInitialized, text);
            }
            (Phase::Down, _) if !method.starts_with("$/") => {
                let text = format!("the client sent {method} after shutdown");
                return vec![(Rule::LspAfterShutdown, text)];
            }
            (Phase::Answered | Phase::Running, "shutdown") => self.phase = Phase::Down,
            (Phase::Answered, "initialized") => self.phase = Phase::Running,
            (Phase::Answered, _) if !method.starts_with("$/") => {
                self.phase = Phase::Running;
                let text = format!("the client sent {method} before initialized");
                return self.once(Rule::LspBeforeInitialized, text);
            }
            (Phase::Running, "initialized") if !self.is_reported => {
                return vec![(
                    Rule::LspInitializeTwice,
                    "the client sent initialized twice".into(),
                )];
            }
            _ => {}
        }
        Vec::new()
    }

    /// A shutdown counts, even if it came too early.
    fn note_shutdown(&mut self, method: &str) {
        if method == "shutdown" {
            self.phase = Phase::Down;
        }
    }

    fn handle_server(&mut self, method: &str) -> Vec<(Rule, String)> {
        let is_early = matches!(self.phase, Phase::Start | Phase::Asked);
        let is_allowed = EARLY.contains(&method) || method.starts_with("$/");
        match is_early && !is_allowed {
            true => {
                let text = format!("the server sent {method} before it answered initialize");
                self.once(Rule::LspBeforeInitialized, text)
            }
            false => Vec::new(),
        }
    }

    /// The first mistake in a handshake causes others.
    fn once(&mut self, rule: Rule, text: String) -> Vec<(Rule, String)> {
        match std::mem::replace(&mut self.is_reported, true) {
            true => Vec::new(),
            false => vec![(rule, text)],
        }
    }
}
