//! Exchange: one message and its answer, on a transport that carries nothing else, such as HTTP.
//!
//! The next message may come from another sender. So identities, and the values that handlers keep, belong to
//! the exchange and not to the connection.

use std::cell::OnceCell;
use std::sync::Arc;

use super::Connection;
use crate::peer::Exchange;
use crate::remote::Identity;
use crate::transport::TransportKind;

#[derive(Default)]
pub(super) struct CurrentExchange {
    /// Made when a handler asks for its context.
    state: OnceCell<Arc<Exchange>>,
    sender: Option<Arc<Identity>>,
}

impl CurrentExchange {
    /// The authenticated identity of the sender.
    pub(super) fn sender(&self) -> Option<&Identity> {
        self.sender.as_deref()
    }

    /// The state of the exchange.
    pub(super) fn state(&self) -> Arc<Exchange> {
        Arc::clone(self.state.get_or_init(|| Arc::new(Exchange::new(self.sender.clone()))))
    }
}

impl Connection {
    /// Begins the next exchange, with the identity of its sender. The previous exchange has been answered.
    #[inline]
    pub(super) fn begin_exchange(&mut self, sender: Option<Arc<Identity>>) {
        if self.kind == TransportKind::Exchange {
            self.end_exchange();
            self.dispatch.exchange.sender = sender;
            self.session.begin_exchange();
        }
    }

    /// Drops the values that handlers kept for a message, and its identity. Tasks that outlive the message do
    /// not see the values of the next one.
    pub(super) fn end_exchange(&mut self) {
        let ended = std::mem::take(&mut self.dispatch.exchange);
        if let Some(exchange) = ended.state.into_inner() {
            exchange.extensions.close();
        }
    }

    /// Reports to the transport of an exchange that no answer will follow.
    #[inline]
    pub(super) fn settle_exchange(&mut self) {
        if self.kind == TransportKind::Exchange
            && (self.receive.is_drained || self.is_closing())
            && self.outbox.is_empty()
            && self.session.is_idle()
            && !self.shared.mailbox.has_commands()
        {
            self.end_exchange();
            self.outbox.set_settled();
            self.is_flushed = false;
        }
    }
}
