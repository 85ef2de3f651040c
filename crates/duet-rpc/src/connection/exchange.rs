//! Exchange: a connection for one message and its replies, such as a request over HTTP.
//!
//! It is over once its transport knows that nothing more will be sent. Then its driver is dropped. Nobody can notice
//! the end of most exchanges, because nobody else has a handle. So most exchanges end without the steps of `closing`,
//! which would cost as much as their message.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use duet_rpc_proto::message::LogFields;

use super::closing::Stage;
use super::{Connection, log};

impl Connection {
    /// Tells the transport of an exchange that nothing follows the messages in the outbox.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.kind.is_exchange()
            && (self.receive.is_drained || self.is_closing())
            && self.session.is_idle()
            && !self.outgoing.has_events
            && !self.shared.mailbox.has_commands()
            && !self.shared.mailbox.has_queued()
        {
            self.outbox.set_settled();
            self.is_flushed = false;
        }
    }

    /// Returns `true` if this is an exchange that is over. Then its last handle needs no close command.
    #[inline]
    pub(super) fn is_answered(&self) -> bool {
        let is_answered = self.outbox.has_ended && matches!(self.stage, Stage::Running);
        if is_answered {
            self.shared.has_ended.store(true, Ordering::Relaxed);
        }
        is_answered
    }

    /// Ends an exchange that is over, if nobody else has a handle. Returns `true` if so.
    pub(super) fn end_alone(&mut self) -> bool {
        if !self.is_answered() || self.dispatch.handle.strong_count() > 0 {
            return false;
        }
        if self.window.batch_bytes > 0 {
            self.publish();
        }
        let Some(shared) = Arc::get_mut(&mut self.shared) else { return false };
        let mailbox = shared.mailbox.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        shared.budget.remove(std::mem::take(&mut mailbox.charged));
        shared.extensions.clear();
        if let Some(notice) = self.session.handle_gone() {
            log::notice(notice, &LogFields::default());
        }
        true
    }
}
