//! The messages of a record: one, or those of a batch.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::record::{Kind, Record};

/// A JSON-RPC message in a record. Its parts are JSON texts, verbatim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// `Request`, `Notification`, `Response`, `Error`, or `Invalid` for anything else in a batch.
    pub kind: Kind,
    /// The id.
    pub id: Option<Cow<'a, str>>,
    /// The method. A response has the method of its request, if the record has it.
    pub method: Option<Cow<'a, str>>,
    /// The params.
    pub params: Option<&'a str>,
    /// The result.
    pub result: Option<&'a str>,
    /// The error object.
    pub error: Option<&'a str>,
}

#[derive(Deserialize)]
struct MessageMembers<'a> {
    #[serde(borrow, default, deserialize_with = "even_null")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "even_null")]
    error: Option<&'a RawValue>,
}

/// The code and the message of an error response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// The code.
    #[serde(default)]
    pub code: i64,
    /// The message.
    #[serde(default)]
    pub message: String,
}

impl Record<'_> {
    /// The messages of this record. Empty for a record that is not a message.
    ///
    /// If the body is not whole, the message has only the id and the method of the record.
    pub fn messages(&self) -> Vec<Message<'_>> {
        let json = self.json();
        match self.kind {
            Kind::Request | Kind::Notification | Kind::Response | Kind::Error => {
                let members = json.and_then(|json| serde_json::from_str(json).ok());
                vec![Message::new(self, members)]
            }
            Kind::Batch => {
                let items = json.and_then(|json| serde_json::from_str::<Vec<&RawValue>>(json).ok());
                let items = items.unwrap_or_default().into_iter();
                items.map(|item| Message::from_json(item.get())).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl<'a> Message<'a> {
    fn new(record: &'a Record<'_>, members: Option<MessageMembers<'a>>) -> Self {
        let text = |value: Option<&'a RawValue>| value.map(RawValue::get);
        let (id, method) = (record.id.as_deref(), record.method.as_deref());
        let (id, method) = (id.map(Cow::Borrowed), method.map(Cow::Borrowed));
        match members {
            Some(it) => Message {
                kind: record.kind,
                id: text(it.id).map(Cow::Borrowed).or(id),
                method: it.method.or(method),
                params: text(it.params),
                result: text(it.result),
                error: text(it.error),
            },
            None => {
                Message { kind: record.kind, id, method, params: None, result: None, error: None }
            }
        }
    }

    /// A message from its JSON text, without a record: one of a batch, or one that becomes a record.
    pub(crate) fn from_json(json: &'a str) -> Self {
        let Ok(it) = serde_json::from_str::<MessageMembers<'a>>(json) else {
            let kind = Kind::Invalid;
            return Message {
                kind,
                id: None,
                method: None,
                params: None,
                result: None,
                error: None,
            };
        };
        let kind = match &it {
            MessageMembers { method: Some(_), id: Some(_), .. } => Kind::Request,
            MessageMembers { method: Some(_), .. } => Kind::Notification,
            MessageMembers { error: Some(_), .. } => Kind::Error,
            MessageMembers { result: Some(_), .. } => Kind::Response,
            _ => Kind::Invalid,
        };
        let text = |value: Option<&'a RawValue>| value.map(RawValue::get);
        Message {
            kind,
            id: text(it.id).map(Cow::Borrowed),
            method: it.method,
            params: text(it.params),
            result: text(it.result),
            error: text(it.error),
        }
    }

    /// Returns `true` for a response with a result or an error.
    pub fn is_answer(&self) -> bool {
        matches!(self.kind, Kind::Response | Kind::Error)
    }

    /// The code and the message of an error response.
    pub fn error_object(&self) -> Option<ErrorObject> {
        self.error.map(|error| serde_json::from_str(error).unwrap_or_default())
    }

    /// The JSON text at a path of member names below the params.
    pub fn param(&self, path: &[&str]) -> Option<&'a str> {
        path.iter().try_fold(self.params?, |json, name| member(json, name))
    }
}

/// The value of a member of an object. The last one, if there are several.
fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    // An object only, so that a long array costs nothing.
    if !json.trim_start().starts_with('{') {
        return None;
    }
    let members: std::collections::HashMap<Cow<'a, str>, &'a RawValue> =
        serde_json::from_str(json).ok()?;
    members.get(name).map(|value| value.get())
}

/// `null` is a value.
fn even_null<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}
