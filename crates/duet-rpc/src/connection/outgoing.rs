//! Our calls, notifications and events on their way to the outbox.

use std::io;
use std::time::Instant;

use duet_rpc_proto::message::Id;
use duet_rpc_proto::session::{CallOptions, Phase, Sink};
use serde::Deserialize;

use super::send_queue::{Sender, Sent, no_room_in_time};
use super::{Caller, Command, Connection, log};
use crate::error::{Disconnect, Error, ErrorKind};
use crate::handler::Answer;
use crate::router::SendObserver;

/// Our messages that wait to be sent.
#[derive(Default)]
pub(super) struct Outgoing {
    /// `true` if events wait in a stream.
    pub(super) has_events: bool,
    /// `true` if events went first when events and queued messages last waited together.
    events_went_first: bool,
    /// The index of the next stream.
    next_stream: usize,
    /// A buffer for the commands of a turn.
    commands: Vec<Command>,
    observer: Option<SendObserver>,
}

impl Outgoing {
    pub(super) fn new(observer: Option<SendObserver>) -> Self {
        Outgoing { observer, ..Outgoing::default() }
    }

    pub(super) fn shrink(&mut self) {
        self.commands = Vec::new();
    }
}

impl Connection {
    // ---- commands

    #[inline]
    pub(super) fn handle_commands(&mut self, now: Instant) {
        while self.shared.mailbox.has_commands() {
            let mut commands = std::mem::take(&mut self.outgoing.commands);
            self.shared.mailbox.take(&mut commands);
            self.window.note_commands();
            for command in commands.drain(..) {
                self.handle_command(command, now);
            }
            self.outgoing.commands = commands;
        }
    }

