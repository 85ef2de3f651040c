//! Error: the error type of calls and connections, and the failures of handlers.

mod disconnect;
mod failure;
mod from_remote;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::io;

use duet_rpc_proto::message::{ErrorObject, Id, ParamProblem, ReceivedError};
use serde_json::value::RawValue;

use crate::panic_guard;
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::transport::Refused;

use self::disconnect::StderrCause;
pub use self::disconnect::{CloseReason, ConnectionState, Disconnect};
pub use self::failure::{Failure, OrInternal};
pub use self::from_remote::FromRemote;

/// Any error, as a cause.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// The error of a call or a connection, with its cause and the id of its request.
///
/// It is one pointer wide, and it is [`Send`]. Its content never goes onto the wire;
/// [`Error::to_object`] makes the error object for the remote.
///
/// `Display` and `Debug` show the code and the message of an error that the remote returned. The remote wrote this
/// text, so the library keeps it out of its own log records. If your log must not contain it either, log
/// [`Error::kind`].
///
/// ```
/// use duet_rpc::{Error, ErrorKind, proto::message::Id};
///
/// let broken = std::io::Error::other("the disk is full");
/// let error = Error::new(ErrorKind::Handler).caused_by(broken).of_request(Id::from(7));
/// assert_eq!(error.to_string(), "a handler failed (request 7)");
/// assert_eq!(format!("{error:#}"), "a handler failed (request 7): the disk is full");
/// assert!(error.is_recoverable());
/// assert_eq!(error.to_object().message(), "Internal error");
/// ```
pub struct Error(Box<ErrorDetails>);

struct ErrorDetails {
    kind: ErrorKind,
    id: Option<Id>,
    cause: Option<BoxError>,
    /// `true` if it is certain that the message was not sent.
    is_unsent: bool,
    backtrace: Backtrace,
}

/// The kind of an [`Error`], by origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Local: a handler failed.
    Handler,
    /// Local: a handler panicked.
    Panic,
    /// Local: the params of a call cannot be sent.
    Params,
    /// Local: this target cannot be called. Either its transport carries only answers, as HTTP does, or the target
    /// is not one remote but all [`Peers`](crate::Peers) of a server.
    OneWay,
    /// Remote: the remote answered a call with an error; see [`Error::remote`].
    Remote,
    /// Remote: the remote sent an invalid or unexpected message.
    Protocol,
    /// Time: no answer came in time.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// Limit: too many calls or bytes are pending.
    Capacity,
    /// Transport: the exchange of this one call failed, and the connection remains usable. Over HTTP: a status
    /// other than success (see `Error::http_status`), a connection that broke before the answer came, or a
    /// response that is not a JSON-RPC answer. The server may or may not have handled the request.
    Exchange,
    /// Transport: the connection of a [`Client`](crate::Client) broke or does not exist, and the client reconnects.
    /// [`Error::was_sent`] tells the two apart. Behind a broker: the worker that had the call is silent, and the next
    /// call goes to another one.
    Interrupted,
    /// Transport: connecting failed. The cause has the reason.
    Connect,
    /// Transport: reading or writing failed.
    Transport,
    /// Transport: the connection is closed.
    Disconnected,
}

impl ErrorKind {
    /// Returns `true` if a retry makes sense, because the connection is open or the client reconnects. If `false`,
    /// every further operation on this connection fails.
    pub fn is_recoverable(self) -> bool {
        match self {
            ErrorKind::Handler
            | ErrorKind::Panic
            | ErrorKind::Params
            | ErrorKind::OneWay
            | ErrorKind::Remote
            | ErrorKind::Protocol
            | ErrorKind::Timeout
            | ErrorKind::Cancelled
            | ErrorKind::Capacity
            | ErrorKind::Exchange
            | ErrorKind::Interrupted => true,
            ErrorKind::Connect | ErrorKind::Transport | ErrorKind::Disconnected => false,
        }
    }
}

