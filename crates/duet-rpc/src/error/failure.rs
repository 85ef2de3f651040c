//! Failure: the error of a handler. It separates the error object for the remote from the cause for the log.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::io;

use duet_rpc_proto::message::{Code, ErrorObject, ParamProblem};
use serde::Serialize;

use super::{BoxError, Error, ErrorKind, RemoteError};

/// The failure of a handler: the error object for the remote, and the cause for the log.
///
/// Handlers return `Result<T, E>` with any `E` that converts into a `Failure`. Write the conversion for your own
/// errors, or derive it with [`RpcError`](derive@crate::RpcError). For I/O and JSON errors, `?` makes an internal
/// error; see [`OrInternal`] for other types. Rule [E1](crate::proto::specification#e1) says what the remote may see.
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
    cause: Option<BoxError>,
}

impl Failure {
    /// A failure with a code and a message for the remote. The application may use the codes from -32099 to -32001,
    /// and all codes below -32768 or above -32000: JSON-RPC reserves the others, and -32000 is `Server busy`.
    ///
    /// The log shows the code, and the message if it is a `&'static str`. A message made at run time may
    /// contain input of the remote, so the log leaves it out. Use [`caused_by`](Failure::caused_by) to log more.
    pub fn new(code: i64, message: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::application(Code(code), message, None).into()
    }

    /// Sets the error's `data`, which the remote receives. Data that serde cannot write turns the failure into an
    /// internal error.
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

    /// An internal error (-32603). Only the log shows the cause.
    pub fn internal(cause: impl Into<BoxError>) -> Self {
        Failure { object: ErrorObject::internal_error(), cause: Some(cause.into()) }
    }

    /// Invalid params (-32602): names the param, or the path to it, and the expected value. Use [`Failure::new`]
    /// if the error is about more than one param.
    ///
    /// ```
    /// use duet_rpc::Failure;
    ///
    /// let failure = Failure::invalid_params("range.to", "number above range.from", "number");
    /// assert_eq!(failure.object().message(), "Invalid params");
    /// ```
    ///
    /// `received` is the received JSON type, or `missing`. It never quotes the message
    /// ([E4](crate::proto::specification#e4)).
    pub fn invalid_params(
        param: impl Into<Cow<'static, str>>,
        expected: impl Into<Cow<'static, str>>,
        received: &'static str,
    ) -> Self {
        ErrorObject::invalid_params(ParamProblem::wrong_type(param, expected, received)).into()
    }

    /// Not found (-32004), with your message: the object that the params name does not exist.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        ErrorObject::application(Code::NOT_FOUND, message, None).into()
    }

    /// Method not found (-32601), for a [`fallback`](crate::Router::fallback) that does not know the method.
    pub fn method_not_found(method: &str) -> Self {
        ErrorObject::method_not_found(method).into()
    }

    /// Returns `true` if a panic is the cause.
    pub(crate) fn is_panic(&self) -> bool {
        let error = self.cause().and_then(|cause| cause.downcast_ref::<Error>());
        error.is_some_and(|error| error.kind() == ErrorKind::Panic)
    }

    /// Adds the cause, which only the log shows.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<BoxError>) -> Self {
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

    /// Converts the failure into the library's error, for this process.
    pub(crate) fn into_error(self) -> Error {
        match self.cause {
            // An `Error` is passed on unchanged, with its own causes.
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

/// Passes the answer of another remote on unchanged.
impl From<RemoteError> for Failure {
    fn from(error: RemoteError) -> Self {
        let RemoteError { code, message, data } = error.clone();
        let object = ErrorObject::application(Code(code), message, data);
        // The remote wrote the message, so the log must not show it. A cause takes its place in the log.
        Failure::from(object).caused_by(error)
    }
}

impl From<BoxError> for Failure {
    fn from(cause: BoxError) -> Self {
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

/// An internal error. Only the log shows the cause.
#[cfg(feature = "anyhow")]
#[cfg_attr(docsrs, doc(cfg(feature = "anyhow")))]
impl From<anyhow::Error> for Failure {
    fn from(cause: anyhow::Error) -> Self {
        Failure::internal(cause)
    }
}

/// Converts any error into an internal error, so that `?` works in handlers.
///
/// The remote receives `Internal error` (-32603). Only the log shows the error itself.
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
    /// Converts the error into an internal error.
    fn or_internal(self) -> Result<T, Failure>;
}

impl<T, E: StdError + Send + Sync + 'static> OrInternal<T> for Result<T, E> {
    fn or_internal(self) -> Result<T, Failure> {
        self.map_err(Failure::internal)
    }
}
