//! Classification of a JSON text: request, notification, response, batch or invalid (rules M1 to
//! M9).

use std::borrow::Cow;
use std::fmt;

use super::{ErrorObject, Id, IdRef, Params, Reason, ReceivedError, Reply};
use crate::limits::Limits;
use crate::policy::BatchRule;
use crate::text::{Elements, Kind, Member, Text};

/// A classified frame.
#[derive(Clone, Debug)]
pub enum Incoming<'a> {
    /// A request: it gets an answer.
    Request(Request<'a>),
    /// A notification: it gets no answer.
    Notification(Notification<'a>),
    /// A response to a call of ours.
    Response(Response<'a>),
    /// Several messages in one array.
    Batch(Batch<'a>),
    /// Not a message. This is the answer to it.
    Invalid(Reply),
    /// A response that cannot be used. It is logged and never answered.
    InvalidResponse(InvalidResponse),
}

/// A message that gets an answer.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The id for the answer.
    pub id: IdRef<'a>,
    /// The method's name, without escapes.
    pub method: Cow<'a, str>,
    /// The parameters.
    pub params: Params<'a>,
}

/// A message that gets no answer.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// The method's name, without escapes.
    pub method: Cow<'a, str>,
    /// The parameters.
    pub params: Params<'a>,
}

/// A response to a call of ours.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The id that we gave to the call.
    pub id: Id,
    /// The result or the error.
    pub settled: Settled<'a>,
}

/// The outcome of a call: a result or an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Settled<'a> {
    /// The raw value of `result`.
    Result(&'a str),
    /// The raw value of `error`.
    Error(&'a str),
}

impl<'a> Settled<'a> {
    /// The error, if there is one and it is readable.
    pub fn error(&self) -> Option<ReceivedError<'a>> {
        match self {
            Settled::Result(_) => None,
            Settled::Error(raw) => ReceivedError::read(raw),
        }
    }
}

impl fmt::Debug for Settled<'_> {
    /// Shows the variant and the size, never the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Settled::Result(raw) => write!(f, "Result({} bytes)", raw.len()),
            Settled::Error(raw) => write!(f, "Error({} bytes)", raw.len()),
        }
    }
}

/// A response that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResponse {
    /// The defect.
    pub why: InvalidResponseReason,
    /// The id, if it is usable. The call with this id need not wait any longer.
    pub id: Option<Id>,
}

/// Defects of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidResponseReason {
    /// The id is missing, appears twice, or is an object, an array or a boolean.
    BadId,
    /// `jsonrpc` is not `"2.0"`.
    BadVersion,
    /// A member appears twice.
    MemberTwice,
    /// It has both a result and an error.
    ResultAndError,
}

impl fmt::Display for InvalidResponseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidResponseReason::BadId => "a response has no usable id",
            InvalidResponseReason::BadVersion => "a response is not JSON-RPC 2.0",
            InvalidResponseReason::MemberTwice => "a response has a member twice",
            InvalidResponseReason::ResultAndError => "a response has both a result and an error",
        })
    }
}

impl<'a> Incoming<'a> {
    /// Classifies a text.
    ///
    /// ```
    /// use duet_rpc_proto::{Limits, message::Incoming, policy::BatchRule, text::Text};
    ///
    /// # fn main() -> Result<(), duet_rpc_proto::text::NotJson> {
    /// let text = Text::check(br#"{"jsonrpc":"2.0","id":7,"method":"add","params":[1,2]}"#, 128)?;
    /// let incoming = Incoming::classify(&text, BatchRule::Reject, &Limits::default());
    /// let Incoming::Request(request) = incoming else { panic!("it is a request") };
    /// assert_eq!((request.id.as_raw(), &*request.method), ("7", "add"));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn classify(text: &Text<'a>, batch: BatchRule, limits: &Limits) -> Incoming<'a> {
        match text.kind() {
            Kind::Object => object(text),
            Kind::Array => array(text, batch, limits),
            Kind::Scalar => invalid(None, ErrorObject::invalid_request()),
        }
    }
}

impl Incoming<'_> {
    /// The method and the params of a request or notification.
    #[inline]
    pub fn call(&self) -> Option<(&str, &Params<'_>)> {
        match self {
            Incoming::Request(Request { method, params, .. })
            | Incoming::Notification(Notification { method, params }) => Some((method, params)),
            _ => None,
        }
    }
}

