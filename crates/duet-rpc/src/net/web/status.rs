//! HTTP status codes, and refusals.

use std::error::Error;
use std::fmt;
use std::io;

use http::StatusCode;

use crate::log_limit::LogLimiter;

/// The reason why a request is refused. All of its text is fixed: it contains no part of the request (E1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct HttpRefusal {
    pub(in crate::net) status: StatusCode,
    /// The problem and the next step, for the client and for the log.
    pub(in crate::net) why: &'static str,
    /// Additional headers: names in lower case, and values.
    pub(in crate::net) headers: &'static [(&'static str, &'static str)],
}

impl HttpRefusal {
    pub(in crate::net) const fn new(status: StatusCode, why: &'static str) -> Self {
        HttpRefusal { status, why, headers: &[] }
    }

    pub(in crate::net) const fn with_headers(
        mut self,
        headers: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.headers = headers;
        self
    }

    pub(in crate::net) const fn malformed(why: &'static str) -> Self {
        HttpRefusal::new(StatusCode::BAD_REQUEST, why)
    }

    /// Logs the refusal, without any part of the request (G6).
    pub(in crate::net) fn log(&self) {
        static METER: LogLimiter = LogLimiter::new(20);

        METER.log("requests refused", || {
            tracing::warn!(status = self.status.as_u16(), why = self.why, "request refused");
        });
    }

    /// The whole response, which ends the connection, for a client that is refused before its request was read.
    pub(in crate::net) fn to_bytes(self) -> Vec<u8> {
        let HttpRefusal { status, why, headers } = self;
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = lines.collect();
        let length = why.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\n{lines}Connection: close\r\n\r\n{why}\n"
        )
        .into_bytes()
    }

    /// The request took too long to arrive.
    pub(in crate::net) const LATE: HttpRefusal = HttpRefusal::new(
        StatusCode::REQUEST_TIMEOUT,
        "The request took too long to arrive. Send it again.",
    );

    /// The maximum number of connections is open already.
    pub(in crate::net) const BUSY: HttpRefusal = HttpRefusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "Too many connections are open. Try again later.",
    );

    /// The server stops, and the request was not answered in time.
    pub(in crate::net) const STOPPING: HttpRefusal = HttpRefusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "The server is stopping. Try again later.",
    );

    /// A repeated header that a proxy may read in another way.
    pub(in crate::net) const TWICE: HttpRefusal = HttpRefusal::malformed(
        "The head is malformed: a header that may stand there once stands twice.",
    );

    /// The path of the request is not served.
    pub(in crate::net) const NO_SUCH_PATH: HttpRefusal = HttpRefusal::new(
        StatusCode::NOT_FOUND,
        "Nothing is served under this path. Use the path that the server announces.",
    );

    /// A body over the limit.
    pub(in crate::net) const OVERSIZE: HttpRefusal = HttpRefusal::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The body is longer than a message may be.",
    );

    /// A body whose end cannot be found.
    pub(in crate::net) const BROKEN_BODY: HttpRefusal =
        HttpRefusal::malformed("The body ends too early, or its chunks are malformed.");
}

/// The HTTP status with which a server refused a connection or a message.
///
/// It is the inner error of the [`io::Error`] of a failed transport.
///
/// ```
/// use duet_rpc::transport::Refused;
///
/// let error = std::io::Error::from(Refused::new(503));
/// assert_eq!(error.to_string(), "the server refused: 503 Service Unavailable");
/// assert!(Refused::from_error(&error).is_some_and(Refused::is_temporary));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    status: u16,
}

impl Refused {
    /// The refusal with this status code.
    pub fn new(status: u16) -> Self {
        Refused { status }
    }

    /// The refusal that caused an error, if there is one.
    pub fn from_error(error: &io::Error) -> Option<&Refused> {
        error.get_ref()?.downcast_ref()
    }

    /// The status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns `true` if a later attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
    }
}

impl fmt::Display for Refused {
    /// Shows the standard name of the status. The text that a server sends is never shown, because it may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = StatusCode::from_u16(self.status).ok().and_then(|it| it.canonical_reason());
        let name = match (self.status, known) {
            // The name since RFC 9110.
            (413, _) => "Content Too Large",
            (_, Some(name)) => name,
            // The name of the class.
            (100..200, None) => "Informational",
            (200..300, None) => "Successful",
            (300..400, None) => "Redirection",
            (400..500, None) => "Client Error",
            (500..600, None) => "Server Error",
            _ => "Unknown",
        };
        write!(f, "the server refused: {} {name}", self.status)
    }
}

impl Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        let kind = match refused.status {
            _ if refused.is_temporary() => io::ErrorKind::ConnectionRefused,
            401 | 403 => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Unsupported,
        };
        io::Error::new(kind, refused)
    }
}
