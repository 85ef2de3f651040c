//! Properties of a request that its response must honour: keep-alive, HTTP version, CORS origin.

use crate::net::web::{AccessPolicy, HttpRequest, JSON, OutgoingResponse, Status};

/// What becomes of the connection behind a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The next request is read.
    GoOn,
    /// It is closed.
    Close,
    /// It is closed, while the client may still be sending.
    Linger,
}

/// How a request wants to be answered.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) then: Then,
    is_1_1: bool,
    /// The origin of the page that has sent it, if it is one that was allowed.
    origin: Option<Box<str>>,
}

impl Terms {
    pub(super) fn new(request: &HttpRequest<'_>, access: &AccessPolicy) -> Self {
        Terms {
            then: if request.keeps_alive() { Then::GoOn } else { Then::Close },
            is_1_1: request.is_1_1,
            origin: access.allowed_origin(request).map(Box::from),
        }
    }

    /// A response of that status, with no body.
    pub(super) fn reply(&self, status: Status) -> OutgoingResponse<'_> {
        let mut reply = OutgoingResponse::new(status);
        self.apply_to(&mut reply);
        reply
    }

    /// Writes the head of the response that is a message of so many bytes.
    pub(super) fn write_head(&self, length: usize, out: &mut Vec<u8>) {
        let reply = OutgoingResponse { content_type: Some(JSON), ..self.reply(Status::OK) };
        reply.write_head(length, out);
    }

    pub(super) fn apply_to<'a>(&'a self, reply: &mut OutgoingResponse<'a>) {
        reply.closes = self.then != Then::GoOn;
        reply.keeps = !self.is_1_1;
        reply.origin = self.origin.as_deref();
    }
}
