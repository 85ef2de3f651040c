//! Response body: whole, or a stream of events.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::events::EventBody;
use super::wire::Progress;
use crate::connection::memory::Budget;
use crate::net::hub::Permit;

/// The body of a response of an [`HttpService`](super::HttpService).
pub struct HttpBody {
    content: Content,
    /// Updated when hyper has taken the whole body.
    progress: Option<Arc<Progress>>,
    /// The permit of the request, which counts as a connection.
    permit: Option<Permit>,
}

enum Content {
    Empty,
    Whole(Bytes),
    Events(Box<EventBody>),
}

impl HttpBody {
    pub(super) fn empty() -> Self {
        HttpBody::new(Content::Empty)
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        HttpBody::new(Content::Whole(bytes.into()))
    }

    /// A body that sends events as they arrive.
    pub(super) fn events(events: EventBody) -> Self {
        HttpBody::new(Content::Events(Box::new(events)))
    }

    fn new(content: Content) -> Self {
        HttpBody { content, progress: None, permit: None }
    }

    /// A message that counts as unsent bytes until it is sent.
    pub(super) fn message(message: Vec<u8>, budget: &Arc<Budget>) -> Self {
        HttpBody::whole(counted(message, budget))
    }

    pub(super) fn tell(&mut self, progress: Arc<Progress>) {
        self.progress = Some(progress);
    }

    /// Holds the permit of the request until the body is sent.
    pub(super) fn hold(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Content::Events(events) = &mut self.content {
            return events.poll_next(cx).map(|event| event.map(|event| Ok(Frame::data(event))));
        }
        match std::mem::replace(&mut self.content, Content::Empty) {
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Events(_) => SizeHint::default(),
        }
    }
}

impl Drop for HttpBody {
    fn drop(&mut self) {
        if let Some(progress) = &self.progress {
            progress.end();
        }
    }
}

impl fmt::Debug for HttpBody {
    /// Shows the size, and not the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBody").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}

/// These bytes, which count as unsent bytes until they are dropped.
pub(super) fn counted(bytes: Vec<u8>, budget: &Arc<Budget>) -> Bytes {
    budget.add(bytes.len());
    Bytes::from_owner(CountedMessage { message: bytes, budget: Arc::clone(budget) })
}

/// A message that counts in a budget while it is held.
struct CountedMessage {
    message: Vec<u8>,
    budget: Arc<Budget>,
}

impl AsRef<[u8]> for CountedMessage {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for CountedMessage {
    fn drop(&mut self) {
        self.budget.remove(self.message.len());
    }
}
