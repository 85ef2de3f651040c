//! Log fields: the method and the id of a text.

use std::borrow::Cow;

use super::Id;
use super::reply::valid_id;
use crate::text::{Member, Text};

/// The method and the id of a text, each if it is readable. The text need not be a valid message.
///
/// ```
/// use duet_rpc_proto::{message::LogFields, text::Text};
///
/// # fn main() -> Result<(), duet_rpc_proto::text::NotJson> {
/// let text = Text::check(br#"{"jsonrpc":"1.0","id":7,"method":"add"}"#, 128)?;
/// let fields = LogFields::from_text(&text);
/// assert_eq!(fields.method.as_deref(), Some("add"));
/// assert_eq!(fields.id.map(|id| id.to_string()).as_deref(), Some("7"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LogFields<'a> {
    /// The method's name, without escapes.
    pub method: Option<Cow<'a, str>>,
    /// The id.
    pub id: Option<Id>,
}

impl<'a> LogFields<'a> {
    /// Reads the fields of a text.
    #[cold]
    pub fn from_text(text: &Text<'a>) -> Self {
        // A method that appears twice is ambiguous.
        let method =
            text.string_member(Member::Method).filter(|_| !text.given_twice(Member::Method));
        LogFields { method, id: valid_id(text) }
    }
}
