//! What becomes of one message: the rules change the plan one after the other.
//!
//! Every rule looks at the message as it came; its change is made to what the rules before it left. A rule
//! after one that takes the message away (`drop`, `cut`, `half-close`, `kill`) does nothing.

use super::frame::{FaultFrame, id};
use super::json_edit;
use super::line::{NEVER, WritePace};
use super::random::{between, mix};
use super::rule::{Corruption, Fault};
use crate::record::Kind;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Drop,
    HalfClose,
    Cut,
    Kill(i32),
}

/// The plan for one message.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) fate: Fate,
    pub(super) frame: FaultFrame,
    kind: Kind,
    /// The message is an answer of ours, and goes back to the sender.
    pub(super) is_answer: bool,
    /// Answers of ours besides the message.
    pub(super) extra: Vec<FaultFrame>,
    pub(super) copies: u32,
    /// The time by which it is late.
    pub(super) delay: u64,
    pub(super) pace: WritePace,
    /// Messages that may overtake it, and the time after which it comes all the same.
    pub(super) overtaken: Option<(u32, u64)>,
    /// The time of a stall that begins with this message.
    pub(super) stall: Option<u64>,
    pub(super) has_print: bool,
}

impl Plan {
    /// The message as it came.
    pub(super) fn new(kind: Kind, frame: FaultFrame) -> Self {
        Plan {
            fate: Fate::Pass,
            frame,
            kind,
            is_answer: false,
            extra: Vec::new(),
            copies: 1,
            delay: 0,
            pace: WritePace::Whole,
            overtaken: None,
            stall: None,
            has_print: false,
        }
    }

    /// Returns `true` if the fault can be made in this message.
    pub(super) fn can(&self, fault: &Fault) -> bool {
        let text = || self.frame.text().filter(|_| self.kind.is_message());
        match fault {
            _ if self.fate != Fate::Pass => false,
            Fault::Corrupt(how @ (Corruption::Json | Corruption::Utf8 | Corruption::Id)) => {
                self.kind.is_message() && self.frame.can(*how)
            }
            Fault::Corrupt(how) => self.frame.can(*how),
            Fault::Set { steps, value } => {
                self.may_have(steps)
                    && text().is_some_and(|text| json_edit::set(text, steps, value).is_some())
            }
            Fault::Unset { steps } => {
                text().is_some_and(|text| json_edit::get(text, steps).is_some())
            }
            Fault::Error { .. } | Fault::Answer(_) => {
                !self.is_answer && text().is_some_and(|text| self.answered_id(text).is_some())
            }
            _ => true,
        }
    }

    /// Returns `true` if messages of this kind have the member that a pointer begins with. Otherwise a rule
    /// for answers would add a result to requests.
    fn may_have(&self, steps: &[String]) -> bool {
        let is_answer = self.is_answer || matches!(self.kind, Kind::Response | Kind::Error);
        match steps.first().map(String::as_str) {
            Some("result" | "error") => is_answer,
            Some("method" | "params") => !is_answer,
            _ => true,
        }
    }

    /// The id of the request that an answer of ours would answer.
    fn answered_id<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self.kind {
            Kind::Request | Kind::Response | Kind::Error => id(text),
            Kind::Notification => cancelled_id(text),
            _ => None,
        }
    }

    /// Makes the fault. `random` is the number for this rule and message.
    pub(super) fn apply(&mut self, fault: &Fault, random: u64) {
        match fault {
            Fault::Delay { least, most } => {
                let delay = between(mix(&[random, 2]), *least, *most);
                self.delay = self.delay.saturating_add(delay);
            }
            Fault::Throttle(rate) => self.pace = WritePace::Rate(*rate),
            Fault::Slice { size, pause } => {
                self.pace = WritePace::Slices { size: *size, pause: *pause };
            }
            Fault::Stall(time) => self.stall = Some(time.unwrap_or(NEVER)),
            Fault::Drop => self.fate = Fate::Drop,
            Fault::Dup(copies) => self.copies = self.copies.saturating_mul(*copies).min(1_000),
            Fault::Reorder { count, most } => self.overtaken = Some((*count, *most)),
            Fault::Cut => self.fate = Fate::Cut,
            Fault::HalfClose => self.fate = Fate::HalfClose,
            Fault::Kill(signal) => self.fate = Fate::Kill(*signal),
            Fault::Corrupt(Corruption::Print) => self.has_print = true,
            Fault::Corrupt(how) => self.frame.corrupt(*how, mix(&[random, 3])),
            Fault::Error { code, text } => {
                let text = serde_json::Value::from(text.as_str());
                self.answer(&format!("\"error\":{{\"code\":{code},\"message\":{text}}}"));
            }
            Fault::Answer(result) => self.answer(&format!("\"result\":{result}")),
            Fault::Set { steps, value } => self.edit(|text| json_edit::set(text, steps, value)),
            Fault::Unset { steps } => self.edit(|text| json_edit::unset(text, steps)),
        }
    }

    fn edit(&mut self, change: impl FnOnce(&str) -> Option<String>) {
        if let Some(body) = self.frame.text().and_then(change) {
            self.frame.set_body(body.into_bytes());
        }
    }

    /// Answers a request in the place of its receiver, replaces an answer, or answers a request that was
    /// cancelled.
    fn answer(&mut self, outcome: &str) {
        let Some(id) = self.frame.text().and_then(|text| self.answered_id(text)) else { return };
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{outcome}}}");
        match self.kind {
            Kind::Response | Kind::Error => self.frame.set_body(body.into_bytes()),
            Kind::Notification => self.extra.push(FaultFrame::new(self.frame.wire, body)),
            _ => {
                self.frame = FaultFrame::new(self.frame.wire, body);
                self.is_answer = true;
            }
        }
    }
}

/// The id that a cancellation names.
fn cancelled_id(text: &str) -> Option<&str> {
    let get = |path: &[&str]| {
        let steps: Vec<_> = path.iter().map(|step| (*step).to_owned()).collect();
        json_edit::get(text, &steps)
    };
    let method = serde_json::from_str::<String>(get(&["method"])?).ok()?;
    match &*method {
        "$/cancelRequest" => get(&["params", "id"]),
        "notifications/cancelled" => get(&["params", "requestId"]),
        _ => None,
    }
}
