//! The members of a message that tell requests, answers and notifications apart.

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::Id;
use duet_rpc_proto::text::{Kind as JsonKind, Member, Text};

use crate::record::Kind;

/// The members of a message that a record shows beside it.
#[derive(Debug, Default)]
pub(crate) struct Envelope {
    pub(crate) id: Option<Id>,
    pub(crate) method: Option<String>,
    /// The ids of the requests and answers in a batch.
    pub(crate) asks: Vec<(Id, String)>,
    pub(crate) answers: Vec<Id>,
}

/// Classifies a message by its members alone: a message with a fault is still a request if its sender
/// meant one.
pub(crate) fn envelope(text: &Text<'_>) -> (Kind, Envelope) {
    let mut envelope = Envelope::default();
    match text.kind() {
        JsonKind::Object => {
            let kind = object_kind(text);
            envelope.id = id(text);
            envelope.method = text.string_member(Member::Method).map(|it| it.into_owned());
            (kind, envelope)
        }
        JsonKind::Array => {
            for entry in text.elements().filter(|entry| entry.kind() == JsonKind::Object) {
                let Some(id) = id(&entry) else { continue };
                match object_kind(&entry) {
                    Kind::Request => {
                        let method = entry.string_member(Member::Method).unwrap_or_default();
                        envelope.asks.push((id, method.into_owned()));
                    }
                    Kind::Response | Kind::Error => envelope.answers.push(id),
                    _ => {}
                }
            }
            let is_empty = text.elements().next().is_none();
            (if is_empty { Kind::Invalid } else { Kind::Batch }, envelope)
        }
        JsonKind::Scalar => (Kind::Invalid, envelope),
    }
}

/// The kind of one message.
pub(crate) fn kind_of(json: &str) -> Kind {
    match Text::check(json.as_bytes(), Limits::MAX_DEPTH) {
        Ok(text) if text.kind() == JsonKind::Object => object_kind(&text),
        _ => Kind::Invalid,
    }
}

fn object_kind(text: &Text<'_>) -> Kind {
    let has = |member| text.member(member).is_some();
    match text.string_member(Member::Method) {
        Some(_) if has(Member::Id) => Kind::Request,
        Some(_) => Kind::Notification,
        None if has(Member::Method) || !has(Member::Id) => Kind::Invalid,
        None if text.member(Member::Error).is_some_and(|error| error != "null") => Kind::Error,
        None if has(Member::Result) || has(Member::Error) => Kind::Response,
        None => Kind::Invalid,
    }
}

/// An id of a usual size.
fn id(text: &Text<'_>) -> Option<Id> {
    text.member(Member::Id).filter(|raw| raw.len() <= 1024).and_then(Id::from_raw)
}
