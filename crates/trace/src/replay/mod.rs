//! The recorded client of a session, against a server that runs. Without I/O and without a clock: the
//! time is an argument, in microseconds.
//!
//! | the next message of the client | is sent as soon as |
//! |---|---|
//! | any | the messages of the client before it are sent |
//! | a request or notification | the counterparts of all messages that the server had sent before it have come |
//! | an answer to the server | its request has come, and the answers that the server had given before it |
//!
//! | the server | the replay |
//! |---|---|
//! | does not answer a request within `timeout` | ends: [`Ending::TimedOut`] |
//! | is silent for `patience`, and a notification or request is missing | goes on without it |
//! | is silent for `patience`, and waits for an answer of ours | answers before its turn |
//! | asks something that the recording does not have | answers with an error |
//! | closes the stream before the last answer | ends: [`Ending::ServerEnded`] |
//!
//! So a replay makes progress, or says what it waits for.

mod expected;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::record::{Dir, Kind};
use crate::script::scalars::splice;
use crate::script::{Item, Place, Script, Step, id_key, items_of};
use crate::variables::{Table, Variables};
use expected::Expected;

/// The time at which a client message is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As soon as the server has said what it had said before.
    #[default]
    Asap,
    /// Also not earlier than in the recording.
    Recorded,
}

/// Settings of a replay. Times are in microseconds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// When messages are sent.
    pub pace: Pace,
    /// The longest time to wait for an answer.
    pub timeout: u64,
    /// The time of silence after which the replay goes on without a notification or a request of the server.
    pub patience: u64,
    /// The time of silence at the end, in which the server may send more than in the recording.
    pub linger: u64,
    /// Texts to replace in the client's messages: old and new.
    pub maps: Vec<(String, String)>,
    /// Replace values that the server made up.
    pub learns: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        ReplayOptions {
            pace: Pace::Asap,
            timeout: 30_000_000,
            patience: 2_000_000,
            linger: 100_000,
            maps: Vec::new(),
            learns: true,
        }
    }
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this message, and ask again.
    Send(Outgoing),
    /// Ask again at this time, or when a message came.
    Wait(u64),
    /// Close the connection.
    Finished(Ending),
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outgoing {
    /// The message for the server.
    pub json: String,
    /// The same message with the values of the recording, for comparison.
    pub recorded: String,
}

/// The end of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Every message was sent.
    Complete,
    /// The server did not answer. Says what is missing.
    TimedOut(String),
    /// The server ended too early. Says what is missing.
    ServerEnded(String),
}

/// Plays the client of a recorded session.
///
/// ```
/// use std::sync::Arc;
/// use duet_rpc_trace::{Action, Body, Dir, Ending, Kind, Record, Replay, ReplayOptions, Script};
///
/// let mut script = Script::new();
/// let mut say = |seq, dir, kind, json| {
///     let mut record = Record::new(seq, seq, dir, kind);
///     record.body = Some(Body::from_json(json));
///     script.handle(&record);
/// };
/// say(1, Dir::C2s, Kind::Request, r#"{"id":1,"method":"open"}"#);
/// say(2, Dir::S2c, Kind::Response, r#"{"id":1,"result":{"session":"a"}}"#);
/// say(3, Dir::C2s, Kind::Notification, r#"{"method":"close","params":{"session":"a"}}"#);
///
/// let mut replay = Replay::new(Arc::new(script), ReplayOptions::default());
/// let Action::Send(open) = replay.poll(0) else { panic!("the client speaks first") };
/// assert_eq!(open.json, r#"{"id":1,"method":"open"}"#);
/// assert!(matches!(replay.poll(0), Action::Wait(_)));
/// replay.handle_message(5, r#"{"id":1,"result":{"session":"b"}}"#);
/// let Action::Send(close) = replay.poll(5) else { panic!("the answer came") };
/// assert_eq!(close.json, r#"{"method":"close","params":{"session":"b"}}"#);
/// replay.handle_end(9);
/// assert_eq!(replay.poll(9), Action::Finished(Ending::Complete));
/// ```
#[derive(Debug)]
pub struct Replay {
    script: Arc<Script>,
    variables: Arc<Variables>,
    options: ReplayOptions,
    table: Table,
    expected: Expected,
    /// The steps of the client that are not sent yet, from this one on.
    next: usize,
    /// Answers of the client that were sent before their turn, by step.
    early: Vec<usize>,
    /// Requests that were sent and not answered, by the value of their id.
    open: HashMap<String, Vec<Place>>,
    /// Answers to requests that the recording does not have.
    refusals: Vec<String>,
    /// The time of the first message, and that of the recording.
    start: Option<(u64, u64)>,
    /// The time of the last message of either side.
    last: u64,
    /// The time since which the replay waits for the same.
    since: u64,
    has_ended: bool,
}

