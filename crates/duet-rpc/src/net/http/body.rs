//! Response body.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::wire::Progress;
use crate::connection::memory::Budget;

/// The body of a response of an [`HttpService`](super::HttpService).
pub struct HttpBody {
    content: Content,
    /// Told when hyper has all of the body.
    progress: Option<Arc<Progress>>,
}

enum Content {
    Empty,
    Whole(Bytes),
}

impl HttpBody {
    pub(super) fn empty() -> Self {
        HttpBody { content: Content::Empty, progress: None }
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        HttpBody { content: Content::Whole(bytes.into()), progress: None }
    }

    /// A message, which counts among the bytes that wait to be sent until it has left.
    pub(super) fn message(message: Vec<u8>, budget: &Arc<Budget>) -> Self {
        HttpBody::whole(Bytes::from_owner(CountedMessage::new(message, budget)))
    }

    pub(super) fn tell(mut self, progress: Arc<Progress>) -> Self {
        self.progress = Some(progress);
        self
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::replace(&mut self.content, Content::Empty) {
            Content::Empty => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Whole(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
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
    /// Shows the size, and nothing of the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBody").field("size", &self.size_hint()).finish_non_exhaustive()
    }
}

/// A message that counts in a budget while it is held.
struct CountedMessage {
    message: Vec<u8>,
    budget: Arc<Budget>,
}

impl CountedMessage {
    fn new(message: Vec<u8>, budget: &Arc<Budget>) -> Self {
        budget.add(message.len());
        CountedMessage { message, budget: Arc::clone(budget) }
    }
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
