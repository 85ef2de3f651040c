//! The state that the tasks of a shared server have in common: queues, connected clients, and the routes between them.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use duet_rpc::Remote;
use duet_rpc::proto::frame::Framing;
use tokio::time::Instant;

use super::super::FULL;
use super::super::routes::{ClientId, Out, Routes, Takes};

/// The reason for closing the connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Closing {
    /// The client asked for it, or left.
    Wanted,
    Slow,
    ServerEnded,
    Idle,
    Stopped,
}

impl Closing {
    /// The reason, for the client; `None` if it knows.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            Closing::Wanted | Closing::Stopped => None,
            Closing::Slow => Some("Connection closed: messages were not read in time"),
            Closing::ServerEnded => Some("Connection closed: the server ended"),
            Closing::Idle => Some("Connection closed: no messages"),
        }
    }
}

/// Messages that wait, with their number of bytes and the task that takes them.
#[derive(Debug, Default)]
pub(super) struct OutQueue {
    pub(super) messages: VecDeque<Vec<u8>>,
    pub(super) bytes: usize,
    pub(super) taker: Option<Waker>,
    /// The time at which the first message was added, or the last one was taken.
    pub(super) moved: Option<Instant>,
}

impl OutQueue {
    pub(super) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.moved.get_or_insert_with(Instant::now);
        self.messages.push_back(message);
        self.wake();
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        self.moved = (!self.messages.is_empty()).then(Instant::now);
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        (self.messages, self.bytes, self.moved) = Default::default();
    }

    pub(super) fn wake(&mut self) {
        if let Some(taker) = self.taker.take() {
            taker.wake();
        }
    }
}

/// A connected client.
pub(super) struct Port {
    pub(super) waiting: OutQueue,
    pub(super) remote: Remote,
    pub(super) group: u64,
    pub(super) takes: Takes,
    pub(super) is_settled: bool,
    pub(super) full_since: Option<Instant>,
    pub(super) closing: Option<Closing>,
}

#[derive(Default)]
pub(super) struct SharedState {
    pub(super) routes: Routes,
    pub(super) ports: BTreeMap<ClientId, Port>,
    pub(super) last_client: ClientId,
    pub(super) to_server: OutQueue,
    /// Messages to a new server, before all others.
    pub(super) handshake: VecDeque<Vec<u8>>,
    /// The signal that a fault rule sends to the server.
    pub(super) kill: Option<i32>,
    /// Clients that wait for room in the queue of the server.
    pub(super) blocked: Vec<Waker>,
    /// The framing of the first client.
    pub(super) framing: Option<Framing>,
    /// The framing of the server, once it has sent a message.
    pub(super) server_framing: Option<Framing>,
    /// The time at which the last client left.
    pub(super) empty_since: Option<Instant>,
}

impl Port {
    pub(super) fn new(remote: Remote, group: u64, takes: Takes) -> Self {
        let waiting = OutQueue::default();
        Port { waiting, remote, group, takes, is_settled: false, full_since: None, closing: None }
    }

    pub(super) fn close(&mut self, closing: Closing) {
        if closing == Closing::Slow {
            self.waiting.clear();
        }
        self.closing = self.closing.or(Some(closing));
        self.waiting.wake();
    }
}

impl SharedState {
    /// Returns `true` if there is a message for a server, or a client that it may speak to.
    pub(super) fn needs_server(&self) -> bool {
        let may_hear = |port: &Port| port.takes == Takes::Everything && port.closing.is_none();
        !self.to_server.messages.is_empty() || self.ports.values().any(may_hear)
    }

    /// The framing for a client that has not shown its own.
    pub(super) fn framing_for_client(&self) -> Framing {
        self.framing.or(self.server_framing).unwrap_or(Framing::Ndjson)
    }

    /// Returns `true` if there are messages that the server may get now.
    pub(super) fn has_work(&self) -> bool {
        let is_open = !self.routes.is_starting();
        !self.handshake.is_empty() || (is_open && !self.to_server.messages.is_empty())
    }

    /// Closes every client, because their server has ended.
    pub(super) fn close_all(&mut self) {
        self.routes.reset();
        self.ports.values_mut().for_each(|port| port.close(Closing::ServerEnded));
    }

    /// Wakes this task when the queue of the server has room.
    pub(super) fn wait_for_room(&mut self, waker: &Waker) {
        if !self.blocked.iter().any(|it| it.will_wake(waker)) {
            self.blocked.push(waker.clone());
        }
    }

    /// Puts messages into their queues.
    pub(super) fn apply(&mut self, out: Vec<Out>) {
        for out in out {
            match out {
                Out::Server(message) => self.to_server.push(message),
                Out::Handshake(message) => {
                    self.handshake.push_back(message);
                    self.to_server.wake();
                }
                Out::Client(client, message) => {
                    let Some(port) = self.ports.get_mut(&client) else { continue };
                    if port.closing == Some(Closing::Slow) {
                        continue;
                    }
                    port.waiting.push(message);
                    if port.waiting.bytes >= FULL {
                        port.full_since.get_or_insert_with(Instant::now);
                    }
                }
                Out::Settle(client) => {
                    if let Some(port) = self.ports.get_mut(&client) {
                        port.is_settled = true;
                        port.waiting.wake();
                    }
                }
                Out::Close(client) => {
                    if let Some(port) = self.ports.get_mut(&client) {
                        port.close(Closing::Wanted);
                    }
                }
                Out::Note(note) => tracing::debug!("{note}"),
            }
        }
    }
}
