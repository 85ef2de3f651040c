//! Messages for another server, which answers what the recording does not have.
//!
//! | state | a message is passed on |
//! |---|---|
//! | cold | starts the handshake: the `initialize` of the client, if it sent one |
//! | greeting | waits until the other server has answered `initialize` |
//! | warm | goes on immediately |
//!
//! The answer to the handshake is dropped: the client has the recorded one. Requests of the other server get ids
//! that the recorded server does not use.

use std::collections::{HashMap, VecDeque};

use super::MockAction;
use crate::record::Kind;
use crate::script::scalars::splice;
use crate::script::{Item, id_key};

#[derive(Debug, Default)]
pub(super) struct Passing {
    state: PassingState,
    /// The `initialize` of the client, and its notification that it is initialized.
    initialize: Option<(String, String)>,
    initialized: Option<String>,
    /// The ids of requests of the other server, by the id that the client got.
    ids: HashMap<String, String>,
    count: u64,
    /// The requests of the client that were passed on and not answered: their ids by value.
    open: HashMap<String, String>,
}

#[derive(Debug, Default)]
enum PassingState {
    #[default]
    Cold,
    /// Has the messages that wait.
    Greeting(Vec<String>),
    Warm,
}

impl Passing {
    /// Keeps the handshake of the client.
    pub(super) fn note_handshake(&mut self, item: &Item, text: &str) {
        match (&*item.method, &item.id) {
            ("initialize", Some(id)) => self.initialize = Some((id_key(id), text.to_owned())),
            ("initialized" | "notifications/initialized", None) => {
                self.initialized = Some(text.to_owned());
            }
            _ => {}
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Answers the open requests with an error, and begins anew. Returns their number.
    pub(super) fn handle_lost_server(&mut self, actions: &mut VecDeque<MockAction>) -> u64 {
        (self.state, self.ids) = (PassingState::Cold, HashMap::new());
        // Messages for the server that is gone.
        actions.retain(|action| !matches!(action, MockAction::Pass(_)));
        let mut ids: Vec<_> = self.open.drain().map(|(_, id)| id).collect();
        ids.sort();
        let count = ids.len() as u64;
        actions.extend(ids.into_iter().map(|id| {
            MockAction::Send(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32603,\"message\":\"Internal error: the server has ended\"}}}}"
            ))
        }));
        count
    }

    /// Passes a message of the client on.
    pub(super) fn pass(&mut self, item: &Item, text: &str, actions: &mut VecDeque<MockAction>) {
        if let (Kind::Request, Some(id)) = (item.kind, &item.id) {
            self.open.insert(id_key(id), id.clone());
        }
        match (&mut self.state, &self.initialize) {
            (PassingState::Cold, Some((_, initialize))) => {
                actions.push_back(MockAction::Pass(initialize.clone()));
                self.state = PassingState::Greeting(vec![text.to_owned()]);
            }
            (PassingState::Greeting(waiting), _) => waiting.push(text.to_owned()),
            (PassingState::Cold | PassingState::Warm, _) => {
                self.state = PassingState::Warm;
                actions.push_back(MockAction::Pass(text.to_owned()));
            }
        }
    }

    /// Takes a message of the other server.
    pub(super) fn handle_server(
        &mut self,
        item: &Item,
        text: &str,
        actions: &mut VecDeque<MockAction>,
    ) {
        if let (true, PassingState::Greeting(waiting)) = (item.is_answer(), &mut self.state)
            && let Some((id, _)) = &self.initialize
            && item.id.as_deref().map(id_key).as_ref() == Some(id)
        {
            let waiting = std::mem::take(waiting);
            let all = self.initialized.iter().cloned().chain(waiting);
            actions.extend(all.map(MockAction::Pass));
            self.state = PassingState::Warm;
            return;
        }
        if let (true, Some(id)) = (item.is_answer(), &item.id) {
            self.open.remove(&id_key(id));
        }
        let text = match (item.kind, &item.id, &item.id_range) {
            (Kind::Request, Some(id), Some(range)) => {
                self.count += 1;
                let new = format!("\"duet-rpc-passed-{}\"", self.count);
                self.ids.insert(id_key(&new), id.clone());
                let start = range.start - item.range.start;
                splice(text, &[(start..start + range.len(), new)])
            }
            _ => text.to_owned(),
        };
        actions.push_back(MockAction::Send(text));
    }

    /// Passes on the answer to a request of the other server. Returns `false` if it is another answer.
    pub(super) fn handle_answer(
        &mut self,
        item: &Item,
        text: &str,
        actions: &mut VecDeque<MockAction>,
    ) -> bool {
        let key = item.id.as_deref().map(id_key).unwrap_or_default();
        let (Some(id), Some(range)) = (self.ids.remove(&key), &item.id_range) else { return false };
        let start = range.start - item.range.start;
        actions.push_back(MockAction::Pass(splice(text, &[(start..start + range.len(), id)])));
        true
    }
}
