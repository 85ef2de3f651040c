//! The parameters of a request, as raw text.

use std::fmt;

use serde::Deserialize;

use super::params_de::ParamsDeserializer;

/// Parameters, borrowed from their frame.
///
/// Absent and null are distinct because some methods treat them differently. [`Params::parse`]
/// reads both as null.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Params<'a> {
    /// The message has no member `params`.
    Absent,
    /// `null`
    Null,
    /// `[…]`
    Array(&'a str),
    /// `{…}`
    Object(&'a str),
}

impl<'a> Params<'a> {
    /// Params from the raw value of the member `params`. `None` if it is a string, a number or a
    /// boolean (M3).
    pub(crate) fn from_member(raw: Option<&'a str>) -> Option<Self> {
        let Some(raw) = raw else { return Some(Params::Absent) };
        match raw.as_bytes().first() {
            Some(b'{') => Some(Params::Object(raw)),
            Some(b'[') => Some(Params::Array(raw)),
            Some(b'n') => Some(Params::Null),
            _ => None,
        }
    }

    /// The JSON text, if there is any.
    pub fn as_raw(&self) -> Option<&'a str> {
        match self {
            Params::Absent => None,
            Params::Null => Some("null"),
            Params::Array(raw) | Params::Object(raw) => Some(raw),
        }
    }

    /// Deserialises the params. The type may borrow from the frame.
    ///
    /// A recursive type, such as a tree, is read to a depth of 128, whatever
    /// [`Limits::depth`](crate::Limits::depth) allows. A `RawValue` gets the text itself, unparsed.
    ///
    /// ```
    /// use duet_rpc_proto::message::Params;
    ///
    /// # fn main() -> Result<(), serde_json::Error> {
    /// let (a, b): (i64, &str) = Params::Array(r#"[1, "two"]"#).parse()?;
    /// assert_eq!((a, b), (1, "two"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(ParamsDeserializer(self.as_raw().unwrap_or("null")))
    }
}

impl fmt::Debug for Params<'_> {
    /// Shows the shape and the size, never the content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Params::Absent => f.write_str("Absent"),
            Params::Null => f.write_str("Null"),
            Params::Array(raw) => write!(f, "Array({} bytes)", raw.len()),
            Params::Object(raw) => write!(f, "Object({} bytes)", raw.len()),
        }
    }
}
