//! The recorded server of a session, for a client that runs. Without I/O and without a clock.
//!
//! | the client | the mock |
//! |---|---|
//! | sends a request that the recording has | sends the recorded answer, with the id of the client |
//! | sends a request again, more often than in the recording | sends the last answer again |
//! | sends another request | does what [`OnMiss`] says |
//! | sends a notification | takes the one of the recording with this method as sent |
//! | has sent a message of the recording, or a later one | sends the notifications and requests that came after it |
//! | answers a request of the server | takes the recorded answer as sent |
//!
//! An answer waits for its request alone, and so nothing can wait for itself. Messages that become ready at the same
//! time are sent in the order of the recording.

mod matching;
mod passing;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use crate::diff::{Change, Pointer};
use crate::record::{Dir, Kind};
use crate::script::scalars::splice;
use crate::script::{Item, Place, Script, id_key, items_of};
use crate::variables::{Table, Variables, is_progress_token};
use matching::{BestMatch, Matching};
use passing::Passing;

/// The answer to a request that the recording does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMiss {
    /// An error.
    Error,
    /// The answer to the request with this method whose params differ least. An error if there is none.
    #[default]
    Nearest,
    /// That of another server: [`MockAction::Pass`].
    Pass,
}

/// Settings of a mock.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MockOptions {
    /// What to do with a request that the recording does not have.
    pub on_miss: OnMiss,
    /// Texts to replace: those of the recording, and those of this client.
    pub maps: Vec<(String, String)>,
    /// Places in messages of the client whose values do not matter. If the server repeats such a value, this client
    /// gets its own.
    pub ignore: Vec<Pointer>,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum MockAction {
    /// Send this message to the client.
    Send(String),
    /// Send this message to the other server.
    Pass(String),
    /// Tell the user.
    Note(MockNote),
}

/// A message of the client that is not as in the recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MockNote {
    /// The method of the message, or of the request that it answers.
    pub method: String,
    /// The record that it was taken for.
    pub seq: Option<u64>,
    /// The differences from this record.
    pub changes: Vec<Change>,
    /// What became of it.
    pub outcome: MockOutcome,
}

/// What became of a message that is not as in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MockOutcome {
    /// It was taken for the nearest message of the recording.
    Nearest,
    /// It was answered with an error.
    Refused,
    /// It was passed on.
    Passed,
    /// It is a notification or an answer that the recording does not have.
    Unknown,
}

impl fmt::Display for MockNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = &self.method;
        match (self.outcome, self.seq) {
            (MockOutcome::Nearest, Some(seq)) => {
                write!(f, "{method}: not in the recording; taken for record {seq}")
            }
            (MockOutcome::Refused, _) => {
                write!(f, "{method}: not in the recording; answered with an error")
            }
            (MockOutcome::Passed, _) => write!(f, "{method}: not in the recording; passed on"),
            _ => write!(f, "{method}: not in the recording"),
        }
    }
}

/// Plays the server of a recorded session.
///
/// ```
/// use std::sync::Arc;
/// use duet_rpc_trace::{Body, Dir, Kind, Mock, MockAction, MockOptions, Record, Script};
///
/// let mut script = Script::new();
/// let mut say = |seq, dir, kind, json| {
///     let mut record = Record::new(seq, seq, dir, kind);
///     record.body = Some(Body::from_json(json));
///     script.handle(&record);
/// };
/// say(1, Dir::C2s, Kind::Request, r#"{"id":1,"method":"open"}"#);
/// say(2, Dir::S2c, Kind::Notification, r#"{"method":"opening"}"#);
/// say(3, Dir::S2c, Kind::Response, r#"{"id":1,"result":true}"#);
///
/// let mut mock = Mock::new(Arc::new(script), MockOptions::default());
/// assert_eq!(mock.poll(), None);
/// mock.handle_message(r#"{"id":"x","method":"open"}"#);
/// assert_eq!(mock.poll(), Some(MockAction::Send(r#"{"method":"opening"}"#.to_owned())));
/// assert_eq!(mock.poll(), Some(MockAction::Send(r#"{"id":"x","result":true}"#.to_owned())));
/// assert_eq!(mock.poll(), None);
/// ```
#[derive(Debug)]
pub struct Mock {
    script: Arc<Script>,
    variables: Arc<Variables>,
    options: MockOptions,
    table: Table,
    matching: Matching,
    passing: Passing,
    /// The last step of the client that has come, plus one.
    frontier: usize,
    /// The next step of the server whose notifications and requests are not sent.
    next: usize,
    /// Requests of the server that the client has not answered, by the value of their id.
    open: HashMap<String, VecDeque<Place>>,
    actions: VecDeque<MockAction>,
    misses: u64,
}

