//! A deserializer over JSON text that knows its position in the text.
//!
//! It accepts the same texts as serde_json, so it fails where the first reading failed. Containers
//! stay text: they are cut into raw values, and only the values that the type asks for are read.
//!
//! A tree of `serde_json::Value` would change the answers. It sorts members, keeps only the last of two
//! members with the same name, rounds large integers, and stops at depth 128 even where the type reads no
//! deeper. It would also cost a multiple of the text in memory.

use std::cell::Cell;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde_json::Number;

use super::access::{Items, Names, Variant};
use super::problem::{Problem, Result, text_of};
use super::wording::array_of;

/// The depth at which serde_json stops too.
const DEEPEST: usize = 128;

/// The budget of a reading, in bytes that it cuts out: `MOST_TIMES` the text, and `FREE_BYTES` more.
/// Each level is cut out of the one above it, so a text that is deep and large would take too long.
const MOST_TIMES: usize = 16;
const FREE_BYTES: usize = 1 << 20;

/// The name of the newtype struct with which a raw value requests its text.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Reads a text to get its error; `None` if the text fits. Absent parameters are an empty text.
pub(super) fn attempt<T: DeserializeOwned>(text: &str) -> Option<Problem> {
    Reading::new(text).attempt::<T>(json_type(text))
}

/// Returns `true` if the type reads a struct with as many members as names from the empty array at this
/// position. The error of this reading shows it. If all members have defaults, there is no error, and the
/// number of requested members shows it.
pub(super) fn has_all_names<T: DeserializeOwned>(text: &str, array: usize) -> bool {
    let reading = Reading { watched: Some(array), ..Reading::new(text) };
    let problem = reading.attempt::<T>(json_type(text));
    let missing = problem.and_then(|problem| problem.missing_member());
    missing.is_some_and(|(at, _)| at == array) || reading.asked_for_all.get()
}

/// The JSON type of a text that is known to be JSON or empty. The first byte decides.
pub(super) fn json_type(text: &str) -> &'static str {
    match text.as_bytes().first() {
        None => "missing",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// The state that all readers of one reading share.
struct Reading<'t> {
    text: &'t str,
    /// The bytes that may still be cut out.
    budget: Cell<usize>,
    /// `true` if the type knows the last key, so that an error may show the key (E1).
    knows_key: Cell<bool>,
    /// The start of an array that is watched.
    watched: Option<usize>,
    /// `true` if the type asked that array for as many elements as it lists names.
    asked_for_all: Cell<bool>,
}

impl<'t> Reading<'t> {
    fn new(text: &'t str) -> Self {
        let text = if text.is_empty() { "null" } else { text };
        let budget = text.len().saturating_mul(MOST_TIMES).saturating_add(FREE_BYTES);
        Reading {
            text,
            budget: Cell::new(budget),
            knows_key: Cell::new(false),
            watched: None,
            asked_for_all: Cell::new(false),
        }
    }

    fn attempt<T: DeserializeOwned>(&self, json_type: &'static str) -> Option<Problem> {
        let (text, reading) = (self.text, self);
        let reader = ParamsReader { text, json_type, depth: 0, is_key: false, reading };
        T::deserialize(reader).err().map(|problem| problem.found_in(&reader))
    }
}

/// One JSON value, or the key of a member.
#[derive(Clone, Copy)]
pub(super) struct ParamsReader<'de> {
    pub(super) text: &'de str,
    pub(super) json_type: &'static str,
    depth: usize,
    is_key: bool,
    reading: &'de Reading<'de>,
}

impl<'de> ParamsReader<'de> {
    /// A value inside this one.
    pub(super) fn inner(self, text: &'de str) -> Result<Self> {
        let left = self.reading.budget.get().checked_sub(text.len());
        let (Some(left), true) = (left, self.depth < DEEPEST) else {
            return Err(Problem::too_much());
        };
        self.reading.budget.set(left);
        Ok(ParamsReader { text, json_type: json_type(text), depth: self.depth + 1, ..self })
    }

