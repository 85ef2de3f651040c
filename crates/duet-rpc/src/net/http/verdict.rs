//! Outcome of an HTTP exchange: the messages in its response, or the reason of the failure.

use std::error::Error;
use std::fmt;
use std::io;

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::{Id, Incoming, Response, Settled};
use duet_rpc_proto::policy::BatchRule;
use duet_rpc_proto::text::{Kind, Member, Text};
use http::StatusCode;

use crate::log_limit::LogLimiter;
#[cfg(feature = "tls")]
use crate::net::TlsError;
use crate::net::web::Refused;

/// A message or a failure, for the peer of the client.
pub(super) enum HttpArrival {
    /// A message.
    Message(Vec<u8>),
    /// A failed call, which gets no answer.
    Failed(Id, io::Error),
}

/// The reason why a request failed.
#[derive(Debug)]
pub(super) enum HttpFailure {
    /// The server answered with this status.
    Status(StatusCode),
    /// The connection ended before the answer came.
    Broken(hyper::Error),
    /// The response is not an answer.
    Bad(&'static str),
    /// No connection can be made.
    Unreachable(io::Error),
}

impl HttpFailure {
    /// The failure of a request that got no response head.
    pub(super) fn from_head(error: hyper::Error) -> Self {
        match error.is_parse() {
            true => HttpFailure::Bad("the server does not speak HTTP"),
            false => HttpFailure::Broken(error),
        }
    }

    /// The failure of a response with an incomplete body.
    pub(super) fn from_body(error: hyper::Error) -> Self {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        match cause.map(io::Error::kind) {
            Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
                HttpFailure::Bad("the body of the response is malformed")
            }
            _ => HttpFailure::Broken(error),
        }
    }

    /// Returns `true` if every request would get this failure, and not only this one.
    pub(super) fn concerns_all(&self) -> bool {
        match self {
            HttpFailure::Status(status) => {
                matches!(status.as_u16(), 300..=399 | 401 | 403 | 404 | 405)
            }
            // In TLS 1.3 a server refuses the certificate of a client only after the client's handshake.
            #[cfg(feature = "tls")]
            HttpFailure::Broken(error) => {
                TlsError::from_error(error).is_some_and(TlsError::refuses_client)
            }
            _ => false,
        }
    }

    pub(super) fn into_error(self) -> io::Error {
        let kind = match &self {
            HttpFailure::Status(status) => return Refused::new(status.as_u16()).into(),
            HttpFailure::Unreachable(error) => error.kind(),
            HttpFailure::Broken(_) => io::ErrorKind::ConnectionAborted,
            HttpFailure::Bad(_) => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }

    /// The error of a notification. The server may have accepted the notification nevertheless.
    pub(super) fn into_error_of_notification(self) -> io::Error {
        let error = self.into_error();
        io::Error::new(error.kind(), NotDelivered(error))
    }
}

impl fmt::Display for HttpFailure {
    /// Shows no text that the server wrote, because it may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFailure::Status(status) => Refused::new(status.as_u16()).fmt(f),
            HttpFailure::Broken(_) => f.write_str("the connection broke before the answer came"),
            HttpFailure::Bad(what) => f.write_str(what),
            HttpFailure::Unreachable(error) => write!(f, "the server cannot be reached: {error}"),
        }
    }
}

impl Error for HttpFailure {
    /// The failure of the connection, which may be a failure of TLS.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            HttpFailure::Broken(error) => Some(error),
            HttpFailure::Unreachable(error) => Some(error),
            HttpFailure::Status(_) | HttpFailure::Bad(_) => None,
        }
    }
}

/// The failure of a notification, which has this cause.
#[derive(Debug)]
struct NotDelivered(io::Error);

impl fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a notification was perhaps not delivered: {}", self.0)
    }
}

impl Error for NotDelivered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// The id of a request; `None` if the message is not one request.
pub(super) fn id_of(message: &[u8]) -> Option<Id> {
    let text = Text::check(message, Limits::MAX_DEPTH).ok()?;
    match Incoming::classify(&text, BatchRule::Reject, &Limits::default()) {
        Incoming::Request(request) => Some(request.id.to_id()),
        _ => None,
    }
}