impl Mock {
    /// A server at its start.
    pub fn new(script: Arc<Script>, options: MockOptions) -> Self {
        let is_lenient = options.on_miss == OnMiss::Nearest;
        let variables = Variables::learn(&script, Dir::S2c, |scalar| {
            // Any other value may be what the answer depends on. The nearest answer is a guess anyway, and stderr
            // has the values that it guessed.
            is_lenient || is_progress_token(&scalar.name()) || {
                let path = scalar.path();
                options.ignore.iter().any(|place| place.covers(&path))
            }
        });
        let variables = Arc::new(variables);
        Mock::with_variables(script, variables, options)
    }

    /// Another server of the same recording, for another client.
    #[must_use]
    pub fn again(&self) -> Self {
        let (script, variables) = (Arc::clone(&self.script), Arc::clone(&self.variables));
        Mock::with_variables(script, variables, self.options.clone())
    }

    fn with_variables(
        script: Arc<Script>,
        variables: Arc<Variables>,
        options: MockOptions,
    ) -> Self {
        let mut mock = Mock {
            table: Table::new(options.maps.clone()),
            matching: Matching::new(&script),
            script,
            variables,
            options,
            passing: Passing::default(),
            frontier: 0,
            next: 0,
            open: HashMap::new(),
            actions: VecDeque::new(),
            misses: 0,
        };
        mock.release(Vec::new());
        mock
    }

    /// The next thing to do; `None` until the client sends more.
    pub fn poll(&mut self) -> Option<MockAction> {
        self.actions.pop_front()
    }

    /// The number of requests that were answered with an error because the recording does not have them.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Returns `true` if the other server has not answered everything that was passed on.
    pub fn is_waiting(&self) -> bool {
        self.passing.is_waiting()
    }

    /// Notes that the other server has ended, or cannot be started: open requests get an error.
    pub fn handle_lost_server(&mut self) {
        self.misses += self.passing.handle_lost_server(&mut self.actions);
    }

    /// Takes a message of the client: JSON that was checked.
    pub fn handle_message(&mut self, json: &str) {
        let is_batch = json.trim_start().starts_with('[');
        let mut answers = Vec::new();
        for item in items_of(json) {
            let text = json.get(item.range.clone()).unwrap_or_default();
            match item.kind {
                Kind::Request => answers.extend(self.handle_request(&item, text)),
                Kind::Notification => self.handle_notification(&item, text),
                Kind::Response | Kind::Error => self.handle_answer(&item, text),
                _ => answers.push((None, INVALID.to_owned())),
            }
        }
        if is_batch && !answers.is_empty() {
            let place = answers.iter().filter_map(|(place, _)| *place).min();
            let texts: Vec<_> = answers.into_iter().map(|(_, text)| text).collect();
            answers = vec![(place, format!("[{}]", texts.join(",")))];
        }
        self.release(answers);
    }

    /// Takes a message of the other server.
    pub fn handle_passed(&mut self, json: &str) {
        let Mock { passing, actions, .. } = self;
        for item in items_of(json) {
            let text = json.get(item.range.clone()).unwrap_or_default();
            passing.handle_server(&item, text, actions);
        }
    }

    /// An answer, with its place in the recording. `None` if the recorded server did not answer.
    fn handle_request(&mut self, item: &Item, text: &str) -> Option<(Option<Place>, String)> {
        let restored = self.table.restore(text).into_owned();
        let id = item.id.as_deref().unwrap_or("null");
        let found = self.matching.find(
            &self.script,
            &self.variables,
            &restored,
            item,
            &self.options.ignore,
        );
        let place = match found {
            Some(BestMatch { place, changes }) if changes.is_empty() => place,
            Some(BestMatch { place, changes }) if self.options.on_miss == OnMiss::Nearest => {
                self.note(item, Some(place), changes, MockOutcome::Nearest);
                place
            }
            _ if self.options.on_miss == OnMiss::Pass => {
                self.note(item, None, Vec::new(), MockOutcome::Passed);
                self.passing.pass(item, text, &mut self.actions);
                return None;
            }
            found => {
                self.misses += 1;
                let nearest = found.map(|found| (found.place, found.changes));
                let (place, changes) =
                    nearest.map_or((None, Vec::new()), |(place, it)| (Some(place), it));
                self.note(item, place, changes, MockOutcome::Refused);
                return Some((None, refusal(id, &item.method, place.is_some())));
            }
        };
        self.passing.note_handshake(item, text);
        self.take(place, text);
        let answer = self.script.steps[place.0].items[place.1].answer?;
        let text = self.filled(answer);
        let parts = items_of(&text).first().and_then(|item| item.id_range.clone());
        let parts: Vec<_> = parts.into_iter().map(|range| (range, id.to_owned())).collect();
        Some((Some(answer), splice(&text, &parts)))
    }