/// The entries of a batch, at least one. An entry may be invalid.
#[derive(Clone, Debug)]
pub struct Batch<'a>(Elements<'a>);

impl<'a> Batch<'a> {
    /// The next entry: its text, and its classification.
    pub fn next_entry(&mut self) -> Option<(Text<'a>, Incoming<'a>)> {
        let entry = self.0.next()?;
        let incoming = match entry.kind() {
            Kind::Object => object(&entry),
            // A batch inside a batch is invalid.
            Kind::Array | Kind::Scalar => invalid(None, ErrorObject::invalid_request()),
        };
        Some((entry, incoming))
    }
}

impl<'a> Iterator for Batch<'a> {
    type Item = Incoming<'a>;

    fn next(&mut self) -> Option<Incoming<'a>> {
        self.next_entry().map(|(_, incoming)| incoming)
    }
}

fn array<'a>(text: &Text<'a>, batch: BatchRule, limits: &Limits) -> Incoming<'a> {
    if batch == BatchRule::Reject {
        let error = ErrorObject::invalid_request_because(Reason::BatchNotSupported);
        return invalid(None, error);
    }
    let entries = text.elements().take(limits.batch_entries.saturating_add(1)).count();
    if entries > limits.batch_entries {
        return invalid(None, ErrorObject::invalid_request_because(Reason::Oversize));
    }
    match entries {
        0 => invalid(None, ErrorObject::invalid_request()),
        _ => Incoming::Batch(Batch(text.elements())),
    }
}

#[inline(always)]
fn object<'a>(text: &Text<'a>) -> Incoming<'a> {
    if !text.has(Member::Method) {
        let settled = (text.member(Member::Result), text.member(Member::Error));
        if settled != (None, None) {
            return response(text, settled);
        }
    }
    if text.given_twice(Member::Id) {
        return invalid(None, ErrorObject::invalid_request());
    }
    let id = match text.member(Member::Id) {
        None => None,
        Some(raw) => match IdRef::from_checked(raw) {
            Some(id) => Some(id),
            None => {
                let error = ErrorObject::invalid_request_because(Reason::InvalidIdType);
                return invalid(None, error);
            }
        },
    };
    // A member that appears twice is ambiguous (M4).
    let others = [Member::Jsonrpc, Member::Method, Member::Params];
    if text.any_given_twice(&others) || !is_of_our_version(text) {
        return invalid(id, ErrorObject::invalid_request());
    }
    let (Some(method), Some(params)) =
        (text.string_member(Member::Method), Params::from_member(text.member(Member::Params)))
    else {
        return invalid(id, ErrorObject::invalid_request());
    };
    match id {
        Some(id) => Incoming::Request(Request { id, method, params }),
        None => Incoming::Notification(Notification { method, params }),
    }
}

fn response<'a>(text: &Text<'a>, settled: (Option<&'a str>, Option<&'a str>)) -> Incoming<'a> {
    let id = match text.member(Member::Id).and_then(Id::from_checked) {
        Some(id) if !text.given_twice(Member::Id) => id,
        _ => {
            return Incoming::InvalidResponse(InvalidResponse {
                why: InvalidResponseReason::BadId,
                id: None,
            });
        }
    };
    let invalid_response =
        |why, id| Incoming::InvalidResponse(InvalidResponse { why, id: Some(id) });
    let members = [Member::Jsonrpc, Member::Params, Member::Result, Member::Error];
    if text.any_given_twice(&members) {
        return invalid_response(InvalidResponseReason::MemberTwice, id);
    }
    if !is_of_our_version(text) {
        return invalid_response(InvalidResponseReason::BadVersion, id);
    }
    let settled = match settled {
        (Some(result), None) => Settled::Result(result),
        (None, Some(error)) => Settled::Error(error),
        _ => return invalid_response(InvalidResponseReason::ResultAndError, id),
    };
    Incoming::Response(Response { id, settled })
}

#[inline(always)]
fn is_of_our_version(text: &Text<'_>) -> bool {
    // The common spelling first, then spellings with escapes.
    text.member(Member::Jsonrpc) == Some("\"2.0\"")
        || text.string_member(Member::Jsonrpc).is_some_and(|version| version == "2.0")
}

#[cold]
fn invalid<'a>(id: Option<IdRef<'_>>, error: ErrorObject) -> Incoming<'a> {
    Incoming::Invalid(Reply { id: id.map_or(Id::NULL, IdRef::to_id), error })
}
