//! What a JSON-RPC message is for the broker: the subject that it needs, and the ids in it.

use std::borrow::Cow;

use duet_rpc::Id;
use duet_rpc::proto::message::{Code, ErrorObject};
use duet_rpc::proto::text::{Kind, MAX_DEPTH, Member, Text};
use serde_json::value::RawValue;

/// A message on its way to the broker.
#[derive(Debug, PartialEq)]
pub(crate) enum Outgoing<'a> {
    Request {
        id: Id,
        method: Cow<'a, str>,
    },
    Notification {
        method: Cow<'a, str>,
    },
    /// The cancellation of a request with this id, in either dialect.
    Cancellation(Id),
    /// The answer to a request with this id.
    Answer(Id),
    /// A batch with these requests.
    Batch(Vec<Id>),
    /// A text that is not a message. Only a program that passes on everything sends one.
    Other,
}

/// Reads a message.
pub(crate) fn classify(message: &[u8]) -> Outgoing<'_> {
    let Ok(text) = Text::check(message, MAX_DEPTH) else { return Outgoing::Other };
    if text.kind() == Kind::Array {
        let is_request = |entry: &Text<'_>| entry.member(Member::Method).is_some();
        let ids = text.elements().filter(is_request).filter_map(|entry| id_of(&entry));
        return Outgoing::Batch(ids.collect());
    }
    match (text.string_member(Member::Method), id_of(&text)) {
        (Some(method), Some(id)) => Outgoing::Request { id, method },
        (Some(method), None) => match cancelled(&method, text.member(Member::Params)) {
            Some(id) => Outgoing::Cancellation(id),
            None => Outgoing::Notification { method },
        },
        (None, Some(id)) => Outgoing::Answer(id),
        (None, None) => Outgoing::Other,
    }
}

/// The ids of a request, or of the requests in a batch.
pub(crate) fn ids(message: &[u8]) -> Vec<Id> {
    match classify(message) {
        Outgoing::Request { id, .. } => vec![id],
        Outgoing::Batch(ids) => ids,
        _ => Vec::new(),
    }
}

/// The id of a request or an answer.
pub(crate) fn id_of(text: &Text<'_>) -> Option<Id> {
    text.member(Member::Id).and_then(Id::from_raw)
}

/// The request that a notification cancels.
fn cancelled(method: &str, params: Option<&str>) -> Option<Id> {
    #[derive(serde::Deserialize)]
    struct Names<'a> {
        #[serde(borrow, alias = "requestId")]
        id: &'a RawValue,
    }
    if !matches!(method, "$/cancelRequest" | "notifications/cancelled") {
        return None;
    }
    Id::from_raw(serde_json::from_str::<Names<'_>>(params?).ok()?.id.get())
}

/// The cancellation of a request, as a message for a peer.
pub(crate) fn cancellation(id: &Id) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{}}}}}"#, id.as_raw())
        .into_bytes()
}

/// Maximum size of the answer that [`answer_too_large`] makes, without its id.
pub(crate) const MOST_REFUSAL: usize = 200;

/// The error instead of an answer that the broker does not take.
pub(crate) fn answer_too_large(size: usize, limit: usize) -> ErrorObject {
    let message =
        format!("answer too large: {size} bytes, the broker takes {limit} (its max_payload)");
    ErrorObject::application(Code::INTERNAL_ERROR, message, None)
}

/// The same message with another id.
pub(crate) fn with_id(message: &[u8], id: &Id) -> Option<Vec<u8>> {
    let text = Text::check(message, MAX_DEPTH).ok()?;
    let old = text.member(Member::Id)?;
    let start = (old.as_ptr() as usize).checked_sub(text.as_str().as_ptr() as usize)?;
    let (before, after) = (text.as_str().get(..start)?, text.as_str().get(start + old.len()..)?);
    Some([before, id.as_raw(), after].concat().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, method: &str) -> Outgoing<'_> {
        Outgoing::Request { id: id.into(), method: method.into() }
    }

    #[test]
    fn n1_each_kind_of_message_has_its_way() {
        let note = |method: &'static str| Outgoing::Notification { method: method.into() };
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}"#, request(1, "add")),
            (r#"{"method":"\u0061dd","id":2}"#, request(2, "add")),
            (r#"{"jsonrpc":"2.0","method":"log"}"#, note("log")),
            (r#"{"id":3,"result":null}"#, Outgoing::Answer(3.into())),
            (r#"{"id":3,"error":{"code":1,"message":""}}"#, Outgoing::Answer(3.into())),
            (r#"{"method":"$/cancelRequest","params":{"id":4}}"#, Outgoing::Cancellation(4.into())),
            (
                r#"{"method":"notifications/cancelled","params":{"reason":"r","requestId":5}}"#,
                Outgoing::Cancellation(5.into()),
            ),
            (r#"{"method":"$/cancelRequest","params":{}}"#, note("$/cancelRequest")),
            (r#"{"method":"$/cancelRequest"}"#, note("$/cancelRequest")),
            (
                r#"[{"id":6,"method":"a"},{"method":"b"},{"id":7,"result":1},{"id":8,"method":"c"}]"#,
                Outgoing::Batch(vec![6.into(), 8.into()]),
            ),
            ("[]", Outgoing::Batch(Vec::new())),
            ("{}", Outgoing::Other),
            ("7", Outgoing::Other),
            ("{", Outgoing::Other),
        ] {
            assert_eq!(classify(message.as_bytes()), expected, "{message}");
        }
    }

    #[test]
    fn n6_an_id_is_replaced_and_nothing_else() {
        for (message, expected) in [
            (r#"{"id":1,"result":{"id":1}}"#, Some(r#"{"id":"a","result":{"id":1}}"#)),
            (r#"{ "result": 1, "id" : "long \" id" }"#, Some(r#"{ "result": 1, "id" : "a" }"#)),
            (r#"{"result":1}"#, None),
            ("1", None),
        ] {
            let id = Id::from_raw(r#""a""#).expect("an id");
            let replaced = with_id(message.as_bytes(), &id);
            assert_eq!(replaced.as_deref(), expected.map(str::as_bytes), "{message}");
        }
    }
}
