//! Transport of one request: its message, then cancellations and answers to calls of its handler (N3, N5, N6).
//!
//! A request is a connection of its own, as over HTTP, because the next request of the same caller may go to another
//! worker. If the caller takes calls, the connection carries them; or else only the answer. The connection is over with
//! the answer. Most requests are answered on the thread that received them, so nothing here is made before it is
//! needed: the ids of a request, for example, only for its cancellation.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_nats::HeaderMap;
use async_nats::message::OutboundMessage;
use bytes::Bytes;
use duet_rpc::Id;
use duet_rpc::proto::message::ErrorObject;
use duet_rpc::proto::text::{Kind, MAX_DEPTH, Member, Text};
use duet_rpc::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

use super::Shared;
use super::running::{Arrival, Request};
use crate::header;
use crate::message::{self, Batch, Outgoing};
use crate::publisher::{Publisher, Unsent};

/// One request, and the way of its messages.
pub(super) struct RequestTransport {
    pub(super) request: Arc<Request>,
    pub(super) worker: Arc<Shared>,
    publisher: Publisher,
    /// `true` if the peer has received the message.
    has_begun: bool,
    is_cancelled: bool,
}

impl RequestTransport {
    pub(super) fn new(request: Arc<Request>, worker: Arc<Shared>) -> Self {
        let publisher = Publisher::new(Arc::clone(&worker.client));
        RequestTransport { request, worker, publisher, has_begun: false, is_cancelled: false }
    }

    /// Finds the way of a message of the handler; the payload is missing.
    fn direct(&self, text: &[u8]) -> Option<OutboundMessage> {
        let text = Text::check(text, MAX_DEPTH).ok()?;
        let is_answer = text.kind() == Kind::Array || text.member(Member::Method).is_none();
        let payload = Bytes::new();
        if !is_answer {
            let subject = self.request.callback()?.into();
            let reply = Some(self.worker.subject_of(self.request.number));
            return Some(OutboundMessage { subject, reply, payload, headers: None });
        }
        let headers = text.member(Member::Error).map(error_headers);
        let Request { method, begun, reply, .. } = &*self.request;
        method.counters.answered(begun.elapsed(), headers.is_some());
        Some(OutboundMessage { subject: reply.clone()?, reply: None, payload, headers })
    }

    /// Sends a message of the handler. Pending until there is room for the next one.
    fn send(&mut self, cx: &mut Context<'_>, text: &[u8]) -> Poll<io::Result<()>> {
        let Some(way) = self.direct(text) else { return Poll::Ready(Ok(())) };
        let message = || OutboundMessage { payload: Bytes::copy_from_slice(text), ..way.clone() };
        match self.publisher.send(cx, message) {
            Poll::Ready(Err(Unsent::LongSubject { size, limit })) => {
                tracing::warn!(size, limit, "message dropped: subject too long for the broker");
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(Unsent::TooLarge { size, limit })) => {
                tracing::error!(size, limit, "message dropped: too large for the broker");
                match self.refusal(size, limit).filter(|_| way.reply.is_none()) {
                    Some(refusal) => {
                        self.publisher.send(cx, || refusal.clone()).map_err(io::Error::from)
                    }
                    None => Poll::Ready(Ok(())),
                }
            }
            sent => sent.map_err(io::Error::from),
        }
    }

    /// The answer instead of one that is too large.
    fn refusal(&self, size: usize, limit: usize) -> Option<OutboundMessage> {
        let error = message::answer_too_large(size, limit);
        let payload = refuse(&self.request.message, &error)?.into();
        let mut headers = HeaderMap::new();
        header::add_error(&mut headers, error.code().0, error.message());
        let subject = self.request.reply.clone()?;
        Some(OutboundMessage { subject, reply: None, payload, headers: Some(headers) })
    }
}

/// The answer with an error to a message: to a request, or to each request of a batch. A text that is not a message has
/// an answer of its own. `None` for messages that have no answer.
pub(super) fn refuse(message: &[u8], error: &ErrorObject) -> Option<Vec<u8>> {
    match message::classify(message) {
        Outgoing::Request { id, .. } => Some(message::refusal(&id, error)),
        Outgoing::Batch(Batch { ids, .. }) if !ids.is_empty() => {
            let answers: Vec<_> = ids.iter().map(|id| message::refusal(id, error)).collect();
            Some([&b"["[..], &answers.join(&b','), b"]"].concat())
        }
        Outgoing::Batch(_) => Some(message::refusal(&Id::NULL, error)),
        Outgoing::Invalid(answer) => Some(answer),
        Outgoing::Notification { .. }
        | Outgoing::Cancellation(_)
        | Outgoing::Answer(_)
        | Outgoing::Unusable => None,
    }
}

/// The headers of an answer with this error.
fn error_headers(error: &str) -> HeaderMap {
    #[derive(serde::Deserialize)]
    struct Parts {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
    }
    let mut headers = HeaderMap::new();
    if let Ok(Parts { code, message }) = serde_json::from_str(error) {
        header::add_error(&mut headers, code, &message);
    }
    headers
}

impl Transport for RequestTransport {
    fn kind(&self) -> TransportKind {
        match self.request.takes_calls {
            true => TransportKind::ExchangeTwoWay,
            false => TransportKind::Exchange,
        }
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            inbox.push(&self.request.message)?;
            return Poll::Ready(Ok(Received::Data));
        }
        if self.is_cancelled {
            return Poll::Ready(Ok(Received::Eof));
        }
        match self.request.next(cx) {
            None => Poll::Pending,
            Some(Arrival::Message(message)) => {
                inbox.push(&message)?;
                Poll::Ready(Ok(Received::Data))
            }
            Some(Arrival::Cancelled) => {
                // The peer drops the handlers, and answers if its dialect asks for it. Then it reads the end.
                self.is_cancelled = true;
                for id in message::ids(&self.request.message) {
                    inbox.push(&message::cancellation(&id))?;
                }
                Poll::Ready(Ok(Received::Data))
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        ready!(self.publisher.poll_ready(cx))?;
        while let Some(text) = outbox.message() {
            let sent = self.send(cx, text);
            // A message that waits for room has left the outbox, too.
            outbox.pop();
            ready!(sent)?;
        }
        outbox.take_settled();
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        Poll::Ready(ExitReport::default())
    }
}

impl Drop for RequestTransport {
    fn drop(&mut self) {
        self.worker.running.remove(&self.request);
    }
}

impl fmt::Debug for RequestTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestTransport")
            .field("number", &self.request.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n7_a_refusal_has_the_form_of_the_answer() {
        let error = ErrorObject::internal_error();
        let one = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}"#;
        let two = one.replace("\"id\":1", "\"id\":2");
        let null = one.replace("\"id\":1", "\"id\":null");
        let [ask, tell, more] =
            [r#""id":1,"method":"a""#, r#""method":"b""#, r#""id":2,"method":"a""#]
                .map(|members| format!(r#"{{"jsonrpc":"2.0",{members}}}"#));
        for (message, expected) in [
            (ask.clone(), Some(one.to_owned())),
            (format!("[{ask}]"), Some(format!("[{one}]"))),
            (format!("[{ask},{tell},{more}]"), Some(format!("[{one},{two}]"))),
            ("[3,4]".to_owned(), Some(null)),
            (r#"{"jsonrpc":"2.0","id":1,"result":1}"#.to_owned(), None),
            (tell, None),
        ] {
            let refused = refuse(message.as_bytes(), &error);
            let refused = refused.map(|it| String::from_utf8(it).expect("UTF-8"));
            assert_eq!(refused, expected, "{message}");
        }
    }
}
