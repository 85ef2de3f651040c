//! Error: the one error type of this library.

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

use self::disconnect::LastStderr;
pub use self::disconnect::{CloseReason, ConnectionState, Disconnect};
pub use self::failure::{Failure, OrInternal};
pub use self::from_remote::FromRemote;

type Cause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error, with its cause and the request that it belongs to.
///
/// It is one pointer wide, goes from task to task, and keeps its causes on the way. None of what
/// it holds goes onto the wire; [`Error::to_object`] makes what does.
///
/// `Display` and `Debug` show the code and the message of an error that the remote answered. That is the
/// remote's text: this library never puts it into its own log records, and if your log must not have it
/// either, log [`Error::kind`].
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
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    id: Option<Id>,
    cause: Option<Cause>,
    /// `true` if it is certain that the message was not sent.
    is_unsent: bool,
    backtrace: Backtrace,
}

/// The kinds of errors, by origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Ours: a handler failed.
    Handler,
    /// Ours: a handler panicked.
    Panic,
    /// Ours: the parameters of a call cannot be sent.
    Params,
    /// Ours: the remote cannot be called, because the transport carries answers alone to it, or because it is not
    /// one remote but all [`Peers`](crate::Peers) of a server.
    OneWay,
    /// Theirs: they answered a call with an error; see [`Error::remote`].
    Remote,
    /// Theirs: what they sent is no message, or not one that fits here.
    Protocol,
    /// The clock's: there was no answer in time.
    Timeout,
    /// Nobody's: the call was cancelled.
    Cancelled,
    /// A limit's: too much is under way already.
    Capacity,
    /// The line's: the exchange of this one call failed, and the connection stands. Over HTTP: a status
    /// that is no success (see `Error::http_status`), a connection that broke
    /// before the answer came, or a response that is not a JSON-RPC answer. Whether the server has acted
    /// on the request is not known.
    Exchange,
    /// The line's: the connection of a [`Client`](crate::Client) broke, or there is none for now, and the client makes
    /// another. [`Error::was_sent`] tells the two apart.
    Interrupted,
    /// The line's: a connection could not be made. The cause says why.
    Connect,
    /// The line's: reading or writing failed.
    Transport,
    /// The line's: the connection is closed.
    Disconnected,
}

impl ErrorKind {
    /// Returns `true` if trying again makes sense, because the connection is open or will be made again. If not,
    /// the error is fatal: every operation on this connection will fail.
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
    /// An error of this kind. Where the environment asks for backtraces, it has one from here.
    pub fn new(kind: ErrorKind) -> Self {
        let backtrace = Backtrace::capture();
        Error(Box::new(Inner { kind, id: None, cause: None, is_unsent: false, backtrace }))
    }

    /// Adds what caused it.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Adds the id of the request that it belongs to.
    #[must_use]
    pub fn of_request(mut self, id: Id) -> Self {
        self.0.id = Some(id);
        self
    }

    /// The same, of a message that was not sent.
    #[must_use]
    pub(crate) fn unsent(mut self) -> Self {
        self.0.is_unsent = true;
        self
    }

    /// The same, of a connection that comes back.
    pub(crate) fn interrupted(mut self) -> Self {
        self.0.kind = ErrorKind::Interrupted;
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The request that it belongs to, if it belongs to one.
    pub fn id(&self) -> Option<&Id> {
        self.0.id.as_ref()
    }

    /// Returns `true` if it makes sense to try again; see [`ErrorKind::is_recoverable`].
    pub fn is_recoverable(&self) -> bool {
        self.0.kind.is_recoverable()
    }

    /// Returns `false` if the call or notification that failed was not sent: the remote has not received it, and
    /// sending it again cannot do its work twice. `true` means that the remote may have received it, and may have
    /// acted on it: the message was handed to the transport, and its outcome is not known.
    ///
    /// For an error that belongs to no message, it returns `true`.
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
    /// stderr lines of a process. If a client could not connect again, it is the end of the connection whose
    /// process exited, where there is one.
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

    /// The error that the remote answered, if it is one.
    ///
    /// ```
    /// use duet_rpc::{Error, ErrorKind};
    ///
    /// assert!(Error::new(ErrorKind::Timeout).remote().is_none());
    /// ```
    pub fn remote(&self) -> Option<&RemoteError> {
        self.cause().and_then(|cause| cause.downcast_ref())
    }

    /// The HTTP status with which a server refused a request or a connection, if that is the cause: of an
    /// [`Exchange`](ErrorKind::Exchange) over HTTP, or of a [`Connect`](ErrorKind::Connect) to a WebSocket.
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
            // A limit, a timeout or a bad remote that a handler met on its own calls is, for the
            // one who called it, the handler's failure.
            _ => ErrorObject::internal_error(),
        }
    }
}