impl Error {
    /// An error of this kind. It captures a backtrace if the environment asks for one.
    pub fn new(kind: ErrorKind) -> Self {
        let backtrace = Backtrace::capture();
        Error(Box::new(ErrorDetails { kind, id: None, cause: None, is_unsent: false, backtrace }))
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<BoxError>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Adds the id of the request to which the error belongs.
    #[must_use]
    pub fn of_request(mut self, id: Id) -> Self {
        self.0.id = Some(id);
        self
    }

    /// Marks the message as not sent.
    #[must_use]
    pub(crate) fn unsent(mut self) -> Self {
        self.0.is_unsent = true;
        self
    }

    /// The error of one call that its transport has lost, for the reason that the transport gave. Some kinds of
    /// reasons tell more: `Interrupted` for a remote that may have begun, and `NotConnected` and `InvalidInput` for a
    /// message that was not sent.
    pub(crate) fn lost_exchange(reason: io::Error) -> Self {
        match reason.kind() {
            io::ErrorKind::Interrupted => Error::new(ErrorKind::Interrupted),
            io::ErrorKind::NotConnected | io::ErrorKind::InvalidInput => {
                Error::new(ErrorKind::Exchange).unsent()
            }
            _ => Error::new(ErrorKind::Exchange),
        }
        .caused_by(reason)
    }

    /// Changes the kind to `Interrupted`, because the client reconnects.
    pub(crate) fn interrupted(mut self) -> Self {
        self.0.kind = ErrorKind::Interrupted;
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The id of the request to which the error belongs, if any.
    pub fn id(&self) -> Option<&Id> {
        self.0.id.as_ref()
    }

    /// Returns `true` if a retry makes sense; see [`ErrorKind::is_recoverable`].
    pub fn is_recoverable(&self) -> bool {
        self.0.kind.is_recoverable()
    }

    /// Returns `false` if the call or notification that failed was not sent: the remote has not received it, and
    /// sending it again cannot do its work twice. `true` means that the remote may have received it, and may have
    /// acted on it: the message was handed to the transport, and its outcome is not known.
    ///
    /// For an error that does not belong to a message, it returns `true`.
    ///
    /// ```
    /// use duet_rpc::{Client, Error, ErrorKind};
    ///
    /// async fn pay(client: &Client, amount: u64) -> Result<u64, Error> {
    ///     loop {
    ///         match client.call("pay", [amount]).await {
    ///             // There was no connection: nobody has paid.
    ///             Err(error) if error.kind() == ErrorKind::Interrupted && !error.was_sent() => {
    ///                 client.connected().await?;
    ///             }
    ///             // If the connection broke before the answer, only the server knows.
    ///             paid => return paid,
    ///         }
    ///     }
    /// }
    /// ```
    pub fn was_sent(&self) -> bool {
        !self.0.is_unsent
    }

    /// The end of the connection, if that is why the operation failed: its reason, and the exit status and the last
    /// stderr lines of a process. After failed attempts to reconnect, the causes may contain several ends. This
    /// returns the first one with an exit status, or the first one if none has an exit status.
    ///
    /// ```
    /// use duet_rpc::Error;
    ///
    /// fn report(error: &Error) {
    ///     let Some(end) = error.disconnect() else { return eprintln!("{error:#}") };
    ///     let report = end.exit_report();
    ///     if let Some(exit) = report.exit {
    ///         eprintln!("the server ended with {exit}");
    ///     }
    ///     for line in &report.last_stderr {
    ///         eprintln!("| {line}");
    ///     }
    /// }
    /// ```
    pub fn disconnect(&self) -> Option<&Disconnect> {
        let causes = std::iter::successors(self.cause(), |cause| cause.source());
        let mut ends = causes.filter_map(|cause| cause.downcast_ref::<Disconnect>());
        let first = ends.clone().next();
        ends.find(|end| end.exit_report().exit.is_some()).or(first)
    }

    /// The error that the remote returned, if the kind is [`Remote`](ErrorKind::Remote).
    ///
    /// ```
    /// use duet_rpc::{Error, ErrorKind};
    ///
    /// assert!(Error::new(ErrorKind::Timeout).remote().is_none());
    /// ```
    pub fn remote(&self) -> Option<&RemoteError> {
        self.cause().and_then(|cause| cause.downcast_ref())
    }

    /// The HTTP status with which a server refused a request or a connection. Errors of the kind
    /// [`Exchange`](ErrorKind::Exchange) over HTTP, and of the kind [`Connect`](ErrorKind::Connect) to a WebSocket,
    /// can have one.
    #[cfg(any(feature = "http", feature = "websocket"))]
    #[cfg_attr(docsrs, doc(cfg(any(feature = "http", feature = "websocket"))))]
    pub fn http_status(&self) -> Option<u16> {
        let causes = std::iter::successors(self.cause(), |cause| cause.source());
        let refused = causes.filter_map(|cause| match cause.downcast_ref::<io::Error>() {
            Some(error) => Refused::from_error(error),
            None => cause.downcast_ref::<Refused>(),
        });
        refused.map(Refused::status).next()
    }

    fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }

    /// The backtrace, if the environment asked for one (`RUST_BACKTRACE=1`).
    pub fn backtrace(&self) -> Option<&Backtrace> {
        let captured = self.0.backtrace.status() == BacktraceStatus::Captured;
        captured.then_some(&self.0.backtrace)
    }

    /// The error object for the remote: an internal error, without the cause.
    pub fn to_object(&self) -> ErrorObject {
        match self.0.kind {
            ErrorKind::Cancelled => ErrorObject::request_cancelled(),
            // A handler may return the error of a call that it made. For its own caller, that is an internal
            // error of the handler.
            _ => ErrorObject::internal_error(),
        }
    }
}

/// Displays the kind and the request id of an error, without any text of the remote.
struct Summary<'a>(&'a Error);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind() {
            ErrorKind::Handler => "a handler failed",
            ErrorKind::Panic => "a handler panicked",
            ErrorKind::Params => "the params cannot be sent",
            ErrorKind::OneWay => "the remote cannot be called",
            ErrorKind::Remote => "the remote answered with an error",
            ErrorKind::Protocol => "the remote broke the protocol",
            ErrorKind::Timeout => "no answer in time",
            ErrorKind::Cancelled => "the call was cancelled",
            ErrorKind::Capacity => "a capacity limit is reached",
            ErrorKind::Exchange => "the exchange failed",
            ErrorKind::Interrupted if !self.0.was_sent() => {
                "the connection is down, the client is reconnecting"
            }
            ErrorKind::Interrupted if self.0.id().is_some() => {
                "the connection broke before the answer came"
            }
            ErrorKind::Interrupted => "the connection broke",
            ErrorKind::Connect => "cannot connect",
            ErrorKind::Transport => "reading or writing failed",
            ErrorKind::Disconnected => "the connection is closed",
        })?;
        match self.0.id() {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    /// Shows the kind of the error, and the code and the message of an error that the remote returned. `{:#}`
    /// also shows the causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Summary(self).fmt(f)?;
        let mut cause = self.cause().filter(|cause| f.alternate() || cause.is::<RemoteError>());
        while let Some(deeper) = cause {
            write!(f, ": {deeper}")?;
            cause = deeper.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Error");
        shown.field("kind", &self.0.kind).field("id", &self.0.id).field("cause", &self.0.cause);
        if let Some(backtrace) = self.backtrace() {
            shown.field("backtrace", backtrace);
        }
        shown.finish()
    }
}