    /// The name of a member or a variant of this object.
    pub(super) fn name(self, text: &'de str, is_key: bool) -> Self {
        self.reading.knows_key.set(false);
        ParamsReader { text, json_type: "string", is_key, ..self }
    }

    /// Returns `true` if the type knows the last key.
    pub(super) fn knows_key(&self) -> bool {
        self.reading.knows_key.get()
    }

    /// Notes that the type has asked this array for as many elements as it lists names.
    pub(super) fn note_asked_for_all(&self) {
        if self.reading.watched == Some(self.offset()) {
            self.reading.asked_for_all.set(true);
        }
    }

    /// The start of the value in the text.
    pub(super) fn offset(&self) -> usize {
        self.text.as_ptr().addr() - self.reading.text.as_ptr().addr()
    }

    pub(super) fn string(&self) -> Result<String> {
        serde_json::from_str(self.text).map_err(|_| Problem::unreadable())
    }

    /// Reads this value as the type. A key may also be a number or a boolean in quotes.
    fn of_type(self, wanted: &'static str) -> Option<Self> {
        let text = self.text.trim_matches('"');
        match wanted {
            _ if self.json_type == wanted => return Some(self),
            "null" if self.json_type == "missing" => {}
            "boolean" if self.is_key && matches!(text, "true" | "false") => {}
            "number" if self.is_key && text.parse::<Number>().is_ok() => {}
            _ => return None,
        }
        Some(ParamsReader { text, json_type: wanted, ..self })
    }

    fn refuse<V: Visitor<'de>>(self, visitor: &V) -> Problem {
        Problem::wrong_type(Some(self.json_type), visitor)
    }

    fn visit_as<V: Visitor<'de>>(self, wanted: &'static str, visitor: V) -> Result<V::Value> {
        match self.of_type(wanted) {
            Some(reader) => reader.visit(visitor),
            None => Err(self.refuse(&visitor)),
        }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.json_type {
            "object" | "array" => self.walk(visitor, None, None),
            "string" => visitor.visit_string(self.string()?),
            "boolean" => visitor.visit_bool(self.text == "true"),
            "number" => self.visit_number(visitor),
            _ => visitor.visit_unit(),
        }
    }

    fn visit_number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let number: Number = self.text.parse().map_err(|_| Problem::unreadable())?;
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), ..) => visitor.visit_u64(number),
            (_, Some(number), _) => visitor.visit_i64(number),
            (.., Some(float)) => visitor.visit_f64(float).map_err(|problem: Problem| {
                // serde_json reads `-0` as a fraction, and an integer beyond 64 bits as well.
                let is_integer = self.text != "-0" && !self.text.contains(['.', 'e', 'E']);
                if is_integer { problem.out_of_range() } else { problem }
            }),
            _ => Err(Problem::unreadable()),
        }
    }

    /// `names` has the members of a struct, `length` is the length of a tuple.
    fn walk<V: Visitor<'de>>(
        self,
        visitor: V,
        names: Option<Names>,
        length: Option<usize>,
    ) -> Result<V::Value> {
        let mut items = Items::new(self, names);
        let read = match (self.json_type, length) {
            ("array", _) => visitor.visit_seq(&mut items),
            ("object", None) => visitor.visit_map(&mut items),
            _ => return Err(self.refuse(&visitor)),
        };
        let value = read.map_err(|problem| problem.of_struct(names.unwrap_or_default()))?;
        match (items.cut(), self.json_type, length) {
            (None, ..) => Ok(value),
            (_, "object", _) => Err(Problem::stated("object with fewer members")),
            (_, _, Some(length)) => Err(Problem::stated(array_of(length))),
            (_, _, None) => Err(Problem::stated("array of fewer elements")),
        }
    }

    /// A variant with data, `{"Name": data}`.
    fn visit_variant<V: Visitor<'de>>(self, visitor: V, variants: Names) -> Result<V::Value> {
        if self.json_type != "object" {
            return Err(self.refuse(&visitor));
        }
        let mut items = Items::new(self, Some(variants));
        let member = (items.cut(), items.cut(), items.cut());
        if let (Some(name), Some(data), None) = member
            && let name = self.name(name, false)
            && let Ok(text) = name.string()
        {
            let data = Some((self.inner(data)?, items.step_to(text)));
            return visitor.visit_enum(Variant { name, data });
        }
        Err(Problem::wrong_type(None, &"map with a single key"))
    }
}

