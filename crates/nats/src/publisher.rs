//! Publisher: hands messages to the client of the broker, in order, and waits only if it has no room.
//!
//! A clone of [`Client`] allocates, and its `Sink` takes a detour for each message. Most messages find room, so a
//! publisher shares one client, and allocates only to wait.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_nats::Client;
use async_nats::client::traits::Publisher as _;
use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::message::OutboundMessage;
use tokio::task::coop::unconstrained;

/// Maximum length of the subjects of a message. A broker closes the connection after a longer control line (4,096 bytes,
/// unless it is configured), which has a few more words.
const MOST_SUBJECTS: usize = 4000;

/// A message on its way to a client without room.
type Waiting = Pin<Box<dyn Future<Output = Result<(), PublishError>> + Send>>;

pub(crate) struct Publisher {
    client: Arc<Client>,
    waiting: Option<Waiting>,
}

/// The reason why a message was not sent.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The broker takes no message of this size.
    TooLarge { size: usize, limit: usize },
    /// The subject and the reply subject are too long for the broker.
    LongSubject { size: usize, limit: usize },
    /// The client is closed.
    Closed(PublishError),
}

impl From<Unsent> for io::Error {
    fn from(unsent: Unsent) -> Self {
        match unsent {
            Unsent::TooLarge { .. } | Unsent::LongSubject { .. } => {
                io::ErrorKind::InvalidInput.into()
            }
            Unsent::Closed(error) => io::Error::new(io::ErrorKind::BrokenPipe, error),
        }
    }
}

impl Publisher {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Publisher { client, waiting: None }
    }

    /// Ready if there is room for a message.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(waiting) = &mut self.waiting else { return Poll::Ready(Ok(())) };
        let sent = ready!(waiting.as_mut().poll(cx));
        self.waiting = None;
        Poll::Ready(sent.map_err(|error| Unsent::Closed(error).into()))
    }

    /// Sends a message, after [`poll_ready`](Publisher::poll_ready) was ready. Pending if it waits for room: then it is
    /// sent with the next `poll_ready`. The function makes the message, a second time if it has to wait.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context<'_>,
        message: impl Fn() -> OutboundMessage,
    ) -> Poll<Result<(), Unsent>> {
        let first = message();
        let size = first.subject.len() + first.reply.as_ref().map_or(0, |reply| reply.len());
        if size > MOST_SUBJECTS {
            return Poll::Ready(Err(Unsent::LongSubject { size, limit: MOST_SUBJECTS }));
        }
        // The next poll of the task may be far away, so a spent budget of the task must not delay the message.
        let sent = pin!(unconstrained(self.client.publish_message(first))).poll(cx);
        match sent {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => {
                    let (size, limit) = (message().payload.len(), self.client.max_payload());
                    Unsent::TooLarge { size, limit }
                }
                _ => Unsent::Closed(error),
            })),
            Poll::Pending => {
                let (client, message) = (Arc::clone(&self.client), message());
                let mut waiting: Waiting =
                    Box::pin(async move { client.publish_message(message).await });
                let sent = waiting.as_mut().poll(cx);
                if sent.is_pending() {
                    self.waiting = Some(waiting);
                }
                sent.map_err(Unsent::Closed)
            }
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("is_waiting", &self.waiting.is_some()).finish()
    }
}
