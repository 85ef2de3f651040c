//! Failure: the error of a handler, with what the remote is told and what only the log shows.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use duet_rpc_proto::message::{Code, ErrorObject, ParamProblem};
use serde::Serialize;

use super::{Error, ErrorKind, RemoteError};

type Cause = Box<dyn StdError + Send + Sync + 'static>;

/// Failure of a handler: the error object for the remote, and the cause for the log.
///
/// Handlers return `Result<T, E>` with any `E` that converts into this. For errors of your own
/// write that conversion; for those that the remote need not understand, `?` does. What the remote may see is
/// [E1](crate::proto::specification#e1).
///
/// ```
/// use duet_rpc::Failure;
///
/// enum BankError { Overdrawn { by: u64 }, Offline(std::io::Error) }
///
/// impl From<BankError> for Failure {
///     fn from(error: BankError) -> Failure {
///         match error {
///             BankError::Overdrawn { by } => Failure::new(-32001, "Overdrawn").with_data([by]),
///             BankError::Offline(cause) => cause.into(),
///         }
///     }
/// }
///
/// let failure = Failure::from(BankError::Overdrawn { by: 5 });
/// assert_eq!(failure.object().message(), "Overdrawn");
/// let failure = Failure::from(BankError::Offline(std::io::Error::other("no route to the bank")));
/// assert_eq!(failure.object().message(), "Internal error");
/// ```
pub struct Failure {
    object: ErrorObject,
    cause: Option<Cause>,
}

impl Failure {
    /// An error for the remote to understand. The codes of the application are those from -32099 to -32001, and
    /// any below -32768 or above -32000: JSON-RPC reserves the rest, and -32000 is `Server busy`.
    ///
    /// The log shows the code, and the message if it is a `&'static str`. A message made at run time may
    /// hold what the remote sent, so it stays out; add [`caused_by`](Failure::caused_by) for the log.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::application(Code(code), message, None).into()
    }

    /// Tells the remote more, in the error's `data`. What cannot be written as JSON makes an internal error
    /// of it.
    #[must_use]
    pub fn with_data(self, data: impl Serialize) -> Self {
        let data = match serde_json::value::to_raw_value(&data) {
            Ok(data) => data,
            Err(error) => return Failure::internal(error),
        };
        let code = self.object.code();
        let message = match self.object.static_message() {
            Some(message) => Cow::Borrowed(message),
            None => Cow::Owned(self.object.message().to_owned()),
        };
        Failure { object: ErrorObject::application(code, message, Some(data)), ..self }
    }

    /// An internal error; the cause is for the log alone.
    pub fn internal(cause: impl Into<Cause>) -> Self {
        Failure { object: ErrorObject::internal_error(), cause: Some(cause.into()) }
    }

    /// Wrong params (-32602): names the parameter, or the path to it, and says what is expected there. Use
    /// [`Failure::new`] if the error is about more than one parameter.
    ///
    /// ```
    /// use duet_rpc::Failure;
    ///
    /// let failure = Failure::invalid_params("range.to", "number above range.from", "number");
    /// assert_eq!(failure.object().message(), "Invalid params");
    /// ```
    ///
    /// `received` is the JSON type that came, or `missing`, and never a piece of the message
    /// ([E4](crate::proto::specification#e4)).
    pub fn invalid_params(
        param: impl Into<Cow<'static, str>>,
        expected: impl Into<Cow<'static, str>>,
        received: &'static str,
    ) -> Self {
        ErrorObject::invalid_params(ParamProblem::wrong_type(param, expected, received)).into()
    }

    /// The thing that the params name does not exist: -32004 with a message of yours.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::application(Code::NOT_FOUND, message, None).into()
    }

    /// There is no such method (-32601), for a [`fallback`](crate::Router::fallback) that does not know it
    /// either.
    pub fn method_not_found(method: &str) -> Self {
        ErrorObject::method_not_found(method).into()
    }

    /// Returns `true` if a panic is the cause.
    pub(crate) fn is_panic(&self) -> bool {
        let error = self.cause().and_then(|cause| cause.downcast_ref::<Error>());
        error.is_some_and(|error| error.kind() == ErrorKind::Panic)
    }

    /// Adds what caused it, for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Cause>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// The error object that the remote receives.
    pub fn object(&self) -> &ErrorObject {
        &self.object
    }

    /// The cause, which only the log shows.
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }

    /// The error as this process sees it.
    pub(crate) fn into_error(self) -> Error {
        match self.cause {
            // An error of ours is passed on as it is, with its own causes.
            Some(cause) => match cause.downcast::<Error>() {
                Ok(error) => *error,
                Err(cause) => Error::new(ErrorKind::Handler).caused_by(cause),
            },
            None => Error::new(ErrorKind::Handler).caused_by(self.object),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("object", &self.object).field("cause", &self.cause).finish()
    }
}

impl From<ErrorObject> for Failure {
    fn from(object: ErrorObject) -> Self {
        Failure { object, cause: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { object: error.to_object(), cause: Some(error.into()) }
    }
}

/// Passes on what a remote of ours answered, as it was.
impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let RemoteError { code, message, data } = error.clone();
        let object = ErrorObject::application(Code(code), message, data);
        // The log shows the cause, and so nothing of what the remote wrote.
        Failure::from(object).caused_by(error)
    }
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Self {
        Failure::internal(cause)
    }
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        Failure::internal(cause)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(cause: serde_json::Error) -> Self {
        Failure::internal(cause)
    }
}

impl From<Infallible> for Failure {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The cause is for the log alone.
#[cfg(feature = "anyhow")]
#[cfg_attr(docsrs, doc(cfg(feature = "anyhow")))]
impl From<anyhow::Error> for Failure {
    fn from(cause: anyhow::Error) -> Self {
        Failure::internal(cause)
    }
}

/// Makes an internal error of any error, so that `?` works in handlers.
///
/// The remote is told `Internal error` (-32603); the error itself is for the log alone.
///
/// ```
/// use duet_rpc::{Failure, OrInternal, Router};
///
/// async fn port((text,): (String,)) -> Result<u16, Failure> {
///     let port = text.parse::<u16>().or_internal()?;
///     Ok(port)
/// }
///
/// let router = Router::new().method("port", port);
/// ```
pub trait OrInternal<T> {
    /// Makes an internal error of the error.
    fn or_internal(self) -> Result<T, Failure>;
}

impl<T, E: StdError + Send + Sync + 'static> OrInternal<T> for Result<T, E> {
    fn or_internal(self) -> Result<T, Failure> {
        self.map_err(Failure::internal)
    }
}
