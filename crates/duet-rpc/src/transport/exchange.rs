//! Exchange: a connection in memory for one message and its replies.
//!
//! Each HTTP request is an exchange, and so is each call of [`Router::handle`](crate::Router::handle). The message is
//! available from the beginning, and the code that polls the driver takes the replies. So neither waits for the
//! other, and dropping an exchange drops its driver, which stops its handlers.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::fifo::Fifo;
use super::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};
use crate::sync::lock;

/// Maximum number of bytes that are taken together, if there are several messages.
const AT_ONCE: usize = 64 * 1024;

impl TransportKind {
    /// Returns `true` if it carries one message and what is sent back for it.
    pub(crate) fn is_exchange(self) -> bool {
        matches!(
            self,
            TransportKind::Exchange | TransportKind::ExchangeStream | TransportKind::ExchangeTwoWay
        )
    }

    /// Returns `true` if the remote can be called.
    pub(crate) fn is_two_way(self) -> bool {
        !matches!(self, TransportKind::Exchange | TransportKind::ExchangeStream)
    }
}

/// The transport of an exchange: delivers one message, and keeps the replies.
pub(crate) struct ExchangeTransport {
    message: Option<Vec<u8>>,
    sent: SharedOutput,
    kind: TransportKind,
}

/// The replies that a connection has sent, for the task that polls it.
pub(crate) type SharedOutput = Arc<Mutex<ExchangeOutput>>;

#[derive(Default)]
pub(crate) struct ExchangeOutput {
    messages: Fifo<Vec<u8>>,
    /// `true` if nothing more will be sent.
    is_settled: bool,
}

impl ExchangeOutput {
    /// Returns `true` if there is nothing to take.
    fn is_unchanged(&self) -> bool {
        self.messages.first().is_none() && !self.is_settled
    }
}

impl ExchangeTransport {
    /// A transport for this message: one JSON text.
    pub(crate) fn new(message: Vec<u8>) -> Self {
        let (sent, kind) = (SharedOutput::default(), TransportKind::Exchange);
        ExchangeTransport { message: Some(message), sent, kind }
    }

    /// Carries notifications before the answer, too.
    #[cfg(feature = "http")]
    pub(crate) fn streaming(mut self) -> Self {
        self.kind = TransportKind::ExchangeStream;
        self
    }

    /// The replies, for [`Exchange::new`].
    pub(crate) fn sent(&self) -> SharedOutput {
        Arc::clone(&self.sent)
    }
}

impl Transport for ExchangeTransport {
    fn kind(&self) -> TransportKind {
        self.kind
    }

    fn poll_receive(
        &mut self,
        _: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        // The input does not end, because a connection gives its handlers little time after the end.
        let Some(message) = self.message.take() else { return Poll::Pending };
        inbox.push_owned(message)?;
        Poll::Ready(Ok(Received::Data))
    }

    /// Takes only a part: the rest stays in the outbox, where the connection counts it, until this part was taken.
    /// Then the exchange polls again.
    fn poll_send(&mut self, _: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let mut sent = lock(&self.sent);
        let mut room = if sent.messages.first().is_none() { AT_ONCE } else { 0 };
        while room > 0
            && let Some(message) = outbox.take_message()
        {
            room = room.saturating_sub(message.len());
            sent.messages.push(message);
        }
        if !outbox.is_empty() {
            return Poll::Pending;
        }
        sent.is_settled |= outbox.take_settled();
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

/// The driver of an exchange, with the replies.
pub(crate) struct Exchange<D: Future> {
    driver: D,
    sent: SharedOutput,
    end: Option<D::Output>,
}

impl<D: Future + Unpin> Exchange<D> {
    /// An exchange whose connection this driver drives.
    pub(crate) fn new(driver: D, sent: SharedOutput) -> Self {
        Exchange { driver, sent, end: None }
    }

    /// Drives the connection. Ready with the next reply, and with `None` after the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        loop {
            let mut sent = lock(&self.sent);
            if let Some(message) = sent.messages.pop() {
                return Poll::Ready(Some(message));
            }
            if sent.is_settled || self.end.is_some() {
                return Poll::Ready(None);
            }
            drop(sent);
            match Pin::new(&mut self.driver).poll(cx) {
                Poll::Ready(end) => self.end = Some(end),
                Poll::Pending if lock(&self.sent).is_unchanged() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    /// Returns `true` if the connection has handled the message and sent all replies.
    #[cfg(feature = "http")]
    pub(crate) fn is_settled(&self) -> bool {
        lock(&self.sent).is_settled
    }

    /// The reason for the end, if the connection ended before it was settled.
    #[cfg(feature = "http")]
    pub(crate) fn end(&self) -> Option<&D::Output> {
        self.end.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::{AT_ONCE, ExchangeTransport, lock};
    use crate::transport::{Outbox, Transport};

    /// The outbox counts toward the limits on unsent bytes of a connection and of a hub.
    #[test]
    fn p9_messages_that_nobody_has_taken_wait_in_the_outbox() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut transport = ExchangeTransport::new(Vec::new());
        let sent = transport.sent();
        let mut outbox = Outbox::new(None);
        for _ in 0..200 {
            outbox.push(&[b'1'; 1000]);
        }
        outbox.set_settled();
        let mut taken = 0;
        while transport.poll_send(&mut cx, &mut outbox).is_pending() {
            // A second poll takes no more.
            assert!(transport.poll_send(&mut cx, &mut outbox).is_pending());
            let messages = std::mem::take(&mut lock(&sent).messages);
            assert!(messages.len() * 1000 < AT_ONCE + 1000 && !lock(&sent).is_settled);
            taken += messages.len();
        }
        taken += lock(&sent).messages.len();
        assert!(taken == 200 && lock(&sent).is_settled && outbox.is_empty());
    }
}
