//! The second reading: a deserializer over the text, which knows where it is.
//!
//! It takes what serde_json takes, so that what is refused here is what was refused there. It
//! works on the text and not on a tree of values: a tree would keep only the last of two members
//! with one name, would round large numbers, and would cost a hostile remote's message many times
//! over in memory. Each level is cut into raw values that are read only if the type wants them.

use std::cell::Cell;

use serde::de::value::MapDeserializer;
use serde::de::{self, Deserializer, Error, Unexpected, Visitor};

use super::access::{Chosen, OnlyMember, Walk};
use super::number::{self, Width};
use super::problem::Problem;

/// serde_json reads no deeper either.
const DEEPEST: usize = 128;

/// How often the text may be gone through, on average, and how many bytes are free. Each level goes
/// through its own text once more, which is nothing to speak of unless the type is a tree and a
/// hostile remote's is tall and large.
const MOST_TIMES: usize = 16;
const FREE_BYTES: usize = 1 << 20;

/// The name by which a raw value asks for the text itself.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// One JSON value.
#[derive(Clone, Copy)]
pub(super) struct Reader<'de> {
    text: &'de str,
    depth: usize,
    probe: Option<Probe>,
    budget: &'de Cell<usize>,
}

/// The types of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    Boolean,
    Null,
    Number,
}

/// One object or array is read in another way than it stands there.
#[derive(Clone, Copy)]
pub(super) struct Probe {
    /// Its [`Reader::address`].
    pub(super) at: usize,
    pub(super) reads: Reads,
}

#[derive(Clone, Copy)]
pub(super) enum Reads {
    /// With a null as its last element, or as its last member with this name.
    OneMore(&'static str),
    /// As if nothing were in it.
    Nothing,
}

impl<'de> Reader<'de> {
    /// Of the whole text. The budget is what [`budget`] says.
    pub(super) fn new(text: &'de str, probe: Option<Probe>, budget: &'de Cell<usize>) -> Self {
        Reader { text: text.trim_ascii_start(), depth: 0, probe, budget }
    }

    /// A value inside this one.
    pub(super) fn inner(self, text: &'de str) -> Result<Self, Problem> {
        let left = self.budget.get().checked_sub(text.len());
        let (Some(left), true) = (left, self.depth < DEEPEST) else {
            return Err(Problem::too_deep());
        };
        self.budget.set(left);
        Ok(Reader { text, depth: self.depth + 1, ..self })
    }

    /// Where the text stands, which tells two objects apart that look the same.
    pub(super) fn address(&self) -> usize {
        self.text.as_ptr().addr()
    }

    /// How this very value is to be read.
    pub(super) fn probe(&self) -> Option<Reads> {
        self.probe.filter(|probe| probe.at == self.address()).map(|probe| probe.reads)
    }

    pub(super) fn json_type(&self) -> &'static str {
        json_type(self.text)
    }

    fn kind(&self) -> Kind {
        kind(self.text)
    }

    fn refuse<V: Visitor<'de>>(&self, visitor: &V) -> Problem {
        Problem::invalid_type(self.unexpected(), visitor)
    }

    /// For the type alone: the value itself must not get into the problem.
    fn unexpected(&self) -> Unexpected<'static> {
        match self.kind() {
            Kind::Object => Unexpected::Map,
            Kind::Array => Unexpected::Seq,
            Kind::String => Unexpected::Str(""),
            Kind::Boolean => Unexpected::Bool(false),
            Kind::Null => Unexpected::Unit,
            Kind::Number => Unexpected::Float(0.0),
        }
    }

    fn string(&self) -> Result<String, Problem> {
        serde_json::from_str(self.text).map_err(|_| Problem::unreadable())
    }

    fn visit_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match serde_json::from_str::<&'de str>(self.text) {
            Ok(text) => visitor.visit_borrowed_str(text),
            Err(_) => visitor.visit_string(self.string()?),
        }
    }

    /// `length` is what the type takes, where it says so.
    fn visit_array<V: Visitor<'de>>(
        self,
        visitor: V,
        length: Option<usize>,
    ) -> Result<V::Value, Problem> {
        Walk::over(self, self.text, visitor, None).map_err(|problem| {
            problem.unwrap_or_else(|| match length {
                Some(1) => Problem::invalid_length(0, &"array of 1 element"),
                Some(length) => {
                    Problem::invalid_length(0, &&*format!("array of {length} elements"))
                }
                None => Problem::invalid_length(0, &"array of fewer elements"),
            })
        })
    }

    /// The members of a struct, by position.
    fn visit_struct_array<V: Visitor<'de>>(
        self,
        visitor: V,
        names: &'static [&'static str],
    ) -> Result<V::Value, Problem> {
        Walk::over(self, self.text, visitor, Some(names)).map_err(|problem| match problem {
            Some(problem) => problem.of_struct(names),
            None => Problem::invalid_length(0, &"array of fewer elements"),
        })
    }

    fn visit_object<V: Visitor<'de>>(
        self,
        visitor: V,
        names: Option<&'static [&'static str]>,
    ) -> Result<V::Value, Problem> {
        Walk::over(self, self.text, visitor, names).map_err(|problem| {
            problem.unwrap_or_else(|| Problem::invalid_length(0, &"object with fewer members"))
        })
    }
}

