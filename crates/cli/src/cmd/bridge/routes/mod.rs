//! Routes: which message goes where, if many clients share one server. No I/O.
//!
//! | message | goes to |
//! |---|---|
//! | request of a client | the server, with an id and progress tokens of our own |
//! | `initialize` | the server, the first time; later ones are answered from memory |
//! | `initialized` | the server, the first time; later ones end here |
//! | `shutdown`, `exit` of LSP | nowhere: `shutdown` is answered here, and `exit` closes its client |
//! | cancellation by a client | the server, with our id; ends here if the request is not one of this client |
//! | other notification of a client | the server, as it is |
//! | answer of a client | the server, with the id of the server, if this client was asked |
//! | answer of the server | the client that asked, with its own id |
//! | progress | the client that gave the token, with its own token; an ended token ends here |
//! | progress for a token of the server | the client that was asked to show it, else all |
//! | cancellation by the server | the client that was asked |
//! | request of the server | the client of the oldest running request, else the oldest client |
//! | cancellation of progress by a client | the server, if it is progress of this client |
//! | other notification of the server | every client whose `initialize` is answered, or was the first |
//!
//! `from_client.rs` and `from_server.rs` have the two halves of the table; this file has the state, and its ends.
//!
//! A client that leaves: its requests are cancelled at the server, and requests of the server to it get an error.
//! A server that is lost: every running request gets an error. A new server gets the remembered `initialize` and
//! `initialized` before anything else.

mod from_client;
mod from_server;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::io;

use duet_rpc::Limits;
use duet_rpc::proto::message::{Code, ErrorObject, Id, write_error};
use duet_rpc::proto::text::{Member, Text};

use super::rewrite::replace;

/// Maximum number of running requests of a client, and maximum size of their ids and tokens. More get an error.
const MOST_RUNNING: usize = 4096;
const MOST_ID_BYTES: usize = 1024 * 1024;

/// Maximum number of requests of the server without an answer. More get an error.
const MOST_SERVER_REQUESTS: usize = 65_536;

/// Maximum number of remembered tokens that the server made.
const MOST_SERVER_TOKENS: usize = 4096;

/// The begin of our tokens. A server may make tokens, too, and numbers would clash with them.
const TOKEN: &str = "\"duet-rpc-bridge-";

pub(super) type ClientId = u64;

/// A message with its destination, or another effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Out {
    Server(Vec<u8>),
    /// Goes to the server before all messages of the kind `Server`.
    Handshake(Vec<u8>),
    Client(ClientId, Vec<u8>),
    /// Nothing more follows for this exchange.
    Settle(ClientId),
    /// The client wants its connection closed.
    Close(ClientId),
    /// For the log.
    Note(&'static str),
}

/// The messages that a client can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Everything,
    /// Answers and notifications, as an HTTP client that takes a stream of events.
    Notifications,
    /// Answers only, as other HTTP clients.
    Answers,
}

#[derive(Debug)]
struct RoutedClient {
    takes: Takes,
    /// Clients with the same number may cancel each other's requests: over HTTP, each request is a client.
    group: u64,
    is_initialized: bool,
    running: usize,
    /// The size of the ids and tokens of its running requests.
    id_bytes: usize,
}

/// A running request of a client.
#[derive(Debug)]
struct Asked {
    /// `None` if the client has left.
    client: Option<ClientId>,
    id: Id,
    batch: Option<u64>,
    tokens: Vec<u64>,
    id_bytes: usize,
    is_initialize: bool,
}

/// A batch whose answers are collected.
#[derive(Debug)]
struct Gathering {
    client: ClientId,
    left: usize,
    answers: Vec<Vec<u8>>,
}

/// A request that waits for the answer to the `initialize` of another client.
type InitializeWaiter = (ClientId, Id, Option<u64>);

/// The first `initialize`.
#[derive(Debug, Default)]
enum Handshake {
    #[default]
    None,
    Asked {
        request: Box<str>,
        waiting: Vec<InitializeWaiter>,
    },
    Done {
        request: Box<str>,
        result: Box<str>,
    },
}

