//! Time, and the end of a connection.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use duet_rpc_proto::message::{Id, Subject};

use super::core::Core;
use super::records;
use crate::error::{Error, ErrorKind};
use crate::panic_guard;
use crate::shared::Post;
use crate::state::{CloseReason, ConnectionState, Disconnect};

impl Core {
    pub(super) fn handle_time(&mut self, now: Instant) {
        self.trial.take_if(|until| *until <= now);
        if self.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        if let Some(notice) = self.session.handle_timeout(now) {
            records::notice(notice, &Subject::default());
        }
        self.expire_outgoing(now);
        if self.session.drain_deadline().is_some_and(|until| until <= now) {
            self.session.give_up_batches(&mut self.outbox);
        }
    }

    /// When [`handle_time`](Core::handle_time) has something to do.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let session = self.session.poll_timeout();
        if !self.shared.has_unsent() {
            return session;
        }
        let unsent = self.shared.unsent(|unsent| unsent.next_deadline());
        super::earliest(session, unsent)
    }

    /// The transport cannot bring the answer to this call, and this is why.
    pub(super) fn fail_call(&mut self, id: &Id, error: io::Error) {
        if let Some(caller) = self.session.fail(id) {
            let error = Error::new(ErrorKind::Exchange).caused_by(error).of_request(id.clone());
            records::call_failed(id, &error);
            let _ = caller.send(Err(error));
        }
    }

    /// The remote will send no more, for this reason if there is more to say.
    pub(super) fn handle_end(&mut self, why: Option<io::Error>, now: Instant) {
        self.session.handle_end(now);
        self.publish_phase();
        let end = match why {
            None => Disconnect::new(CloseReason::RemoteClosed, None),
            Some(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                Disconnect::failed(CloseReason::RemoteClosed, error)
            }
            Some(error) => Disconnect::failed(CloseReason::ReadFailed, error),
        };
        self.abandon_calls(&end);
        self.remote_end = Some(end);
    }

    /// Nothing can be answered any more, so nothing is begun; answers to our calls are still taken.
    pub(super) fn begin_no_more(&mut self, now: Instant) {
        self.session.close(None, now, &mut self.outbox);
        self.session.hold(true);
        self.refusals = 0;
    }

    fn abandon_calls(&mut self, disconnect: &Disconnect) {
        self.unsent_calls.clear();
        while let Some((_, caller)) = self.session.abandon() {
            let _ = caller.send(Err(disconnect.to_error()));
        }
    }

    /// Nothing more comes or goes: everyone who waits is told, and every handler is stopped.
    pub(super) fn abandon_all(&mut self, disconnect: &Disconnect) {
        // To close the transport may take a while, and nothing is taken meanwhile.
        self.publish_phase();
        if let Some(notice) = self.session.handle_gone() {
            records::notice(notice, &Subject::default());
        }
        self.abandon_calls(disconnect);
        // It is set already if the driver is dropped while it closes its transport.
        let _ = self.shared.gone.set(());
        self.tasks.stop_all();
        self.end_exchange();
        for post in self.shared.close() {
            match post {
                Post::Call { caller, .. } => {
                    let _ = caller.send(Err(disconnect.to_error()));
                }
                // Why a handler failed is the application's, and may panic when it is dropped.
                Post::Ended(_, Some(Err(failure))) => {
                    let _ = panic_guard::catch(move || drop(failure));
                }
                _ => {}
            }
        }
        self.publish();
        // Handlers that were stopped tell nobody when they have ended.
        self.shared.counts.running.store(0, Ordering::Relaxed);
    }

    pub(super) fn publish_phase(&mut self) {
        let begins = self.shared.state.send_if_modified(|state| {
            let begins = matches!(state, ConnectionState::Connecting | ConnectionState::Connected);
            if begins {
                *state = ConnectionState::Draining;
            }
            begins
        });
        if begins {
            self.transport.handle_closing();
            // To be done may mean more to it now.
            self.has_sent_all &= self.carries_bytes;
        }
    }

    /// Tells the handles what is under way.
    pub(super) fn publish(&mut self) {
        let bytes = self.session.batch_bytes();
        if bytes != self.batch_bytes {
            self.shared.budget.count_batches(self.batch_bytes, bytes);
            self.batch_bytes = bytes;
        }
        let is_full = self.session.is_full_of_batches();
        self.shared.is_full_of_batches.store(is_full, Ordering::Relaxed);
        self.shared.set_outgoing(self.outbox.len(), self.outbox.held());
        let counts = &self.shared.counts;
        counts.pending_calls.store(self.session.pending_calls(), Ordering::Relaxed);
        counts.running.store(self.session.running(), Ordering::Relaxed);
        counts.waiting.store(self.session.waiting(), Ordering::Relaxed);
        counts.unmatched.store(self.session.unmatched_responses() as usize, Ordering::Relaxed);
        counts.messages.store(self.tally.messages, Ordering::Relaxed);
        counts.faults.store(self.tally.faults, Ordering::Relaxed);
        counts.bytes_received.store(self.tally.bytes_received, Ordering::Relaxed);
        counts.bytes_sent.store(self.outbox.sent(), Ordering::Relaxed);
    }
}
