//! The rules of the Language Server Protocol for a session.
//!
//! ```text
//!   Start ──initialize──▶ Asked ──answer──▶ Answered ──initialized──▶ Running ──shutdown──▶ Down ──exit──▶ Exited
//! ```
//!
//! `handshake.rs` follows it up to `Running`, `LspEnd` from there.
//!
//! | phase | the client may send | the server may send |
//! |---|---|---|
//! | `Start` | `initialize`, `exit` | nothing |
//! | `Asked` | `$/cancelRequest`, `$/…` | `window/logMessage`, `window/showMessage`, `window/showMessageRequest`, `telemetry/event`, `$/…` |
//! | `Answered` | `initialized`, `shutdown`, `exit` first | anything |
//! | `Running` | anything but `initialize`, `initialized` | anything |
//! | `Down` | `exit`, answers | anything |

use super::Rule;
use super::handshake::{Handshake, HandshakePhase, HandshakeRules};
use crate::message::Message;
use crate::record::Dir;
use crate::relations::Relation;

const HANDSHAKE: HandshakeRules = HandshakeRules {
    initialized: "initialized",
    first: Rule::LspInitializeFirst,
    twice: Rule::LspInitializeTwice,
    before: Rule::LspBeforeInitialized,
};

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LspEnd {
    Open,
    Down,
    Exited,
}

// Same name: each protocol has its state.
#[derive(Debug)]
pub(super) struct State {
    handshake: Handshake,
    end: LspEnd,
    /// `exit` came without `shutdown`, so the server has to exit with 1.
    is_forced: bool,
}

impl Default for State {
    fn default() -> Self {
        let handshake = Handshake::new(&HANDSHAKE);
        State { handshake, end: LspEnd::Open, is_forced: false }
    }
}

const EARLY: [&str; 4] =
    ["window/logMessage", "window/showMessage", "window/showMessageRequest", "telemetry/event"];

impl State {
    pub(super) fn handle(
        &mut self,
        dir: Dir,
        message: &Message<'_>,
        relation: &Relation,
    ) -> Option<(Rule, String)> {
        self.handshake.handle_answer(message, relation);
        let method = message.method.as_deref().filter(|_| !message.is_answer())?;
        match dir {
            Dir::C2s => self.handle_client(method),
            _ => self.handle_server(method),
        }
    }

    /// The exit code that the protocol asks for.
    pub(super) fn expected_exit_code(&self) -> i32 {
        i32::from(self.is_forced)
    }

    pub(super) fn handle_eof(&mut self) -> Option<(Rule, String)> {
        let without = match self.end {
            LspEnd::Exited => return None,
            LspEnd::Down => "exit",
            LspEnd::Open => "shutdown and exit",
        };
        Some((Rule::LspNoShutdown, format!("the client left without {without}")))
    }

    fn handle_client(&mut self, method: &str) -> Option<(Rule, String)> {
        let phase = self.handshake.phase;
        let is_optional = method.starts_with("$/");
        match (self.end, method) {
            (LspEnd::Exited, _) => {
                let text = format!("the client sent {method} after exit");
                Some((Rule::LspAfterShutdown, text))
            }
            (before, "exit") => {
                self.end = LspEnd::Exited;
                self.is_forced = before != LspEnd::Down;
                let text = "the client sent exit without shutdown".to_owned();
                self.is_forced.then_some((Rule::LspNoShutdown, text))
            }
            (LspEnd::Down, _) if method != "initialize" && !is_optional => {
                let text = format!("the client sent {method} after shutdown");
                Some((Rule::LspAfterShutdown, text))
            }
            // A shutdown counts, even if it came too early.
            (LspEnd::Open, "shutdown") => {
                let is_early = matches!(phase, HandshakePhase::Start | HandshakePhase::Asked);
                let mistake = is_early.then(|| self.handshake.handle_client(method)).flatten();
                (self.end, self.handshake.phase) = (LspEnd::Down, HandshakePhase::Running);
                mistake
            }
            (LspEnd::Open, "initialized") if phase == HandshakePhase::Running => {
                let text = "the client sent initialized twice".to_owned();
                (!self.handshake.is_reported).then_some((Rule::LspInitializeTwice, text))
            }
            _ if is_optional && phase != HandshakePhase::Start => None,
            _ => self.handshake.handle_client(method),
        }
    }

    fn handle_server(&mut self, method: &str) -> Option<(Rule, String)> {
        let is_early =
            matches!(self.handshake.phase, HandshakePhase::Start | HandshakePhase::Asked);
        let is_allowed = EARLY.contains(&method) || method.starts_with("$/");
        match is_early && !is_allowed {
            true => self.handshake.report_server(method, "it answered initialize"),
            false => None,
        }
    }
}