    fn handle_command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Call { id, message, caller, options } => {
                self.begin_call(id, message, caller, options, now);
            }
            Command::Cancel(id) => {
                if let Some((caller, _)) = self.end_call(&id) {
                    caller.cancel();
                    self.tell_abandoned(id);
                }
            }
            Command::CancelRequest(id) => self.cancel_request(id),
            Command::Notify(message) => self.send_notification(message),
            Command::Ended(key, outcome) => self.finish(key, Answer::from(outcome)),
            Command::Close(asked_by) => self.close(asked_by, now),
            Command::Event => self.outgoing.has_events = true,
            Command::TrialOver => self.dispatch.trial_ends = None,
        }
    }

    // ---- calls

    fn begin_call(
        &mut self,
        id: Id,
        message: Option<Vec<u8>>,
        mut caller: Caller,
        options: CallOptions,
        now: Instant,
    ) {
        let method = self.observed_method(&id, message.as_deref());
        if let (Some(observer), Some(method)) = (&self.outgoing.observer, &method) {
            caller.watch = Some(Box::new(observer.watch(method, &id, now)));
        }
        let latest = options.latest_timeout(now);
        // The call counts as pending while its message waits, so that we continue to read. Otherwise two
        // peers that both wait for room would wait for ever.
        match self.session.call(id.clone(), caller, options, now) {
            Ok(()) => {
                if let (Some(observer), Some(method)) = (&self.outgoing.observer, &method) {
                    observer.sent(method, Some(&id));
                }
                if let Some(message) = message {
                    self.outbox.send_call(&id, message, || latest);
                }
            }
            Err(caller) => {
                self.withdraw_call(&id);
                caller.refuse(match self.session.phase() {
                    Phase::Open => Error::new(ErrorKind::Capacity),
                    _ => self.shared.closed_error(),
                });
            }
        }
    }

    /// The method of a call, if it is observed. The message may be in the send queue.
    fn observed_method(&self, id: &Id, message: Option<&[u8]>) -> Option<String> {
        self.outgoing.observer.as_ref()?;
        match message {
            Some(message) => method_of(message),
            None => self.shared.mailbox.with_queue(|queue| method_of(queue.message_of(id)?)),
        }
    }

    fn send_notification(&mut self, message: Vec<u8>) {
        if let Some(observer) = &self.outgoing.observer
            && let Some(method) = method_of(&message)
        {
            observer.sent(&method, None);
        }
        self.outbox.send_text(message);
    }

    /// Takes the message of a call out of the send queue; `false` if it is not there.
    fn withdraw_call(&self, id: &Id) -> bool {
        let mailbox = &self.shared.mailbox;
        mailbox.has_queued() && mailbox.with_queue(|queue| queue.withdraw_call(id)).is_some()
    }

    /// Gives up a call. Returns its caller, and `true` if the call was sent: only then the remote gets a
    /// cancellation.
    fn end_call(&mut self, id: &Id) -> Option<(Caller, bool)> {
        let was_sent = !self.withdraw_call(id);
        let caller = match was_sent {
            true => self.session.cancel(id, &mut self.outbox),
            false => self.session.fail(id),
        };
        caller.map(|caller| (caller, was_sent))
    }

    fn tell_abandoned(&mut self, id: Id) {
        self.outbox.abandon(id);
        self.is_flushed = false;
    }

    /// Fails a call whose answer the transport cannot bring.
    pub(super) fn fail_call(&mut self, id: &Id, error: io::Error) {
        if let Some(caller) = self.session.fail(id) {
            let error = Error::lost_exchange(error).of_request(id.clone());
            log::call_failed(id, &error);
            caller.settle(Err(error));
        }
    }

    /// Fails all calls, because no more answers can arrive.
    pub(super) fn abandon_calls(&mut self, disconnect: &Disconnect) {
        while let Some(caller) = self.abandon_call() {
            caller.settle(Err(disconnect.to_error()));
        }
    }

    /// Takes a pending call out of the session. Its caller learns whether the call was sent.
    pub(super) fn abandon_call(&mut self) -> Option<Caller> {
        let (id, caller) = self.session.abandon()?;
        Some(if self.withdraw_call(&id) { caller.unsent() } else { caller })
    }

    // ---- messages that wait for room

    /// The deadline of the first notification in the send queue. The session has the deadlines of calls.
    #[inline]
    pub(super) fn outgoing_deadline(&self) -> Option<Instant> {
        let mailbox = &self.shared.mailbox;
        if mailbox.has_queued() { mailbox.with_queue(|queue| queue.next_deadline()) } else { None }
    }

    /// Ends the calls and notifications whose time is over.
    pub(super) fn expire_outgoing(&mut self, now: Instant) {
        while let Some(id) = self.session.next_expired(now).cloned() {
            let timed_out = self.timed_out(&id);
            let Some((caller, was_sent)) = self.end_call(&id) else { break };
            log::call_timed_out(&id);
            self.tell_abandoned(id);
            match was_sent {
                true => caller.settle(Err(timed_out)),
                false => caller.unsent().settle(Err(no_room_in_time())),
            }
        }
        while self.shared.mailbox.has_queued()
            && let Some(queued) = self.shared.mailbox.with_queue(|queue| queue.expire(now))
        {
            if let Sender::Notification(sender) = queued.sender {
                let _ = sender.send(Sent::TimedOut);
            }
        }
    }

    pub(super) fn can_send_queued(&self) -> bool {
        self.shared.mailbox.has_queued() && !self.is_full()
    }

    /// Sends messages that wait for room, while there is room. If events wait too, they go first every other
    /// time. If one kind always went first, it could take all the room for ever.
    #[inline]
    pub(super) fn send_queued(&mut self, now: Instant) {
        if !self.can_send_queued() {
            return;
        }
        if self.can_send_events() {
            self.outgoing.events_went_first = !self.outgoing.events_went_first;
            if self.outgoing.events_went_first {
                self.send_events();
            }
        }
        while self.can_send_queued() {
            let Some(queued) = self.shared.mailbox.pop_queued() else {
                if !self.shared.mailbox.has_commands() {
                    return;
                }
                self.handle_commands(now);
                continue;
            };
            match queued.sender {
                Sender::Notification(sender) => {
                    // The sender may be gone: then the notification is taken back.
                    if sender.send(Sent::Done).is_ok() {
                        self.send_notification(queued.message);
                    }
                }
                Sender::Call(id) => self.send_queued_call(&id, queued.message),
            }
        }
    }

    fn send_queued_call(&mut self, id: &Id, message: Vec<u8>) {
        // The call may have ended meanwhile.
        if self.session.phase() == Phase::Open {
            if self.session.is_pending(id) {
                let Connection { session, outbox, .. } = self;
                outbox.send_call(id, message, || session.latest_timeout(id));
            }
        } else if let Some(caller) = self.session.fail(id) {
            // Nobody would wait for its answer.
            caller.unsent().settle(Err(self.shared.closed_error()));
        }
    }

    // ---- events

    /// Returns `true` if events wait, and there is room for one.
    #[inline]
    pub(super) fn can_send_events(&self) -> bool {
        self.outgoing.has_events && !self.is_full()
    }

    /// Moves events to the outbox while there is room.
    #[inline]
    pub(super) fn send_events(&mut self) {
        if self.can_send_events() {
            self.send_events_in_turn();
        }
    }

    /// Takes one event of each stream in turn, beginning after the stream of the last event. So a stream that
    /// is never empty does not starve the others.
    fn send_events_in_turn(&mut self) {
        let mut streams = self.shared.streams.in_use();
        let first = self.outgoing.next_stream.checked_rem(streams.len()).unwrap_or(0);
        streams.rotate_left(first);
        self.outgoing.next_stream = first;
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for stream in &streams {
                if self.is_full() {
                    return;
                }
                if stream.send_one(&mut self.outbox) {
                    moved = true;
                    if let Some(observer) = &self.outgoing.observer {
                        observer.sent(&stream.method, None);
                    }
                }
                self.outgoing.next_stream = self.outgoing.next_stream.wrapping_add(1);
            }
        }
        self.outgoing.has_events = false;
    }
}

/// The method of one of our messages. It is read back from the message, so that calls without an observer do
/// not have to store it.
fn method_of(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        method: String,
    }
    serde_json::from_slice(message).ok().map(|Named { method }| method)
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
