//! Error objects. This is the only file with code numbers, for the core and the library.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::text::unescape;

/// An error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Code(pub i64);

impl Code {
    /// Not JSON, not UTF-8, a wrong length or a malformed header.
    pub const PARSE_ERROR: Code = Code(-32700);
    /// A bad envelope, content type, size or id type.
    pub const INVALID_REQUEST: Code = Code(-32600);
    /// There is no such method.
    pub const METHOD_NOT_FOUND: Code = Code(-32601);
    /// Wrong or missing parameters.
    pub const INVALID_PARAMS: Code = Code(-32602);
    /// A handler failed or panicked.
    pub const INTERNAL_ERROR: Code = Code(-32603);
    /// A capacity limit is reached.
    pub const SERVER_BUSY: Code = Code(-32000);
    /// The object that the params name does not exist. A code for applications: the library itself
    /// never sends it.
    pub const NOT_FOUND: Code = Code(-32004);
    /// The caller cancelled the request.
    pub const REQUEST_CANCELLED: Code = Code(-32800);
}

/// The error of an outgoing response: see [errors](crate::specification#3-errors) in the
/// specification.
///
/// It quotes the remote in two cases only: the name of an unknown method, and a string outside a
/// parameter's closed list of values.
#[derive(Clone, Debug)]
pub struct ErrorObject {
    code: Code,
    message: Cow<'static, str>,
    data: Option<Data>,
}

/// The `data` of an error.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum Data {
    Reason { reason: Reason },
    Param(Box<ParamProblem>),
    Busy { reason: Overloaded, limit: u64 },
    Application(Box<RawValue>),
}

/// Named reasons for an invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A media type other than `application/vscode-jsonrpc`.
    UnsupportedContentType,
    /// A charset other than UTF-8.
    BadCharset,
    /// A message, or a batch, over its limit.
    Oversize,
    /// A header section over its limit.
    HeaderTooLarge,
    /// An id that is an object, an array or a boolean.
    InvalidIdType,
    /// A batch, where the profile rejects batches.
    BatchNotSupported,
    /// An id that a running request uses.
    DuplicateId,
    /// A request in a batch, after the request that closes the connection.
    ShuttingDown,
    /// A connection of a user that the server does not allow.
    UserNotAllowed,
}

impl Reason {
    /// The reason's name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Reason::UnsupportedContentType => "unsupported-content-type",
            Reason::BadCharset => "bad-charset",
            Reason::Oversize => "oversize",
            Reason::HeaderTooLarge => "header-too-large",
            Reason::InvalidIdType => "invalid-id-type",
            Reason::BatchNotSupported => "batch-not-supported",
            Reason::DuplicateId => "duplicate-id",
            Reason::ShuttingDown => "shutting-down",
            Reason::UserNotAllowed => "user-not-allowed",
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The only reason of [`ErrorObject::server_busy`].
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Overloaded {
    Overloaded,
}

/// A parameter that is wrong or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParamProblem {
    param: Cow<'static, str>,
    expected: Cow<'static, str>,
    received: Cow<'static, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted: Vec<Cow<'static, str>>,
    #[serde(skip)]
    detail: Option<Detail>,
}

/// Text of the application. It may quote what the remote sent, so it is never serialised and
/// `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
struct Detail(Box<str>);

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Maximum number of characters that an error shows of a method's name.
const LONGEST_NAME: usize = 128;
/// Maximum number of characters that an error shows of a value outside a closed list.
const LONGEST_VALUE: usize = 64;

impl ParamProblem {
    /// A parameter of the wrong type. `received` names a JSON type, or is `missing`; it never
    /// quotes the remote.
    pub fn wrong_type(
        param: impl Into<Cow<'static, str>>,
        expected: impl Into<Cow<'static, str>>,
        received: &'static str,
    ) -> Self {
        ParamProblem {
            param: param.into(),
            expected: expected.into(),
            received: received.into(),
            accepted: Vec::new(),
            detail: None,
        }
    }

    /// A string that is not in the parameter's closed list of values. The error quotes it.
    pub fn not_accepted(
        param: impl Into<Cow<'static, str>>,
        received: &str,
        accepted: &[&'static str],
    ) -> Self {
        ParamProblem {
            param: param.into(),
            expected: "one of the accepted values".into(),
            received: cut(received, LONGEST_VALUE).to_owned().into(),
            accepted: Vec::new(),
            detail: None,
        }
        .accepting(accepted)
    }

    /// Adds the parameter's closed list of values. It helps even if the parameter is missing or of
    /// the wrong type.
    #[must_use]
    pub fn accepting(mut self, accepted: &[&'static str]) -> Self {
        self.accepted = accepted.iter().map(|&value| value.into()).collect();
        self
    }

    /// Adds a text of the application about the value. It stays in this process and never goes on
    /// the wire.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Box<str>>) -> Self {
        self.detail = Some(Detail(detail.into()));
        self
    }

    /// The parameter's name, or the path to it.
    pub fn param(&self) -> &str {
        &self.param
    }

    /// The expected type or values.
    pub fn expected(&self) -> &str {
        &self.expected
    }

    /// The received value: a JSON type, `missing`, or a string outside the closed list.
    pub fn received(&self) -> &str {
        &self.received
    }

    /// The text of the application about the value. It may quote what the remote sent.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_ref().map(|detail| &*detail.0)
    }
}