/// Defines the methods of `Deserializer`. The first rows are for methods that expect one JSON type. Each
/// further row is one method: its arguments before the visitor, and its body.
macro_rules! methods {
    ($this:ident, $visitor:ident;
     $($wanted:literal: $($simple:ident)+;)+
     $($method:ident($($name:ident: $type:ty),*) => $does:expr;)+) => {
        $($(fn $simple<V: Visitor<'de>>($this, $visitor: V) -> Result<V::Value> {
            $this.visit_as($wanted, $visitor)
        })+)+
        $(fn $method<V: Visitor<'de>>($this, $($name: $type,)* $visitor: V) -> Result<V::Value> {
            $does
        })+
    };
}

impl<'de> Deserializer<'de> for ParamsReader<'de> {
    type Error = Problem;

    methods! { self, visitor;
        "boolean": deserialize_bool;
        "number": deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
            deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64;
        "string": deserialize_char deserialize_str deserialize_string;
        "null": deserialize_unit;
        "array": deserialize_seq;
        "object": deserialize_map;

        // serde_json visits integers of 128 bits only on request.
        deserialize_i128() => match self.of_type("number").map(|number| number.text.parse()) {
            Some(Ok(number)) => visitor.visit_i128(number),
            _ => self.visit_as("number", visitor),
        };
        deserialize_u128() => match self.of_type("number").map(|number| number.text.parse()) {
            Some(Ok(number)) => visitor.visit_u128(number),
            _ => self.visit_as("number", visitor),
        };
        deserialize_byte_buf() => self.deserialize_bytes(visitor);
        deserialize_bytes() => match self.json_type {
            "string" => visitor.visit_byte_buf(self.string()?.into_bytes()),
            _ => self.visit_as("array", visitor),
        };
        deserialize_unit_struct(_name: &'static str) => self.visit_as("null", visitor);
        deserialize_option() => match self.json_type {
            "null" | "missing" => visitor.visit_none(),
            _ => visitor.visit_some(self),
        };
        deserialize_newtype_struct(name: &'static str) => match name {
            RAW_VALUE => visitor.visit_map(MapDeserializer::new([(name, self.text)].into_iter())),
            _ => visitor.visit_newtype_struct(self),
        };
        deserialize_tuple(length: usize) => self.walk(visitor, None, Some(length));
        deserialize_tuple_struct(_name: &'static str, length: usize) => {
            self.walk(visitor, None, Some(length))
        };
        deserialize_struct(_name: &'static str, names: Names) => {
            self.walk(visitor, Some(names), None)
        };
        deserialize_enum(_name: &'static str, variants: Names) => match self.json_type {
            "string" => visitor.visit_enum(Variant { name: self.name(self.text, false), data: None }),
            _ => self.visit_variant(visitor, variants).map_err(|problem| problem.among(variants)),
        };
        deserialize_identifier() => {
            // A type that asks for an identifier has a list of them. It refuses, ignores or buffers any other
            // identifier. None of these is a problem with a path.
            self.reading.knows_key.set(self.is_key);
            self.visit_as("string", visitor)
        };
        deserialize_ignored_any() => visitor.visit_unit();
        deserialize_any() => {
            let expected = text_of(&visitor);
            if self.is_key {
                // This is how an internally tagged enum looks for its tag.
                let tag = format!("a type tag `{}` or any other value", self.string()?);
                self.reading.knows_key.set(expected == tag);
            } else if matches!(&*expected, "any value" | "any valid JSON value") {
                // serde's buffer and serde_json's value accept everything, so they are read in one step:
                // cutting out each level would take too long for a deep text.
                let mut text = serde_json::Deserializer::from_str(self.text);
                return text.deserialize_any(visitor).map_err(|_| Problem::in_buffer());
            }
            self.visit(visitor)
        };
    }
}