/// Returns `true` for a batch with a request in it.
pub(super) fn is_batch_of_requests(message: &[u8]) -> bool {
    let Ok(text) = Text::check(message, Limits::MAX_DEPTH) else { return false };
    let is_request = |entry: Text<'_>| {
        entry.member(Member::Method).is_some() && entry.member(Member::Id).is_some()
    };
    text.kind() == Kind::Array && text.elements().any(is_request)
}

/// The permitted contents of a response: the answer to one request, and notifications.
pub(super) struct Expected<'a> {
    /// The id of the request; `None` if it expects no answer.
    pub(super) id: Option<&'a Id>,
    pub(super) status: StatusCode,
    pub(super) limits: &'a Limits,
}

/// The messages of one text of a response.
#[derive(Default)]
pub(super) struct HttpMessages {
    pub(super) messages: Vec<Vec<u8>>,
    /// One of them is the answer to the request.
    pub(super) has_answer: bool,
}

const NOT_JSON: &str = "the response is not JSON";
const NOT_AN_ANSWER: &str = "the response is not a JSON-RPC answer";
const OTHER_ID: &str = "the response has the id of another request";

impl Expected<'_> {
    /// The messages of a text that is one message or a batch.
    pub(super) fn judge(&self, bytes: Vec<u8>) -> Result<HttpMessages, HttpFailure> {
        let mut all = HttpMessages::default();
        let taken = match Text::check(&bytes, self.limits.depth) {
            Err(_) => Err(NOT_JSON),
            Ok(text) if text.kind() == Kind::Array => {
                text.elements().try_for_each(|entry| self.take(&entry, &mut all))
            }
            Ok(text) => self.take(&text, &mut all),
        };
        // If the body does not answer the request, the status of the refusal is the failure.
        match taken {
            Ok(()) if self.status.is_success() || all.has_answer => Ok(all),
            Err(what) if self.status.is_success() => Err(HttpFailure::Bad(what)),
            _ => Err(HttpFailure::Status(self.status)),
        }
    }

    /// The messages of a whole body, which must contain the answer.
    pub(super) fn judge_whole(&self, bytes: Vec<u8>) -> Result<HttpMessages, HttpFailure> {
        let messages = self.judge(bytes)?;
        match self.id.is_none() || messages.has_answer {
            true => Ok(messages),
            false => Err(HttpFailure::Bad(NOT_AN_ANSWER)),
        }
    }

    /// Accepts one message. Messages of other kinds must not reach the session: it would answer a request or an
    /// invalid message with another HTTP request, and the server might answer that in the same way, endlessly.
    fn take(&self, text: &Text<'_>, all: &mut HttpMessages) -> Result<(), &'static str> {
        match Incoming::classify(text, BatchRule::Reject, self.limits) {
            Incoming::Response(response) => {
                all.messages.push(self.take_answer(text, &response)?);
                all.has_answer = true;
            }
            Incoming::Notification(_) if self.status.is_success() => {
                all.messages.push(text.as_str().as_bytes().to_vec());
            }
            Incoming::Request(_) if self.status.is_success() => {
                log_ignored_request();
            }
            _ => return Err(NOT_AN_ANSWER),
        }
        Ok(())
    }

    fn take_answer(
        &self,
        text: &Text<'_>,
        response: &Response<'_>,
    ) -> Result<Vec<u8>, &'static str> {
        let is_success = self.status.is_success();
        let whole = || text.as_str().as_bytes().to_vec();
        match (self.id, response.settled) {
            // No caller waits for it, but it may explain what is wrong with the notification.
            (None, _) if is_success => Ok(whole()),
            (Some(id), _) if is_success && response.id == *id => Ok(whole()),
            (Some(id), Settled::Error(_)) if response.id == *id => Ok(whole()),
            // A server that cannot parse a request does not know its id, but this response can answer no other
            // request.
            (Some(id), Settled::Error(error)) if response.id.is_null() => {
                let id = id.as_raw();
                Ok(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into_bytes())
            }
            _ => Err(OTHER_ID),
        }
    }
}

/// The client ignores requests. An answer would be another HTTP request, and might wait for the connection that this
/// response holds.
fn log_ignored_request() {
    static METER: LogLimiter = LogLimiter::new(20);

    METER.log("requests of HTTP servers ignored", || {
        tracing::warn!("request of an HTTP server ignored: the client cannot answer it");
    });
}
