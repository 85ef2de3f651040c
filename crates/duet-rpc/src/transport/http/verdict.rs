//! What a response means for the message that it answers, and what is said to the caller of one that
//! failed.

use std::fmt;
use std::io;

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::{Code, ErrorObject, Id, Incoming, Response, Settled, write_error};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::Text;

use crate::transport::web::{Refused, Status};

/// Why a message got no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server said so.
    Status(Status),
    /// The connection ended first.
    Broken,
    /// What came is none.
    Bad(&'static str),
    /// There is no connection to be had.
    Unreachable(io::Error),
}

impl Failure {
    /// Whether this is what the server says to every message, and not to this one alone.
    pub(super) fn concerns_all(&self) -> bool {
        matches!(self, Failure::Status(Status(300..=399 | 401 | 403 | 404 | 405)))
    }

    /// It is the end of the connection.
    pub(super) fn into_error(self) -> io::Error {
        match self {
            Failure::Status(status) => Refused::new(status.0).into(),
            Failure::Unreachable(error) => error,
            Failure::Broken | Failure::Bad(_) => io::Error::other(self.to_string()),
        }
    }

    /// The answer that the caller is given. What wants no answer has no caller: that is logged.
    pub(super) fn into_answer(self, id: Option<&Id>) -> Option<Vec<u8>> {
        let Some(id) = id else {
            tracing::warn!(why = %self, "a message that wants no answer was perhaps not delivered");
            return None;
        };
        let mut answer = Vec::new();
        // To the caller it is as good as a server that has no time: the next call may go well.
        let error = ErrorObject::application(Code::SERVER_BUSY, self.to_string(), None);
        write_error(&mut answer, id, &error);
        Some(answer)
    }
}

impl fmt::Display for Failure {
    /// Shows nothing that the server wrote: it may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Status(status) => write!(f, "HTTP {status}"),
            Failure::Broken => f.write_str("the connection broke before the answer came"),
            Failure::Bad(what) => f.write_str(what),
            Failure::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
        }
    }
}

/// The id of a request; `None` if the message is none, and wants no answer.
pub(super) fn id_of(message: &[u8]) -> Option<Id> {
    let text = Text::check(message, Limits::MAX_DEPTH).ok()?;
    match Incoming::classify(&text, BatchRule::Reject, &Limits::default()) {
        Incoming::Request(request) => Some(request.id),
        _ => None,
    }
}

/// What a whole response carries for the request of that id: a message, or nothing if it says only
/// that the request arrived.
pub(super) fn judge<'a>(
    status: Status,
    body: Vec<u8>,
    id: impl Fn() -> Option<&'a Id>,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, Failure> {
    let is_success = matches!(status.0, 200..300);
    if is_success && (matches!(status.0, 202 | 204) || body.trim_ascii().is_empty()) {
        return match id() {
            None => Ok(None),
            Some(_) => Err(Failure::Bad("the server took the request and did not answer it")),
        };
    }
    let message = Text::check(&body, limits.depth)
        .map(|text| Incoming::classify(&text, BatchRule::Reject, limits));
    let is_answer = match &message {
        Ok(Incoming::Response(_) | Incoming::Stray(_)) if is_success => true,
        Ok(Incoming::Response(Response { id: answered, settled: Settled::Error(_) })) => {
            id() == Some(answered)
        }
        _ => false,
    };
    drop(message);
    match is_answer {
        true => Ok(Some(body)),
        // The session would answer that with what is wrong with it. This would be another request,
        // which the server may answer in the same way, and so on for ever.
        false if is_success => Err(Failure::Bad("the server's answer is no JSON-RPC message")),
        false => Err(Failure::Status(status)),
    }
}