impl Replay {
    /// A replay at its start.
    pub fn new(script: Arc<Script>, options: ReplayOptions) -> Self {
        let variables = match options.learns {
            true => Variables::learn(&script, Dir::C2s, |_| true),
            false => Variables::default(),
        };
        Replay::with_variables(script, Arc::new(variables), options)
    }

    /// Another replay of the same recording, from its start.
    #[must_use]
    pub fn again(&self) -> Self {
        let (script, variables) = (Arc::clone(&self.script), Arc::clone(&self.variables));
        Replay::with_variables(script, variables, self.options.clone())
    }

    fn with_variables(
        script: Arc<Script>,
        variables: Arc<Variables>,
        options: ReplayOptions,
    ) -> Self {
        let mut replay = Replay {
            table: Table::new(options.maps.clone()),
            expected: Expected::new(&script),
            script,
            variables,
            options,
            next: 0,
            early: Vec::new(),
            open: HashMap::new(),
            refusals: Vec::new(),
            start: None,
            last: 0,
            since: 0,
            has_ended: false,
        };
        replay.skip();
        replay
    }

    /// The next thing to do at this time.
    pub fn poll(&mut self, now: u64) -> Action {
        if self.start.is_none() {
            let recorded = self.step().map_or(0, |step| step.at);
            self.start = Some((now, recorded));
            (self.last, self.since) = (now, now);
        }
        if let Some(json) = self.refusals.pop() {
            return Action::Send(Outgoing { recorded: json.clone(), json });
        }
        let mut quiet_end = self.last.saturating_add(self.options.patience).min(self.time_out());
        loop {
            let Some(step) = self.step() else { return self.poll_end(now, quiet_end) };
            if self.has_ended {
                return Action::Finished(Ending::ServerEnded(self.missing()));
            }
            match self.expected.is_open_before(self.next, step) {
                None => {
                    let due = self.due();
                    if now < due {
                        return Action::Wait(due);
                    }
                    if let Some(outgoing) = self.send(self.next) {
                        self.next += 1;
                        self.skip();
                        (self.last, self.since) = (now, now);
                        return Action::Send(outgoing);
                    }
                    // Its request never came.
                    self.next += 1;
                    self.skip();
                }
                Some(_) if now < quiet_end => return Action::Wait(quiet_end),
                Some(is_strict) => {
                    if self.expected.give_up_before(self.next) {
                        continue;
                    }
                    if let Some(early) = self.early_answer() {
                        self.last = now;
                        return Action::Send(early);
                    }
                    debug_assert!(is_strict, "everything else was given up");
                    if now >= self.time_out() {
                        return Action::Finished(Ending::TimedOut(self.missing()));
                    }
                    quiet_end = self.time_out();
                }
            }
        }
    }

    /// Takes a message of the server: JSON that was checked. Returns it with the values of the recording.
    pub fn handle_message(&mut self, now: u64, json: &str) -> String {
        self.last = now;
        for item in items_of(json) {
            let text = json.get(item.range.clone()).unwrap_or_default();
            let counterpart = match item.is_answer() {
                true => {
                    let request = item.id.as_deref().and_then(|id| self.take_open(id));
                    let answer =
                        request.and_then(|(step, at)| self.script.steps[step].items[at].answer);
                    answer.or_else(|| self.expected.take_stray(&self.script, &item))
                }
                false => {
                    let restored = self.table.restore(text);
                    let hash = items_of(&restored).first().map_or(0, |item| item.hash);
                    let found = self.expected.take(&item, hash);
                    if let (Kind::Request, None, Some(id)) = (item.kind, found, &item.id) {
                        self.refusals.push(refusal(id));
                    }
                    found
                }
            };
            let Some(place) = counterpart else { continue };
            self.since = now;
            self.expected.settle(place, item.id.as_deref());
            self.table.learn(&self.script, &self.variables, place, text);
        }
        self.table.restore(json).into_owned()
    }

    /// Notes that the server closed the stream.
    pub fn handle_end(&mut self, now: u64) {
        (self.last, self.has_ended) = (now, true);
    }

    /// What the replay waits for, in words.
    pub fn missing(&self) -> String {
        let mut names = self.expected.open(&self.script, self.next);
        let count = names.len();
        names.truncate(3);
        let mut text = names.join(", ");
        if count > names.len() {
            // Writing to a string does not fail.
            let _ = write!(text, " and {} more", count - names.len());
        }
        match (text.is_empty(), self.step()) {
            (true, Some(step)) => format!("record {} of the client was not sent", step.seq),
            _ => text,
        }
    }