    fn handle_notification(&mut self, item: &Item, text: &str) {
        let restored = self.table.restore(text).into_owned();
        let found = self.matching.find(
            &self.script,
            &self.variables,
            &restored,
            item,
            &self.options.ignore,
        );
        // Its id is the client's own, and the answer was sent already.
        let is_cancel = matches!(&*item.method, "$/cancelRequest" | "notifications/cancelled");
        match found {
            Some(BestMatch { place, changes }) => {
                if !changes.is_empty() && !is_cancel {
                    self.note(item, Some(place), changes, MockOutcome::Nearest);
                }
                self.passing.note_handshake(item, text);
                self.take(place, text);
            }
            None if self.options.on_miss == OnMiss::Pass => {
                self.passing.pass(item, text, &mut self.actions);
            }
            None if is_cancel => {}
            None => self.note(item, None, Vec::new(), MockOutcome::Unknown),
        }
    }

    fn handle_answer(&mut self, item: &Item, text: &str) {
        if self.passing.handle_answer(item, text, &mut self.actions) {
            return;
        }
        let key = item.id.as_deref().map(id_key).unwrap_or_default();
        let Some(request) = self.open.get_mut(&key).and_then(VecDeque::pop_front) else {
            return self.note(item, None, Vec::new(), MockOutcome::Unknown);
        };
        let asked = &self.script.steps[request.0].items[request.1];
        let Some(place) = asked.answer else { return };
        let mut answer = items_of(text).swap_remove(0);
        answer.method.clone_from(&asked.method);
        let restored = self.table.restore(text).into_owned();
        let changes = matching::changes(&self.script, place, &restored, &self.options.ignore);
        if !changes.is_empty() && !matching::are_progress_tokens(&self.variables, place, &changes) {
            self.note(&answer, Some(place), changes, MockOutcome::Nearest);
        }
        self.take(place, text);
    }

    /// Notes that a message of the recorded client has come.
    fn take(&mut self, place: Place, text: &str) {
        self.frontier = self.frontier.max(place.0 + 1);
        self.table.learn(&self.script, &self.variables, place, text);
    }

    /// Sends answers, and the notifications and requests that are due, in the order of the recording.
    fn release(&mut self, answers: Vec<(Option<Place>, String)>) {
        let mut ready: Vec<_> =
            answers.into_iter().map(|(place, text)| (place.unwrap_or((0, 0)), text)).collect();
        while let Some(step) = self.script.steps.get(self.next) {
            // Everything that came before the next message of the client is due.
            if step.dir == Dir::C2s && self.next >= self.frontier {
                break;
            }
            for (at, item) in step.items.iter().enumerate() {
                let place = (self.next, at);
                if step.dir != Dir::S2c || item.request.is_some() {
                    continue;
                }
                // An error with `id: null` answers bytes that a mock does not get.
                if !matches!(item.kind, Kind::Notification | Kind::Request) {
                    continue;
                }
                ready.push((place, self.filled(place)));
                if let (Kind::Request, Some(id)) = (item.kind, &item.id) {
                    self.open.entry(id_key(id)).or_default().push_back(place);
                }
            }
            self.next += 1;
        }
        ready.sort_by_key(|(place, _)| *place);
        self.actions.extend(ready.into_iter().map(|(_, text)| MockAction::Send(text)));
    }

    /// The text of a message of the server, with the values of this client.
    fn filled(&self, (step, item): Place) -> String {
        let frame = &self.script.steps[step];
        let uses = self.variables.uses.get(&step);
        let text = self.table.fill(&frame.json, uses, &self.variables);
        let items = items_of(&text);
        let range = items.get(item).map(|item| item.range.clone()).unwrap_or_default();
        text.get(range).unwrap_or_default().to_owned()
    }

    fn note(
        &mut self,
        item: &Item,
        place: Option<Place>,
        changes: Vec<Change>,
        outcome: MockOutcome,
    ) {
        let method = match item.method.is_empty() {
            true => "an answer".to_owned(),
            false => item.method.clone(),
        };
        let seq = place.map(|(step, _)| self.script.steps[step].seq);
        self.actions.push_back(MockAction::Note(MockNote { method, seq, changes, outcome }));
    }
}

/// The answer to a message that is not a JSON-RPC message.
const INVALID: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}"#;

/// The answer to a request that the recording does not have.
fn refusal(id: &str, method: &str, has_method: bool) -> String {
    let (code, message) = match has_method {
        true => (-32602, format!("Invalid params: the recording has {method} with other params")),
        false => (-32601, format!("Method not found: {method} is not in the recording")),
    };
    let message = serde_json::Value::from(message);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}}}}}"
    )
}