/// The kind of the error and its request, without any text of the remote.
struct What<'a>(&'a Error);

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind() {
            ErrorKind::Handler => "a handler failed",
            ErrorKind::Panic => "a handler panicked",
            ErrorKind::Params => "the parameters cannot be sent",
            ErrorKind::OneWay => "the remote cannot be called",
            ErrorKind::Remote => "the remote answered with an error",
            ErrorKind::Protocol => "the remote broke the protocol",
            ErrorKind::Timeout => "there was no answer in time",
            ErrorKind::Cancelled => "the call was cancelled",
            ErrorKind::Capacity => "a capacity limit is reached",
            ErrorKind::Exchange => "the exchange failed",
            ErrorKind::Interrupted if !self.0.was_sent() => "there is no connection for now",
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
    /// Says what went wrong, with the code and the message of an error that the remote answered; with `{:#}`
    /// also why, cause by cause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        What(self).fmt(f)?;
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
    /// The cause. What the remote answered is no cause, but the error itself: see [`Error::remote`].
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().filter(|cause| !cause.is::<RemoteError>())
    }
}

/// An error for the log: what went wrong, and why, cause by cause, with nothing of what a remote has
/// sent (G6). The message of its error, and the parser's that quotes it, stay out.
pub(crate) struct Logged<'a>(pub(crate) &'a Error);

impl fmt::Display for Logged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Errors of the application may panic where they are shown.
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
        let causes = causes.unwrap_or_else(|_| ": its cause panics when it is shown".to_owned());
        write!(f, "{}{causes}", What(self.0))
    }
}

fn push_cause(text: &mut String, cause: &(dyn std::error::Error + 'static)) {
    use std::fmt::Write;

    let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    // Writing to a string does not fail.
    let _ = if let Some(inner) = wrapped {
        push_cause(text, inner);
        Ok(())
    } else if let Some(error) = cause.downcast_ref::<Error>() {
        write!(text, "{}", What(error))
    } else if let Some(remote) = cause.downcast_ref::<RemoteError>() {
        write!(text, "its code is {}", remote.code)
    } else if let Some(UncorrelatedError(remote)) = cause.downcast_ref() {
        write!(text, "the remote refused a message, its code is {}", remote.code)
    } else if let Some(object) = cause.downcast_ref::<ErrorObject>() {
        // The message may be made of what a remote has sent.
        write!(text, "its code is {}", object.code().0)
    } else if cause.is::<LastStderr>() {
        text.push_str("its stderr is not logged");
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

/// A result that is not of the type that the caller asked for.
#[derive(Debug)]
pub(crate) struct WrongResult(pub(crate) ParamProblem);

impl WrongResult {
    /// Says where it is wrong, and shows nothing of what the remote sent.
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

/// The error that a remote answered with.
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteError {
    /// The code; 0 if it has none.
    pub code: i64,
    /// The message, for people; empty if there is none.
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

/// The number of characters of a remote's message that `Debug` shows.
const LONGEST_SHOWN: usize = 200;

impl fmt::Debug for RemoteError {
    /// Shows the code and the message, which `unwrap` prints, and nothing of the data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message: String = self.message.chars().take(LONGEST_SHOWN).collect();
        let mut shown = f.debug_struct("RemoteError");
        shown.field("code", &self.code).field("message", &message).finish_non_exhaustive()
    }
}

impl std::error::Error for RemoteError {}
