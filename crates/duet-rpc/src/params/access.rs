//! Access to elements, members and variants during the second reading.
//!
//! Each element, member and variant gets a reader of its own. If the reader finds a problem, the step to the
//! element is added to the path of the problem.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::value::RawValue;

use super::problem::{PathStep, Problem, Result};
use super::reader::ParamsReader;

/// The names that a type lists: its members, or its variants.
pub(super) type Names = &'static [&'static str];

/// Stands in a path for a member name that the remote chose.
const ANY_NAME: PathStep = PathStep::Member(Cow::Borrowed("*"));

/// The elements of an array, or the members of an object.
pub(super) struct Items<'de> {
    reader: ParamsReader<'de>,
    rest: &'de str,
    names: Option<Names>,
    index: usize,
    /// The member whose key was read, but not its value.
    current: Option<(&'de str, PathStep)>,
}

impl<'de> Items<'de> {
    pub(super) fn new(reader: ParamsReader<'de>, names: Option<Names>) -> Self {
        Items {
            reader,
            rest: reader.text.get(1..).unwrap_or_default(),
            names,
            index: 0,
            current: None,
        }
    }

    /// The next value or key, as text. It is cut out lazily: a list of all values could take many times the
    /// memory of a hostile message.
    pub(super) fn cut(&mut self) -> Option<&'de str> {
        let text = first_value(self.rest)?;
        // A comma, a colon or the closing bracket follows.
        let end = text.as_ptr().addr() - self.rest.as_ptr().addr() + text.len();
        self.rest = self.rest.get(end..)?.trim_ascii_start().get(1..)?;
        Some(text)
    }

    /// The step to a member. A name that only the remote knows is not shown.
    pub(super) fn step_to(&self, name: String) -> PathStep {
        match self.names.map(|names| names.iter().find(|&&known| known == name)) {
            Some(Some(known)) => PathStep::Member((*known).into()),
            None if self.reader.knows_key() => PathStep::Member(name.into()),
            _ => ANY_NAME,
        }
    }

    fn read<S: DeserializeSeed<'de>>(&self, text: &'de str, seed: S) -> Result<S::Value> {
        let reader = self.reader.inner(text)?;
        seed.deserialize(reader).map_err(|problem| problem.found_in(&reader))
    }
}

/// The JSON value that a text begins with, if there is one.
pub(super) fn first_value(text: &str) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    Some(values.next()?.ok()?.get())
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let (index, array) = (self.index, self.reader.offset());
        self.index += 1;
        let Some(text) = self.cut() else {
            // A struct whose members have defaults asks for each of them, even after the end.
            if self.names.is_some_and(|names| names.len() == self.index) {
                self.reader.note_asked_for_all();
            }
            return Ok(None);
        };
        let read = self.read(text, seed).map_err(|problem| {
            problem.under(match self.names.and_then(|names| names.get(index)) {
                Some(name) => PathStep::Position { index, name, array },
                None => PathStep::Element(index),
            })
        });
        read.map(Some)
    }
}

impl<'de> MapAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let (Some(name), Some(value)) = (self.cut(), self.cut()) else { return Ok(None) };
        let key = self.reader.name(name, true);
        let name = key.string()?;
        let key = seed.deserialize(key).map_err(Problem::found_in_key)?;
        self.current = Some((value, self.step_to(name)));
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let Some((text, step)) = self.current.take() else {
            // A mistake in the application's `Deserialize`: it asks for a value before its key.
            return Err(Problem::custom("no key was read"));
        };
        self.read(text, seed).map_err(|problem| match self.names {
            // A type with a flattened part asks for every key in the same way, and buffers the
            // members that it does not know.
            None if problem.is_in_buffer() => problem.under(ANY_NAME),
            _ => problem.under(step),
        })
    }
}

/// A variant, either as its name, `"Name"`, or with data, `{"Name": data}`.
pub(super) struct Variant<'de> {
    pub(super) name: ParamsReader<'de>,
    pub(super) data: Option<(ParamsReader<'de>, PathStep)>,
}

impl<'de> Variant<'de> {
    fn read<T>(self, read: impl FnOnce(ParamsReader<'de>) -> Result<T>) -> Result<T> {
        let Some((reader, step)) = self.data else {
            return Err(Problem::invalid_type(Unexpected::UnitVariant, &"newtype variant"));
        };
        read(reader).map_err(|problem| problem.found_in(&reader).under(step))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Problem;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        match (seed.deserialize(self.name), &self.data) {
            (Ok(variant), _) => Ok((variant, self)),
            // The error shows a received string, but neither an object nor a name in it.
            (Err(problem), None) => Err(problem),
            (Err(problem), Some(_)) => Err(problem.found_in_key()),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<()> {
        match self.data {
            Some(_) => self.read(<()>::deserialize),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        self.read(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value> {
        self.read(|reader| reader.deserialize_tuple(length, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, names: Names, visitor: V) -> Result<V::Value> {
        self.read(|reader| reader.deserialize_struct("", names, visitor))
    }
}
