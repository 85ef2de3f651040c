//! Outcome of an HTTP exchange: the answer in its response, or the reason of the failure.

use std::fmt;
use std::io;

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::{Id, Incoming, Response, Settled};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::Text;

use crate::net::web::{Refused, Status};

/// The outcome of one HTTP exchange.
pub(super) enum HttpArrival {
    /// This message.
    Message(Vec<u8>),
    /// Nothing will come for this call.
    Failed(Id, io::Error),
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum HttpFailure {
    /// The server answered with this status.
    Status(Status),
    /// The connection ended before the answer came.
    Broken,
    /// The response is not an answer.
    Bad(&'static str),
    /// No connection can be made.
    Unreachable(io::Error),
}

impl HttpFailure {
    /// Returns `true` if the server says this to every request, and not to this one alone.
    pub(super) fn concerns_all(&self) -> bool {
        matches!(self, HttpFailure::Status(Status(300..=399 | 401 | 403 | 404 | 405)))
    }

    pub(super) fn into_error(self) -> io::Error {
        let kind = match &self {
            HttpFailure::Status(status) => return Refused::new(status.0).into(),
            HttpFailure::Unreachable(error) => error.kind(),
            HttpFailure::Broken => io::ErrorKind::ConnectionAborted,
            HttpFailure::Bad(_) => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self.to_string())
    }

    /// The error of a notification. The server may have taken it all the same.
    pub(super) fn into_error_of_notification(self) -> io::Error {
        let error = self.into_error();
        io::Error::new(error.kind(), format!("a notification was perhaps not delivered: {error}"))
    }
}

impl fmt::Display for HttpFailure {
    /// Shows nothing that the server wrote: it may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFailure::Status(status) => Refused::new(status.0).fmt(f),
            HttpFailure::Broken => f.write_str("the connection broke before the answer came"),
            HttpFailure::Bad(what) => f.write_str(what),
            HttpFailure::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
        }
    }
}

/// The id of a request; `None` if the message wants no answer.
pub(super) fn id_of(message: &[u8]) -> Option<Id> {
    let text = Text::check(message, Limits::MAX_DEPTH).ok()?;
    match Incoming::classify(&text, BatchRule::Reject, &Limits::default()) {
        Incoming::Request(request) => Some(request.id.to_id()),
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
) -> Result<Option<Vec<u8>>, HttpFailure> {
    let is_success = matches!(status.0, 200..300);
    if is_success && (matches!(status.0, 202 | 204) || body.trim_ascii().is_empty()) {
        return match id() {
            None => Ok(None),
            Some(_) => Err(HttpFailure::Bad("the server took the request and did not answer it")),
        };
    }
    let bad =
        |what| Err(if is_success { HttpFailure::Bad(what) } else { HttpFailure::Status(status) });
    let Ok(text) = Text::check(&body, limits.depth) else {
        return bad("the response is not JSON");
    };
    // Whatever else came must not reach the session: it would be answered with another request, which the
    // server may answer in the same way, and so on for ever.
    let Incoming::Response(Response { id: answered, settled }) =
        Incoming::classify(&text, BatchRule::Reject, limits)
    else {
        return bad("the response is not a JSON-RPC answer");
    };
    match (id(), settled) {
        // Nobody waits for it, but it may say what is wrong with the notification.
        (None, _) if is_success => Ok(Some(body)),
        (Some(id), _) if is_success && answered == *id => Ok(Some(body)),
        (Some(id), Settled::Error(_)) if answered == *id => Ok(Some(body)),
        // A server that cannot read a request cannot tell its id, but this response answers no other.
        (Some(id), Settled::Error(error)) if answered.is_null() => {
            let id = id.as_raw();
            Ok(Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes()))
        }
        _ => bad("the response has the id of another request"),
    }
}
