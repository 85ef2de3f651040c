//! Checks a trace for faults of the programs in it.
//!
//! ```text
//!   record ─▶ Checker ─┬─ bytes: noise, broken frames, messages after the end
//!                      ├─ relations: unanswered, answered twice, ids, cancellations, latency
//!                      ├─ process: exit code, time to exit, processes left behind
//!                      └─ protocol: the handshake and shutdown of LSP or MCP
//! ```
//!
//! Findings that a fault rule of the tap explains are marked: see `made.rs`.
//!
//! The checker reads each record once and keeps only the open requests.

mod handshake;
mod lsp;
mod made;
mod mcp;
mod rule;
mod wording;

use std::collections::{HashMap, HashSet};

use crate::message::Message;
use crate::record::{Dir, Kind, Record};
use crate::relations::{OpenRequest, REMEMBERED, Relation, Relations};
use made::{MadeFaults, Subject};
pub use rule::Rule;
pub use wording::shown_time;
use wording::{excerpt, other_framing, sender};

/// The time that a server has to exit after its input ended, in microseconds.
const EXIT_WITHIN: u64 = 2_000_000;

/// An answer may cross the cancellation of its request on the way, in microseconds.
const CROSSING: u64 = 100_000;

/// The last records of a recorder that was killed are missing. A request of this time before the end of such a trace may
/// have an answer, in microseconds.
const LAST_MOMENTS: u64 = 1_000_000;

/// A fault in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The record, or the request if an answer is missing.
    pub seq: u64,
    /// The time of the record.
    pub at: u64,
    /// The line of the record in the file; 0 if it is not known.
    pub line: u64,
    /// The fault, as one sentence without a full stop.
    pub text: String,
    /// A fault that the tap made on purpose explains it, so it is not a fault of the two programs.
    pub is_made: bool,
}

/// A protocol on top of JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// The Language Server Protocol.
    Lsp,
    /// The Model Context Protocol.
    Mcp,
}

/// Settings of a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The threshold for slow answers, in microseconds.
    pub slow: Option<u64>,
    /// Adds the rules of a protocol.
    pub protocol: Option<Protocol>,
    /// Rules that are not checked.
    pub allow: Vec<Rule>,
}

/// Finds faults, record by record.
#[derive(Debug, Default)]
pub struct Checker {
    options: CheckOptions,
    relations: Relations,
    /// The lines of open requests, by `seq`.
    lines: HashMap<u64, u64>,
    handshake: ProtocolState,
    made: MadeFaults,
    /// The time at which the stream of a direction ended.
    client_eof: Option<u64>,
    server_eof: Option<u64>,
    /// Signals that were passed on to the server.
    signals: Vec<i32>,
    /// Frames of each side that the other could not understand, which it may report with `id: null`.
    unclear_from_client: u64,
    unclear_from_server: u64,
    /// The time of the last record.
    last: u64,
    /// The session has ended, so no answer can be missing from the trace.
    is_over: bool,
    findings: Vec<Finding>,
}

/// The state of the protocol.
#[derive(Debug, Default)]
enum ProtocolState {
    #[default]
    None,
    Lsp(lsp::State),
    Mcp(mcp::State),
}

/// The place of a record, for findings.
#[derive(Clone, Copy)]
struct RecordPlace {
    seq: u64,
    at: u64,
    line: u64,
    dir: Dir,
}

impl Checker {
    /// A checker at the start of a session.
    pub fn new(options: CheckOptions) -> Self {
        let handshake = match options.protocol {
            None => ProtocolState::None,
            Some(Protocol::Lsp) => ProtocolState::Lsp(lsp::State::default()),
            Some(Protocol::Mcp) => ProtocolState::Mcp(mcp::State::default()),
        };
        Checker { options, handshake, ..Checker::default() }
    }

    /// Takes the next record, and its line in the file.
    pub fn handle(&mut self, record: &Record<'_>, line: u64) {
        let place = RecordPlace { seq: record.seq, at: record.at, line, dir: record.dir };
        self.last = self.last.max(record.at);
        self.is_over |= match record.kind {
            Kind::End | Kind::Exit => true,
            Kind::Eof => record.dir == Dir::S2c,
            _ => false,
        };
        self.handle_bytes(record, place);
        self.handle_process(record, place);
        let messages = record.messages();
        if let ProtocolState::Mcp(state) = &mut self.handshake {
            let found = state.handle_record(record);
            self.report(found, place);
        }
        for message in &messages {
            let relation = self.relations.handle(record, message);
            self.handle_message(record, message, &relation, place);
            let found = match &mut self.handshake {
                ProtocolState::None => Vec::new(),
                ProtocolState::Lsp(state) => {
                    state.handle(record.dir, message, &relation).into_iter().collect()
                }
                ProtocolState::Mcp(state) => state.handle(record.dir, message, &relation),
            };
            let about = Subject { dir: record.dir, id: message.id.as_deref(), since: record.at };
            for (rule, text) in found {
                self.find_about(rule, place, text, about);
            }
        }
        self.made.handle(record);
    }

