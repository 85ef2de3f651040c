//! What a JSON-RPC message is for the broker: the subject that it needs, and the ids in it.

use std::borrow::Cow;

use duet_rpc::proto::message::{
    Batch as Entries, Code, ErrorObject, Incoming, Notification, Request, Response, write_error,
};
use duet_rpc::proto::policy::BatchRule;
use duet_rpc::proto::text::{MAX_DEPTH, Member, Text};
use duet_rpc::{Id, Limits};
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
    Batch(Batch<'a>),
    /// A text that is not a message. It gets this answer. Only a program that passes on everything sends one.
    Invalid(Vec<u8>),
    /// An answer that cannot be used.
    Unusable,
}

/// The entries of a batch.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Batch<'a> {
    /// The ids of the requests.
    pub(crate) ids: Vec<Id>,
    /// The entries for a worker: requests, notifications, and what is not a message.
    pub(crate) work: Vec<&'a str>,
    /// The answers and cancellations, which concern other requests, maybe at other workers.
    pub(crate) apart: Vec<&'a str>,
}

/// Reads a message.
pub(crate) fn classify(message: &[u8]) -> Outgoing<'_> {
    let Ok(text) = Text::check(message, MAX_DEPTH) else {
        return Outgoing::Invalid(refusal(&Id::NULL, &ErrorObject::parse_error()));
    };
    // The worker has a limit of its own.
    let mut limits = Limits::default();
    limits.batch_entries = usize::MAX;
    match Incoming::classify(&text, BatchRule::Allow, &limits) {
        Incoming::Request(Request { id, method, .. }) => {
            Outgoing::Request { id: id.to_id(), method }
        }
        Incoming::Notification(Notification { method, params }) => {
            match cancelled(&method, params.as_raw()) {
                Some(id) => Outgoing::Cancellation(id),
                None => Outgoing::Notification { method },
            }
        }
        Incoming::Response(Response { id, .. }) => Outgoing::Answer(id),
        Incoming::InvalidResponse(_) => Outgoing::Unusable,
        Incoming::Invalid(reply) => Outgoing::Invalid(refusal(&reply.id, &reply.error)),
        Incoming::Batch(entries) => Outgoing::Batch(read_batch(entries)),
    }
}

fn read_batch(mut entries: Entries<'_>) -> Batch<'_> {
    let mut batch = Batch::default();
    while let Some((text, entry)) = entries.next_entry() {
        match entry {
            Incoming::Request(Request { id, .. }) => batch.ids.push(id.to_id()),
            Incoming::Notification(Notification { method, params })
                if cancelled(&method, params.as_raw()).is_some() =>
            {
                batch.apart.push(text.as_str());
                continue;
            }
            Incoming::Response(_) | Incoming::InvalidResponse(_) => {
                batch.apart.push(text.as_str());
                continue;
            }
            _ => {}
        }
        batch.work.push(text.as_str());
    }
    batch
}

/// The answer with this error.
pub(crate) fn refusal(id: &Id, error: &ErrorObject) -> Vec<u8> {
    let mut answer = Vec::new();
    write_error(&mut answer, id, error);
    answer
}

/// The ids of a request, or of the requests in a batch.
pub(crate) fn ids(message: &[u8]) -> Vec<Id> {
    match classify(message) {
        Outgoing::Request { id, .. } => vec![id],
        Outgoing::Batch(batch) => batch.ids,
        _ => Vec::new(),
    }
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
        for (members, expected) in [
            (r#""id":1,"method":"add","params":[1]"#, request(1, "add")),
            (r#""method":"\u0061dd","id":2"#, request(2, "add")),
            (r#""method":"log""#, note("log")),
            (r#""id":3,"result":null"#, Outgoing::Answer(3.into())),
            (r#""id":3,"error":{"code":1,"message":""}"#, Outgoing::Answer(3.into())),
            (r#""id":3,"result":1,"error":{}"#, Outgoing::Unusable),
            (r#""method":"$/cancelRequest","params":{"id":4}"#, Outgoing::Cancellation(4.into())),
            (
                r#""method":"notifications/cancelled","params":{"reason":"r","requestId":5}"#,
                Outgoing::Cancellation(5.into()),
            ),
            (r#""method":"$/cancelRequest","params":{}"#, note("$/cancelRequest")),
            (r#""method":"$/cancelRequest""#, note("$/cancelRequest")),
        ] {
            let message = format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
            assert_eq!(classify(message.as_bytes()), expected, "{message}");
        }
    }

    #[test]
    fn n1_a_text_that_is_not_a_message_has_its_answer() {
        let invalid = |id: &str, data: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"Invalid Request"{data}}}}}"#
            )
        };
        let bad_id = r#","data":{"reason":"invalid-id-type"}"#;
        let parse_error =
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, invalid("1", "")),
            (r#"{"jsonrpc":"2.0","id":1}"#, invalid("1", "")),
            (r#"{"id":1,"method":"m"}"#, invalid("1", "")),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, invalid("null", bad_id)),
            (r#"{"foo":1}"#, invalid("null", "")),
            ("5", invalid("null", "")),
            ("[]", invalid("null", "")),
            ("{", parse_error.to_owned()),
        ] {
            let Outgoing::Invalid(answer) = classify(message.as_bytes()) else {
                panic!("{message}");
            };
            assert_eq!(String::from_utf8_lossy(&answer), expected, "{message}");
        }
    }

    #[test]
    fn n1_answers_and_cancellations_in_a_batch_go_apart() {
        let [ask, tell, bad] =
            [r#"{"jsonrpc":"2.0","id":6,"method":"a"}"#, r#"{"jsonrpc":"2.0","method":"b"}"#, "7"];
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
        let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":4}}"#;
        for (entries, ids, work, apart) in [
            (&[ask, tell, bad][..], &[6][..], &[ask, tell, bad][..], &[][..]),
            (&[answer, ask, cancel], &[6], &[ask], &[answer, cancel]),
            (&[cancel], &[], &[], &[cancel]),
        ] {
            let message = format!("[{}]", entries.join(","));
            let (ids, work, apart) =
                (ids.iter().map(|&id| Id::from(id)).collect(), work.to_vec(), apart.to_vec());
            let expected = Outgoing::Batch(Batch { ids, work, apart });
            assert_eq!(classify(message.as_bytes()), expected);
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