impl std::error::Error for Error {
    /// The cause, but never the error that the remote returned: `Display` already shows that one, and
    /// [`Error::remote`] returns it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().filter(|cause| !cause.is::<RemoteError>())
    }
}

/// Displays an error and its causes for the log, without any text of the remote (G6). It leaves out the message of
/// the remote's error, and parser messages that quote input.
pub(crate) struct Logged<'a>(pub(crate) &'a Error);

impl fmt::Display for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `Display` of an application's error may panic.
        let causes = panic_guard::catch(|| {
            let mut text = String::new();
            let mut cause = self.0.cause();
            while let Some(deeper) = cause {
                text.push_str(": ");
                push_cause(&mut text, deeper);
                cause = match deeper.downcast_ref::<Error>() {
                    Some(error) => error.cause(),
                    None => deeper.source(),
                };
            }
            text
        });
        let causes = causes.unwrap_or_else(|_| ": its cause panicked in `Display`".to_owned());
        write!(f, "{}{causes}", Summary(self.0))
    }
}

fn push_cause(text: &mut String, cause: &(dyn std::error::Error + 'static)) {
    use std::fmt::Write;

    let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    // Writing to a string cannot fail.
    let _ = if let Some(inner) = wrapped {
        push_cause(text, inner);
        Ok(())
    } else if let Some(error) = cause.downcast_ref::<Error>() {
        write!(text, "{}", Summary(error))
    } else if let Some(remote) = cause.downcast_ref::<RemoteError>() {
        write!(text, "error code {}", remote.code)
    } else if let Some(UncorrelatedError(remote)) = cause.downcast_ref() {
        write!(text, "the remote refused a message, error code {}", remote.code)
    } else if let Some(object) = cause.downcast_ref::<ErrorObject>() {
        // The message may quote input of the remote.
        write!(text, "error code {}", object.code().0)
    } else if cause.is::<StderrCause>() {
        text.push_str("stderr is not logged");
        Ok(())
    } else if let Some(wrong) = cause.downcast_ref::<WrongResult>() {
        wrong.write_expected(text)
    } else if let Some(json) = cause.downcast_ref::<serde_json::Error>() {
        let (line, column) = (json.line(), json.column());
        write!(text, "JSON, {:?} error in line {line}, column {column}", json.classify())
    } else {
        write!(text, "{cause}")
    };
}

/// An error response with `id: null`: the remote could not tell which message it refers to.
#[derive(Debug)]
pub(crate) struct UncorrelatedError(pub(crate) RemoteError);

impl fmt::Display for UncorrelatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the remote refused a message without saying which: {}", self.0)
    }
}