/// The protocol, as far as `initialize` tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Protocol {
    #[default]
    Unknown,
    Lsp,
    Mcp,
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    clients: BTreeMap<ClientId, RoutedClient>,
    /// The last number that was used for an id, a token or a batch.
    last: u64,
    running: BTreeMap<u64, Asked>,
    numbers: HashMap<(ClientId, Id), u64>,
    /// Our tokens, each with the client and its own raw token.
    tokens: HashMap<u64, (ClientId, String)>,
    batches: HashMap<u64, Gathering>,
    /// Requests of the server that a client has not answered.
    server_requests: BTreeMap<u64, (ClientId, Id)>,
    server_tokens: HashMap<String, ClientId>,
    handshake: Handshake,
    /// The first `initialized`.
    initialized: Option<Box<str>>,
    protocol: Protocol,
    /// The number of a repeated `initialize`.
    repeated: Option<u64>,
    limits: Limits,
}

impl Routes {
    pub(super) fn new(limits: Limits) -> Self {
        Routes { limits, ..Routes::default() }
    }

    /// Adds a client.
    pub(super) fn join(&mut self, client: ClientId, takes: Takes, group: u64) {
        let joined = RoutedClient { takes, group, is_initialized: false, running: 0, id_bytes: 0 };
        self.clients.insert(client, joined);
    }

    /// Returns `true` while a new server has not answered the remembered `initialize`.
    pub(super) fn is_starting(&self) -> bool {
        self.repeated.is_some()
    }

