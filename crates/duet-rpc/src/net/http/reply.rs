//! Response of an HTTP exchange: the JSON texts in its body, as they come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body::Body;
use hyper::Response;
use hyper::body::Incoming;

use super::event_stream::{EventStreamParser, EventTooLong};
use super::events::EVENT_STREAM;
use super::verdict::HttpFailure;
use crate::net::web::lists_type;

/// A response whose body is being read.
pub(super) struct HttpReply {
    pub(super) status: StatusCode,
    body: Incoming,
    content: ReplyContent,
    /// Maximum number of bytes in one text.
    limit: usize,
}

enum ReplyContent {
    /// The body is one text.
    Whole(Vec<u8>),
    /// Each event is a text. The second field holds bytes that the parser has not taken yet.
    Events(EventStreamParser, Bytes),
    /// The whole body was read.
    Done,
}

const TOO_LONG: HttpFailure = HttpFailure::Bad("the response is longer than the message limit");

impl HttpReply {
    /// Fails if the status alone means failure, or if the announced body is too long.
    pub(super) fn new(response: Response<Incoming>, limit: usize) -> Result<Self, HttpFailure> {
        let (head, body) = response.into_parts();
        let status = head.status;
        let refusal = HttpFailure::Status(status);
        if !matches!(status.as_u16(), 200..300 | 400..600) || refusal.concerns_all() {
            return Err(refusal);
        }
        let media_type = head.headers.get(CONTENT_TYPE).filter(|_| status.is_success());
        let content = match media_type.is_some_and(|it| lists_type(it, EVENT_STREAM)) {
            true => ReplyContent::Events(EventStreamParser::new(limit), Bytes::new()),
            false => ReplyContent::Whole(Vec::new()),
        };
        let reply = HttpReply { status, body, content, limit };
        if !reply.is_stream() && reply.body.size_hint().lower() > limit as u64 {
            return Err(reply.unless_refused(TOO_LONG));
        }
        Ok(reply)
    }

    /// Returns `true` if the response may have more than one text.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.content, ReplyContent::Events(..))
    }

    /// The next text; `None` at the end of a whole body.
    pub(super) fn poll_text(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<u8>, HttpFailure>>> {
        loop {
            if let ReplyContent::Events(parser, rest) = &mut self.content {
                let mut bytes = &rest[..];
                let event = parser.next_event(&mut bytes);
                let taken = rest.len() - bytes.len();
                rest.advance(taken);
                match event {
                    Ok(Some(event)) => return Poll::Ready(Some(Ok(event))),
                    Ok(None) => {}
                    Err(EventTooLong) => return Poll::Ready(Some(Err(TOO_LONG))),
                }
            }
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(self.finish()),
                Some(Err(error)) => {
                    let failure = self.unless_refused(HttpFailure::from_body(error));
                    return Poll::Ready(Some(Err(failure)));
                }
                Some(Ok(frame)) => frame,
            };
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else { continue };
            match &mut self.content {
                ReplyContent::Whole(bytes) if data.len() > self.limit - bytes.len() => {
                    return Poll::Ready(Some(Err(self.unless_refused(TOO_LONG))));
                }
                ReplyContent::Whole(bytes) => bytes.extend_from_slice(&data),
                ReplyContent::Events(_, rest) => *rest = data,
                ReplyContent::Done => {}
            }
        }
    }

    /// The text of a whole body; `None` if the server only confirms that the request arrived.
    fn finish(&mut self) -> Option<Result<Vec<u8>, HttpFailure>> {
        let content = std::mem::replace(&mut self.content, ReplyContent::Done);
        let ReplyContent::Whole(bytes) = content else { return None };
        let has_text = !self.status.is_success()
            || !(matches!(self.status.as_u16(), 202 | 204) || bytes.trim_ascii().is_empty());
        has_text.then_some(Ok(bytes))
    }

    /// Returns the status of a refusal, or else this failure. A refusal needs no further explanation.
    fn unless_refused(&self, failure: HttpFailure) -> HttpFailure {
        match self.status.is_success() {
            true => failure,
            false => HttpFailure::Status(self.status),
        }
    }
}