pub(super) fn json_type(text: &str) -> &'static str {
    match kind(text.trim_ascii_start()) {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Boolean => "boolean",
        Kind::Null => "null",
        Kind::Number => "number",
    }
}

/// The text is known to be JSON, so that its first byte tells.
fn kind(text: &str) -> Kind {
    match text.as_bytes().first() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Boolean,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// How many bytes a reading of this text may go through.
pub(super) fn budget(text: &str) -> Cell<usize> {
    Cell::new(text.len().saturating_mul(MOST_TIMES).saturating_add(FREE_BYTES))
}

/// What a visitor expects, as text.
pub(super) fn expectation<'de, V: Visitor<'de>>(visitor: &V) -> String {
    use std::fmt::Write;

    let mut text = String::new();
    // A visitor that fails to say what it expects is none of those that we look for.
    let _ = write!(text, "{}", visitor as &dyn de::Expected);
    text
}

macro_rules! numbers {
    ($($name:ident: $width:ident,)*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            match self.kind() {
                Kind::Number => number::visit(self.text, visitor, Width::$width),
                _ => Err(self.refuse(&visitor)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        // serde's buffer and serde_json's value take everything. They are read in one go, as going
        // through the text once for each level adds up where it is nested deeply.
        if matches!(&*expectation(&visitor), "any value" | "any valid JSON value") {
            let mut text = serde_json::Deserializer::from_str(self.text);
            return text.deserialize_any(visitor).map_err(|_| Problem::in_buffer());
        }
        match self.kind() {
            Kind::Object => self.visit_object(visitor, None),
            Kind::Array => self.visit_array(visitor, None),
            Kind::String => self.visit_string(visitor),
            Kind::Boolean => visitor.visit_bool(self.text == "true"),
            Kind::Null => visitor.visit_unit(),
            Kind::Number => number::visit(self.text, visitor, Width::Usual),
        }
    }

    numbers! {
        deserialize_i8: Usual, deserialize_i16: Usual, deserialize_i32: Usual,
        deserialize_i64: Usual, deserialize_i128: Signed, deserialize_u8: Usual,
        deserialize_u16: Usual, deserialize_u32: Usual, deserialize_u64: Usual,
        deserialize_u128: Unsigned, deserialize_f32: Usual, deserialize_f64: Usual,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Boolean => visitor.visit_bool(self.text == "true"),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::String => self.visit_string(visitor),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::String => visitor.visit_byte_buf(self.string()?.into_bytes()),
            Kind::Array => self.visit_array(visitor, None),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Null => visitor.visit_unit(),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match name {
            RAW_VALUE => {
                visitor.visit_map(MapDeserializer::new([(RAW_VALUE, self.text)].into_iter()))
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Array => self.visit_array(visitor, None),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Array => self.visit_array(visitor, Some(length)),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Object => self.visit_object(visitor, None),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::Object => self.visit_object(visitor, Some(names)),
            Kind::Array => self.visit_struct_array(visitor, names),
            _ => Err(self.refuse(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.kind() {
            Kind::String => visitor.visit_enum(Chosen::by_name(self.string()?)),
            Kind::Object => {
                let only = serde_json::from_str::<OnlyMember<'de>>(self.text).map_err(|_| {
                    let expected = &"map with a single key";
                    Problem::invalid_value(Unexpected::Map, expected).among(variants)
                })?;
                let data = self.inner(only.value.get())?;
                let chosen = Chosen::with_data(only.name, data, variants);
                visitor.visit_enum(chosen).map_err(|problem| problem.among(variants))
            }
            _ => Err(Problem::not_a_variant(self.unexpected(), &visitor, variants)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }
}