    /// The findings so far. The list is then empty.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// Records before the next one are missing: a part of the trace was removed. Answers to requests in them are not
    /// findings, and the rules of the protocol are not checked any more.
    pub fn handle_gap(&mut self) {
        self.relations.handle_gap();
        self.handshake = Default::default();
    }

    /// Requests that are open at the end of a trace that stops before its session: the recorder still runs, or was
    /// killed. Their answers may be missing only from the trace, so they are not findings.
    pub fn pending(&self) -> Vec<Finding> {
        let text = |asked: &OpenRequest| {
            format!("request {} (id {}) was open when the trace stopped", asked.method, asked.id)
        };
        self.open(true).iter().map(|asked| self.unanswered(asked, text(asked))).collect()
    }

    /// Ends the session: requests that are still open have no answer, except for the [`pending`](Checker::pending)
    /// ones.
    pub fn finish(mut self) -> Vec<Finding> {
        for asked in self.open(false) {
            let text = format!("request {} (id {}) has no answer", asked.method, asked.id);
            let Finding { rule, seq, at, line, text, .. } = self.unanswered(&asked, text);
            let place = RecordPlace { seq, at, line, dir: asked.dir };
            self.find_about(rule, place, text, subject(&asked));
        }
        self.findings
    }

    /// The open requests whose answer is due.
    fn open(&self, is_pending: bool) -> Vec<OpenRequest> {
        // Requests after the client's EOF are findings already.
        let eof = self.client_eof.unwrap_or(u64::MAX);
        let is_due =
            |asked: &OpenRequest| !asked.is_dropped && (asked.dir == Dir::C2s || asked.at < eof);
        let may_be_answered = |asked: &OpenRequest| {
            !self.is_over && asked.at.saturating_add(LAST_MOMENTS) >= self.last
        };
        let open = self.relations.open();
        open.filter(|it| is_due(it) && may_be_answered(it) == is_pending).cloned().collect()
    }

    fn unanswered(&self, asked: &OpenRequest, text: String) -> Finding {
        let line = self.lines.get(&asked.seq).copied().unwrap_or_default();
        let (seq, at) = (asked.seq, asked.at);
        Finding { rule: Rule::Unanswered, seq, at, line, text, is_made: false }
    }

    fn handle_bytes(&mut self, record: &Record<'_>, place: RecordPlace) {
        let (dir, size) = (record.dir, record.size.unwrap_or_default());
        let eof = match dir {
            Dir::C2s => &mut self.client_eof,
            Dir::S2c => &mut self.server_eof,
            _ => return,
        };
        let side = sender(dir);
        let has_ended = eof.is_some();
        match record.kind {
            Kind::Eof => *eof = Some(record.at),
            Kind::Noise if other_framing(record).is_some() => {
                let framing = other_framing(record).unwrap_or_default();
                let text = format!(
                    "the {side} wrote {framing}, but the {} uses another framing",
                    sender(if dir == Dir::C2s { Dir::S2c } else { Dir::C2s })
                );
                self.find(Rule::FramingMismatch, place, text);
            }
            Kind::Noise => {
                let shown = record.body.as_ref().map(|body| excerpt(body.as_bytes()));
                let text = format!(
                    "the {side} wrote {size} bytes that are not a message: {}",
                    shown.unwrap_or_default()
                );
                self.find(Rule::Noise, place, text);
            }
            Kind::Broken | Kind::Invalid => {
                match dir {
                    Dir::C2s => self.unclear_from_client += 1,
                    _ => self.unclear_from_server += 1,
                }
                let (rule, what) = match record.kind {
                    Kind::Broken => (Rule::BrokenFrame, "a broken frame"),
                    _ => (Rule::InvalidMessage, "JSON that is not a JSON-RPC message"),
                };
                let why = record.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                self.find(rule, place, format!("the {side} sent {what}{why}"));
            }
            Kind::Loss => self.relations.handle_gap(),
            _ => {}
        }
        if has_ended && record.kind.is_message() {
            let text = format!("the {side} sent a message after the end of its stream");
            self.find(Rule::AfterEof, place, text);
        }
    }

    fn handle_process(&mut self, record: &Record<'_>, place: RecordPlace) {
        match record.kind {
            Kind::Signal => self.signals.extend(record.signal),
            Kind::Exit => {
                let is_expected = match &self.handshake {
                    ProtocolState::Lsp(state) => state.expected_exit_code(),
                    _ => 0,
                };
                match (record.code, record.signal) {
                    (Some(code), _) if code != 0 && code != is_expected => {
                        self.find(Rule::ExitCode, place, format!("the server exited with {code}"));
                    }
                    (_, Some(signal)) if !self.signals.contains(&signal) => {
                        let text = format!("signal {signal} ended the server");
                        self.find(Rule::ExitCode, place, text);
                    }
                    _ => {}
                }
                if let Some(eof) = self.client_eof {
                    let took = record.at.saturating_sub(eof);
                    if took > EXIT_WITHIN {
                        let text = format!("the server exited {} after EOF", shown_time(took));
                        self.find(Rule::LateExit, place, text);
                    }
                }
                if let Some(left) = record.left.filter(|left| *left > 0) {
                    let what = if left == 1 { "process" } else { "processes" };
                    let text = format!("the server left {left} {what} behind");
                    self.find(Rule::LeftBehind, place, text);
                }
            }
            Kind::Eof if record.dir == Dir::C2s => {
                if let ProtocolState::Lsp(state) = &mut self.handshake {
                    let found = state.handle_eof();
                    self.report(found.into_iter().collect(), place);
                }
            }
            _ => {}
        }
    }