impl std::error::Error for UncorrelatedError {}

/// A result that does not fit the type that the caller expects.
#[derive(Debug)]
pub(crate) struct WrongResult(pub(crate) ParamProblem);

impl WrongResult {
    /// Writes the position and the expected type, without any text of the remote.
    fn write_expected(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let (place, expected) = (self.0.param(), self.0.expected());
        write!(out, "the result is not of the expected type: {place}: expected {expected}")
    }
}

impl fmt::Display for WrongResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_expected(f)?;
        write!(f, ", received {}", self.0.received().escape_debug())?;
        match self.0.detail() {
            Some(detail) => write!(f, " ({})", detail.escape_debug()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for WrongResult {}

/// The error object that a remote returned.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteError {
    /// The code; 0 if the error has none.
    pub code: i64,
    /// The message; empty if the error has none.
    pub message: String,
    /// Further data of the error, as JSON.
    pub data: Option<Box<RawValue>>,
}

impl RemoteError {
    pub(crate) fn new(received: ReceivedError<'_>) -> Self {
        let data = received.data.map(|data| RawValue::from_string(data.to_owned()));
        RemoteError {
            code: received.code,
            message: received.message.into_owned(),
            data: data.and_then(Result::ok),
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message.escape_debug(), self.code)
    }
}

/// The maximum number of characters of a remote's message that `Debug` shows.
const LONGEST_SHOWN: usize = 200;

impl fmt::Debug for RemoteError {
    /// Shows the code and the message, because `unwrap` prints them, but not the data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message: String = self.message.chars().take(LONGEST_SHOWN).collect();
        let mut shown = f.debug_struct("RemoteError");
        shown.field("code", &self.code).field("message", &message).finish_non_exhaustive()
    }
}

impl std::error::Error for RemoteError {}
