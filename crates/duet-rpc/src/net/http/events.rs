//! Event stream (`text/event-stream`): the response to a request whose handler sends notifications before the answer.
//!
//! The first message decides the format. If it is the answer, the response is plain JSON. If it is a notification,
//! each message becomes an event, and the answer is the last event, because clients stop reading there. While no
//! message comes, a comment keeps proxies from closing the connection. Dropping the body cancels the request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use duet_rpc_proto::Limits;
use duet_rpc_proto::message::Incoming;
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::{Kind, Text};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, Sleep, sleep};

use super::body::counted;
use crate::connection::memory::Budget;
use crate::net::hub::HubExchange;

/// The time without a message after which a comment is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The content type of an event stream.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The messages of an exchange, with the answer last. In each turn a connection sends answers before events. So
/// without this type, an event that a handler sent right before it returned would follow the answer.
pub(super) struct AnswerLast {
    exchange: HubExchange,
    /// `true` if messages other than the answer may come.
    is_stream: bool,
    answer: Option<Vec<u8>>,
}

/// A message of a response.
pub(super) enum ResponsePart {
    Event(Vec<u8>),
    /// The last message.
    Answer(Vec<u8>),
}

impl AnswerLast {
    pub(super) fn new(exchange: HubExchange, is_stream: bool) -> Self {
        AnswerLast { exchange, is_stream, answer: None }
    }

    /// Ready with the next message; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<ResponsePart>> {
        loop {
            match ready!(self.exchange.poll_next(cx)) {
                Some(message) if self.is_stream && !is_answer(&message) => {
                    return Poll::Ready(Some(ResponsePart::Event(message)));
                }
                Some(message) => self.answer = Some(message),
                None => return Poll::Ready(self.answer.take().map(ResponsePart::Answer)),
            }
        }
    }

    pub(super) fn exchange(&self) -> &HubExchange {
        &self.exchange
    }
}

/// The messages of a request, as events.
pub(super) struct EventBody {
    exchange: AnswerLast,
    /// The first message, which decided the format.
    first: Option<Vec<u8>>,
    budget: Arc<Budget>,
    keep_alive: Pin<Box<Sleep>>,
}

impl EventBody {
    pub(super) fn new(exchange: AnswerLast, first: Vec<u8>, budget: Arc<Budget>) -> Self {
        let keep_alive = Box::pin(sleep(KEEP_ALIVE));
        EventBody { exchange, first: Some(first), budget, keep_alive }
    }

    /// Ready with the next event, or a comment; `None` after the last one.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let message = match self.first.take() {
            Some(first) => Poll::Ready(Some(ResponsePart::Event(first))),
            None => self.exchange.poll_next(cx),
        };
        match message {
            Poll::Ready(message) => {
                self.rest();
                Poll::Ready(message.map(|(ResponsePart::Event(it) | ResponsePart::Answer(it))| {
                    counted(event(&it), &self.budget)
                }))
            }
            Poll::Pending if self.keep_alive.as_mut().poll(cx).is_ready() => {
                self.rest();
                Poll::Ready(Some(Bytes::from_static(b":\n\n")))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn rest(&mut self) {
        self.keep_alive.as_mut().reset(Instant::now() + KEEP_ALIVE);
    }
}

/// A message as an event. It has no line end: the outbox writes each message on one line.
fn event(message: &[u8]) -> Vec<u8> {
    [b"data: ", message, b"\n\n"].concat()
}

/// Returns `true` if a received message is a request, or a batch that contains one.
pub(super) fn expects_answer(message: &[u8]) -> bool {
    let limits = Limits::default();
    let is_request = |text: &Text<'_>| {
        matches!(Incoming::classify(text, BatchRule::Reject, &limits), Incoming::Request(_))
    };
    Text::check(message, Limits::MAX_DEPTH).is_ok_and(|text| match text.kind() {
        Kind::Array => text.elements().any(|entry| is_request(&entry)),
        _ => is_request(&text),
    })
}

/// Returns `true` if a message that we send is an answer, and not a notification.
fn is_answer(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct SentHead {
        method: Option<IgnoredAny>,
    }

    message.starts_with(b"[")
        || serde_json::from_slice::<SentHead>(message).map_or(true, |sent| sent.method.is_none())
}
