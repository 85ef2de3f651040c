//! Waiting messages. Each has a copy of its text, because its frame is gone.

use std::fmt;

use crate::message::{Params, Reply};

/// A waiting message with its text.
pub struct Message {
    method: Box<str>,
    params: OwnedParams,
}

enum OwnedParams {
    Absent,
    Null,
    Array(Box<str>),
    Object(Box<str>),
}

impl Message {
    pub(super) fn new(method: &str, params: &Params<'_>) -> Self {
        let params = match *params {
            Params::Absent => OwnedParams::Absent,
            Params::Null => OwnedParams::Null,
            Params::Array(raw) => OwnedParams::Array(raw.into()),
            Params::Object(raw) => OwnedParams::Object(raw.into()),
        };
        Message { method: method.into(), params }
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters.
    pub fn params(&self) -> Params<'_> {
        match &self.params {
            OwnedParams::Absent => Params::Absent,
            OwnedParams::Null => Params::Null,
            OwnedParams::Array(raw) => Params::Array(raw),
            OwnedParams::Object(raw) => Params::Object(raw),
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("params", &self.params()).finish_non_exhaustive()
    }
}

/// An entry of a lane.
pub(super) enum Waiting {
    /// A message.
    Message(Message),
    /// The answer to an invalid message. It keeps its place in the order of answers.
    Refusal(Reply),
}

impl Waiting {
    /// The memory that it costs, including table entries.
    pub(super) fn cost(&self) -> usize {
        let text = match self {
            Waiting::Message(message) => {
                message.method.len() + message.params().as_raw().map_or(0, str::len)
            }
            Waiting::Refusal(reply) => reply.id.as_raw().len(),
        };
        256 + text
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Waiting};
    use crate::message::{ErrorObject, Id, Params, Reply};

    #[test]
    fn l8_a_waiting_message_costs_its_text_and_table_entries() {
        let message = Message::new("abc", &Params::Array("[1]"));
        assert_eq!(Waiting::Message(message).cost(), 256 + 6);
        let reply = Reply { id: Id::from("x"), error: ErrorObject::parse_error() };
        assert_eq!(Waiting::Refusal(reply).cost(), 256 + 3);
    }
}
