//! The names of members and variants, as values.
//!
//! A map's keys may be of any type that fits into a name: strings, numbers, booleans and enums.

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::access::Chosen;
use super::number::{self, Width};
use super::problem::Problem;
use super::reader::expectation;

/// The name of a member, or of a variant.
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Set when the type shows that it knows this name, so that it may be shown (E1).
    pub(super) is_known: &'a mut bool,
}

macro_rules! number_names {
    ($($name:ident: $width:ident,)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            // It is a number if it is one in JSON.
            match self.text.parse::<serde_json::Number>() {
                Ok(_) => number::visit(self.text, visitor, Width::$width),
                Err(_) => Err(Problem::invalid_type(Unexpected::Str(""), &visitor)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Name<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        // This is how an internally tagged enum looks for its tag.
        let tag = format!("a type tag `{}` or any other value", self.text);
        *self.is_known |= expectation(&visitor) == tag;
        visitor.visit_str(self.text)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        // A type that asks for an identifier has a list of them. What it does not find there it
        // refuses, ignores or puts into a buffer, and none of these is a problem with a path.
        *self.is_known = true;
        visitor.visit_str(self.text)
    }

    number_names! {
        deserialize_i8: Usual, deserialize_i16: Usual, deserialize_i32: Usual,
        deserialize_i64: Usual, deserialize_i128: Signed, deserialize_u8: Usual,
        deserialize_u16: Usual, deserialize_u32: Usual, deserialize_u64: Usual,
        deserialize_u128: Unsigned, deserialize_f32: Usual, deserialize_f64: Usual,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.text {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(Problem::invalid_type(Unexpected::Str(""), &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_enum(Chosen::by_name(self.text.to_owned()))
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        ignored_any
    }
}