    fn poll_end(&mut self, now: u64, quiet_end: u64) -> Action {
        let all = self.script.steps.len();
        let (is_open, is_strict) = self.expected.open_kinds();
        if self.has_ended {
            return Action::Finished(match is_strict {
                true => Ending::ServerEnded(self.missing()),
                false => Ending::Complete,
            });
        }
        if !is_open {
            // A server that ended by itself does so again; any other may have more to say.
            let linger = match self.script.is_ended_by_server {
                true => self.options.patience,
                false => self.options.linger,
            };
            let end = self.last.saturating_add(linger).min(self.time_out());
            return if now < end { Action::Wait(end) } else { Action::Finished(Ending::Complete) };
        }
        if now < quiet_end {
            return Action::Wait(quiet_end);
        }
        if !self.expected.give_up_before(all) && is_strict {
            if now >= self.time_out() {
                return Action::Finished(Ending::TimedOut(self.missing()));
            }
            return Action::Wait(self.time_out());
        }
        if is_strict {
            return Action::Wait(self.time_out());
        }
        Action::Finished(Ending::Complete)
    }

    fn step(&self) -> Option<&Step> {
        self.script.steps.get(self.next)
    }

    /// Goes to the next step of the client that is not sent.
    fn skip(&mut self) {
        while self.step().is_some_and(|step| step.dir != Dir::C2s)
            || self.early.contains(&self.next)
        {
            self.next += 1;
        }
    }

    fn time_out(&self) -> u64 {
        self.since.saturating_add(self.options.timeout)
    }

    /// The earliest time of the next message.
    fn due(&self) -> u64 {
        match (self.options.pace, self.start, self.step()) {
            (Pace::Recorded, Some((now, recorded)), Some(step)) => {
                now.saturating_add(step.at.saturating_sub(recorded))
            }
            _ => 0,
        }
    }

    /// An answer to a request that came before its turn.
    fn early_answer(&mut self) -> Option<Outgoing> {
        let is_ready = |(number, step): &(usize, &Step)| {
            step.dir == Dir::C2s
                && step.is_answer()
                && !self.early.contains(number)
                && step
                    .items
                    .iter()
                    .all(|item| item.request.is_some_and(|it| self.expected.id_of(it).is_some()))
        };
        let mut steps = self.script.steps.iter().enumerate().skip(self.next);
        let number = steps.find(is_ready)?.0;
        self.early.push(number);
        let outgoing = self.send(number);
        self.skip();
        outgoing
    }

    /// The message of a step; `None` for an answer to a request that never came.
    fn send(&mut self, number: usize) -> Option<Outgoing> {
        let step = &self.script.steps[number];
        let mut ids = Vec::new();
        for (at, item) in step.items.iter().enumerate() {
            match (item.request, item.id.as_deref(), &item.id_range) {
                (Some(request), _, Some(range)) => {
                    ids.push((range.clone(), self.expected.id_of(request)?.to_owned()));
                }
                (None, Some(id), _) if item.kind == Kind::Request => {
                    self.open.entry(id_key(id)).or_default().push((number, at));
                }
                _ => {}
            }
        }
        let uses = self.variables.uses.get(&number);
        let mut json = self.table.fill(&step.json, uses, &self.variables).into_owned();
        if !ids.is_empty() {
            // Values before an id may have changed its position.
            json = with_ids(&json, &ids);
        }
        let recorded = if ids.is_empty() { step.json.clone() } else { with_ids(&step.json, &ids) };
        Some(Outgoing { json, recorded })
    }

    fn take_open(&mut self, id: &str) -> Option<Place> {
        let key = id_key(id);
        let open = self.open.get_mut(&key)?;
        let place = (!open.is_empty()).then(|| open.remove(0));
        if open.is_empty() {
            self.open.remove(&key);
        }
        place
    }
}

/// Replaces the ids of the answers in a frame, in their order.
fn with_ids(json: &str, ids: &[(std::ops::Range<usize>, String)]) -> String {
    let answers = items_of(json).into_iter().filter(Item::is_answer);
    let ranges = answers.filter_map(|item| item.id_range);
    let parts: Vec<_> = ranges.zip(ids).map(|(range, (_, id))| (range, id.clone())).collect();
    splice(json, &parts)
}

/// The answer to a request that the recording does not have.
fn refusal(id: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32601,\"message\":\"Method not found: the recording has no such request\"}}}}"
    )
}