    /// Returns `true` while requests of this client are running.
    pub(super) fn is_asking(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|it| it.running > 0)
    }

    /// Removes a client.
    pub(super) fn leave(&mut self, client: ClientId, out: &mut Vec<Out>) {
        if self.clients.remove(&client).is_none() {
            return;
        }
        let left: Vec<u64> = self
            .running
            .iter()
            .filter_map(|(&number, asked)| (asked.client == Some(client)).then_some(number))
            .collect();
        for number in left {
            match self.forget(number) {
                // Others may wait for it, and its answer is remembered.
                Some(asked) if asked.is_initialize => {
                    let asked = Asked { client: None, tokens: Vec::new(), ..asked };
                    self.running.insert(number, asked);
                }
                _ => out.extend(self.cancellation(number).map(Out::Server)),
            }
        }
        if let Handshake::Asked { waiting, .. } = &mut self.handshake {
            waiting.retain(|(waits, ..)| *waits != client);
        }
        self.batches.retain(|_, batch| batch.client != client);
        self.server_tokens.retain(|_, owner| *owner != client);
        let gone = ErrorObject::application(Code::SERVER_BUSY, "The client has left", None);
        self.server_requests.retain(|_, (asked, id)| {
            if *asked == client {
                out.push(Out::Server(error_answer(id, &gone)));
            }
            *asked != client
        });
    }

    fn cancellation(&self, number: u64) -> Option<Vec<u8>> {
        let text = match self.protocol {
            Protocol::Unknown => return None,
            Protocol::Lsp => {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{number}}}}}"#
                )
            }
            Protocol::Mcp => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number}}}}}"#
            ),
        };
        Some(text.into_bytes())
    }

    /// Fails every running request: the server is gone.
    pub(super) fn handle_loss(&mut self, out: &mut Vec<Out>) {
        self.repeated = None;
        self.server_requests.clear();
        self.server_tokens.clear();
        self.end_handshake(None, out);
        while let Some(&number) = self.running.keys().next() {
            if let Some(asked) = self.forget(number) {
                self.fail(&asked, &lost(), out);
            }
        }
    }

    /// Fails one request, which cannot be answered.
    pub(super) fn handle_failure(&mut self, number: &Id, error: &ErrorObject, out: &mut Vec<Out>) {
        let number = number.as_u64();
        if number.is_some() && number == self.repeated {
            // The server does without a handshake, or fails the next requests, too.
            self.repeated = None;
        }
        if let Some(asked) = number.and_then(|number| self.forget(number)) {
            if asked.is_initialize {
                self.end_handshake(None, out);
            }
            self.fail(&asked, error, out);
        }
    }

    fn fail(&mut self, asked: &Asked, error: &ErrorObject, out: &mut Vec<Out>) {
        if let Some(client) = asked.client {
            self.finish(client, asked.batch, error_answer(&asked.id, error), out);
        }
    }

    /// Repeats the handshake for a new server.
    pub(super) fn handle_start(&mut self, out: &mut Vec<Out>) {
        let number = self.next();
        let Handshake::Done { request, .. } = &self.handshake else { return };
        let Ok(text) = Text::check(request.as_bytes(), self.limits.depth) else { return };
        let id = text.member(Member::Id).unwrap_or_default();
        out.push(Out::Handshake(replace(request, &[(id, &number.to_string())])));
        self.repeated = Some(number);
    }

    /// The server ends, because there are no clients: an `initialize` without an answer is forgotten.
    pub(super) fn handle_unused(&mut self) {
        self.running.clear();
        self.repeated = None;
        if let Handshake::Asked { .. } = self.handshake {
            self.reset();
        }
    }

    /// Forgets the handshake, because the server ended on purpose.
    pub(super) fn reset(&mut self) {
        (self.handshake, self.initialized) = Default::default();
        (self.protocol, self.repeated) = Default::default();
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn is_ready(&self, client: ClientId) -> bool {
        matches!(self.handshake, Handshake::None)
            || self.clients.get(&client).is_some_and(|it| it.is_initialized)
    }

    fn set_initialized(&mut self, client: ClientId) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.is_initialized = true;
        }
    }

    /// Removes a running request.
    fn forget(&mut self, number: u64) -> Option<Asked> {
        let asked = self.running.remove(&number)?;
        for token in &asked.tokens {
            self.tokens.remove(token);
        }
        if let Some(client) = asked.client {
            let key = (client, asked.id.clone());
            if self.numbers.get(&key) == Some(&number) {
                self.numbers.remove(&key);
            }
            if let Some(asker) = self.clients.get_mut(&client) {
                asker.id_bytes -= asked.id_bytes;
            }
        }
        Some(asked)
    }

    /// Ends a request with this answer.
    fn finish(
        &mut self,
        client: ClientId,
        batch: Option<u64>,
        answer: Vec<u8>,
        out: &mut Vec<Out>,
    ) {
        let Some(asker) = self.clients.get_mut(&client) else { return };
        asker.running -= 1;
        self.answer(client, batch, answer, out);
        self.settle(client, out);
    }

    fn answer(
        &mut self,
        client: ClientId,
        batch: Option<u64>,
        answer: Vec<u8>,
        out: &mut Vec<Out>,
    ) {
        match batch {
            None => out.push(Out::Client(client, answer)),
            Some(batch) => self.gather(batch, Some(answer), out),
        }
    }

    fn count_in(&mut self, batch: Option<u64>) {
        if let Some(gathering) = batch.and_then(|batch| self.batches.get_mut(&batch)) {
            gathering.left += 1;
        }
    }

    /// Adds an answer to its batch, and sends the batch if it is whole.
    fn gather(&mut self, batch: u64, answer: Option<Vec<u8>>, out: &mut Vec<Out>) {
        let Some(gathering) = self.batches.get_mut(&batch) else { return };
        gathering.answers.extend(answer);
        gathering.left -= 1;
        if gathering.left > 0 {
            return;
        }
        if let Some(Gathering { client, answers, .. }) = self.batches.remove(&batch)
            && !answers.is_empty()
        {
            let answers = answers.join(&b","[..]);
            out.push(Out::Client(client, [b"[", &answers[..], b"]"].concat()));
        }
    }

    /// Settles an exchange that waits for nothing.
    fn settle(&mut self, client: ClientId, out: &mut Vec<Out>) {
        let is_done = |it: &RoutedClient| it.takes != Takes::Everything && it.running == 0;
        let is_gathering = || self.batches.values().any(|batch| batch.client == client);
        if self.clients.get(&client).is_some_and(is_done) && !is_gathering() {
            out.push(Out::Settle(client));
        }
    }
}

/// The error for a request whose server is gone.
pub(super) fn lost() -> ErrorObject {
    ErrorObject::application(Code::SERVER_BUSY, "The server ended before it answered", None)
}

/// The error for a request whose client has closed its output and gets no more time.
pub(super) fn late() -> ErrorObject {
    ErrorObject::application(Code::SERVER_BUSY, "The server did not answer in time", None)
}

/// The error for one request that its transport has lost. A service behind a broker says more than that.
pub(super) fn lost_because(reason: &io::Error) -> ErrorObject {
    match reason.kind() {
        io::ErrorKind::NotConnected
        | io::ErrorKind::Interrupted
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::InvalidData => {
            ErrorObject::application(Code::SERVER_BUSY, reason.to_string(), None)
        }
        _ => lost(),
    }
}

/// An error as the answer to a request.
pub(super) fn error_answer(id: &Id, error: &ErrorObject) -> Vec<u8> {
    let mut answer = Vec::new();
    write_error(&mut answer, id, error);
    answer
}