    fn handle_message(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        relation: &Relation,
        place: RecordPlace,
    ) {
        match relation {
            Relation::Request { in_use } => {
                self.remember_line(place);
                if let Some(OpenRequest { id, method, seq, .. }) = in_use {
                    let text = format!("id {id} is in use by {method} (record {seq})");
                    let about = Subject { dir: record.dir, id: Some(id), since: record.at };
                    self.find_about(Rule::IdInUse, place, text, about);
                }
                // An answer cannot reach the server any more.
                if record.dir == Dir::S2c && self.client_eof.is_some() {
                    let method = message.method.as_deref().unwrap_or_default();
                    let text = format!("the server sent request {method} after the client's EOF");
                    self.find(Rule::AfterEof, place, text);
                }
            }
            Relation::Answer { to: Some(asked), .. } => {
                self.lines.remove(&asked.seq);
                self.handle_answer(record, message, asked, place);
            }
            Relation::Answer { again, .. } => {
                self.handle_stray_answer(record, message, *again, place);
            }
            _ => {}
        }
    }

    fn handle_answer(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        asked: &OpenRequest,
        place: RecordPlace,
    ) {
        let OpenRequest { id, method, .. } = asked;
        let took = record.took.unwrap_or_else(|| record.at.saturating_sub(asked.at));
        if self.options.slow.is_some_and(|slow| took > slow) {
            let text = format!("{method} (id {id}) took {}", shown_time(took));
            self.find_about(Rule::Slow, place, text, subject(asked));
        }
        let since_cancel = asked.cancelled.map(|at| record.at.saturating_sub(at));
        if let Some(since) = since_cancel.filter(|since| asked.is_dropped && *since > CROSSING) {
            let since = shown_time(since);
            let text = format!("{method} (id {id}) was answered {since} after its cancellation");
            self.find_about(Rule::AnswerAfterCancel, place, text, subject(asked));
        }
        let code = message.error_object().map(|error| error.code);
        // LSP allows any server to refuse these.
        if code == Some(-32601) && !method.starts_with("$/") {
            let side = sender(record.dir);
            let text = format!("the {side} does not know {method}");
            self.find_about(Rule::UnknownMethod, place, text, subject(asked));
        }
    }

    fn handle_stray_answer(
        &mut self,
        record: &Record<'_>,
        message: &Message<'_>,
        again: Option<u64>,
        place: RecordPlace,
    ) {
        let (id, side) = (message.id.as_deref().unwrap_or("null"), sender(record.dir));
        let unclear = match record.dir {
            Dir::C2s => &mut self.unclear_from_server,
            _ => &mut self.unclear_from_client,
        };
        let about = Subject { dir: record.dir, id: Some(id), since: record.at };
        if id == "null" && *unclear > 0 {
            *unclear -= 1;
        } else if let Some(seq) = again {
            let text = format!("the {side} answered id {id} twice (request: record {seq})");
            self.find_about(Rule::AnsweredTwice, place, text, about);
        } else if record.of.is_none() && !self.relations.has_gap() {
            let text = format!("the {side} answered id {id}, which no request has");
            self.find_about(Rule::AnswerToNothing, place, text, about);
        }
    }

    fn remember_line(&mut self, place: RecordPlace) {
        self.lines.insert(place.seq, place.line);
        // Requests that the relations have forgotten.
        if self.lines.len() > 2 * REMEMBERED {
            let open: HashSet<_> = self.relations.open().map(|asked| asked.seq).collect();
            self.lines.retain(|seq, _| open.contains(seq));
        }
    }

    fn report(&mut self, found: Vec<(Rule, String)>, place: RecordPlace) {
        for (rule, text) in found {
            self.find(rule, place, text);
        }
    }

    fn find(&mut self, rule: Rule, place: RecordPlace, text: String) {
        let about = Subject { dir: place.dir, id: None, since: place.at };
        self.find_about(rule, place, text, about);
    }

    fn find_about(&mut self, rule: Rule, place: RecordPlace, text: String, about: Subject<'_>) {
        let is_made = self.made.explains(rule, about);
        if !self.options.allow.contains(&rule) {
            let RecordPlace { seq, at, line, .. } = place;
            self.findings.push(Finding { rule, seq, at, line, text, is_made });
        }
    }
}

fn subject(asked: &OpenRequest) -> Subject<'_> {
    Subject { dir: asked.dir, id: Some(&asked.id), since: asked.at }
}