impl ErrorObject {
    fn new(code: Code, message: impl Into<Cow<'static, str>>, data: Option<Data>) -> Self {
        ErrorObject { code, message: message.into(), data }
    }

    /// The bytes are not JSON, or not a frame.
    pub fn parse_error() -> Self {
        Self::new(Code::PARSE_ERROR, "Parse error", None)
    }

    /// The JSON is not a request.
    pub fn invalid_request() -> Self {
        Self::new(Code::INVALID_REQUEST, "Invalid Request", None)
    }

    /// The JSON is not a request, for a named reason.
    pub fn invalid_request_because(reason: Reason) -> Self {
        let message = match reason {
            Reason::BatchNotSupported => "Batch requests not supported",
            Reason::UserNotAllowed => "User not allowed",
            _ => "Invalid Request",
        };
        Self::new(Code::INVALID_REQUEST, message, Some(Data::Reason { reason }))
    }

    /// No method has this name.
    pub fn method_not_found(name: &str) -> Self {
        let message = format!("Method not found: {}", cut(name, LONGEST_NAME));
        Self::new(Code::METHOD_NOT_FOUND, message, None)
    }

    /// A parameter is wrong or missing.
    pub fn invalid_params(problem: ParamProblem) -> Self {
        Self::new(Code::INVALID_PARAMS, "Invalid params", Some(Data::Param(Box::new(problem))))
    }

    /// A handler failed. The log has the cause; the wire does not.
    pub fn internal_error() -> Self {
        Self::new(Code::INTERNAL_ERROR, "Internal error", None)
    }

    /// A capacity limit is reached. The code is [`Profile::busy_code`](crate::Profile::busy_code).
    pub fn server_busy(code: Code, limit: u64) -> Self {
        let data = Data::Busy { reason: Overloaded::Overloaded, limit };
        Self::new(code, "Server busy", Some(data))
    }

    /// The caller cancelled the request.
    pub fn request_cancelled() -> Self {
        Self::new(Code::REQUEST_CANCELLED, "Request cancelled", None)
    }

    /// An error that the application defines.
    pub fn application(
        code: Code,
        message: impl Into<Cow<'static, str>>,
        data: Option<Box<RawValue>>,
    ) -> Self {
        Self::new(code, message, data.map(Data::Application))
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The message for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The message, if it is a literal of the program. Such a text quotes nothing that a remote
    /// sent.
    pub fn static_message(&self) -> Option<&'static str> {
        match self.message {
            Cow::Borrowed(message) => Some(message),
            Cow::Owned(_) => None,
        }
    }

    /// The named reason for an invalid request, if there is one.
    pub fn reason(&self) -> Option<Reason> {
        match self.data {
            Some(Data::Reason { reason }) => Some(reason),
            _ => None,
        }
    }

    /// True if the error reports a capacity limit, with any code.
    pub fn is_busy(&self) -> bool {
        matches!(self.data, Some(Data::Busy { .. }))
    }

    /// The wrong parameter, if the error is about one.
    pub fn param_problem(&self) -> Option<&ParamProblem> {
        match &self.data {
            Some(Data::Param(problem)) => Some(problem),
            _ => None,
        }
    }

    /// Appends the error as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.extend_from_slice(b"{\"code\":");
        serde_json::to_writer(&mut *out, &self.code)?;
        out.extend_from_slice(b",\"message\":");
        serde_json::to_writer(&mut *out, &*self.message)?;
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            serde_json::to_writer(&mut *out, data)?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of an unknown method comes from the remote.
        write!(f, "{} ({})", self.message.escape_debug(), self.code.0)
    }
}

impl std::error::Error for ErrorObject {}

/// The error of a received response. Missing and odd members are accepted, as long as the error is
/// an object without duplicate members.
#[derive(Clone)]
pub struct ReceivedError<'a> {
    /// The code; 0 if there is none.
    pub code: i64,
    /// The message; empty if there is none.
    pub message: Cow<'a, str>,
    /// The raw data.
    pub data: Option<&'a str>,
}

impl<'a> ReceivedError<'a> {
    /// Reads the raw value of `error`.
    pub(super) fn read(raw: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Members<'a> {
            #[serde(borrow)]
            code: Option<&'a RawValue>,
            #[serde(borrow)]
            message: Option<&'a RawValue>,
            #[serde(borrow, default, deserialize_with = "present")]
            data: Option<&'a RawValue>,
        }

        /// Distinguishes `null` from a missing member.
        fn present<'de: 'a, 'a, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<&'a RawValue>, D::Error> {
            <&RawValue>::deserialize(deserializer).map(Some)
        }

        let members: Members<'a> = serde_json::from_str(raw).ok()?;
        // Some languages have a single number type and write a fraction.
        let code = members.code.map(RawValue::get).and_then(|code| {
            let fraction = || code.parse::<f64>().ok().map(|code| code as i64);
            code.parse().ok().or_else(fraction)
        });
        let message = members.message.and_then(|message| {
            message.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(unescape)
        });
        Some(ReceivedError {
            code: code.unwrap_or(0),
            message: message.unwrap_or_default(),
            data: members.data.map(RawValue::get),
        })
    }
}

impl fmt::Debug for ReceivedError<'_> {
    /// Shows the code, and nothing that the remote wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceivedError").field("code", &self.code).finish_non_exhaustive()
    }
}

/// The first `most` characters.
fn cut(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}
