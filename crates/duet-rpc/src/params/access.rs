//! What the reader walks through: elements, members and variants.
//!
//! serde_json cuts the text into raw values; here each of them becomes a reader, and each problem
//! that comes back from one gets the step that led to it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::value::RawValue;

use super::name::Name;
use super::problem::{Problem, Step};
use super::reader::{Reader, Reads};

/// What a path shows in place of a name that only the remote knows.
const ANY_NAME: &str = "*";

/// A walk over an array or an object. What the visitor makes of it is set aside, as serde_json,
/// which leads the walk, would take only an error of its own kind.
pub(super) struct Walk<'w, 'de, V: Visitor<'de>> {
    reader: Reader<'de>,
    visitor: V,
    names: Option<&'static [&'static str]>,
    outcome: &'w mut Option<Result<V::Value, Problem>>,
}

impl<'de, V: Visitor<'de>> Walk<'_, 'de, V> {
    /// `Err(None)` if the visitor was content before it had seen everything.
    pub(super) fn over(
        reader: Reader<'de>,
        text: &'de str,
        visitor: V,
        names: Option<&'static [&'static str]>,
    ) -> Result<V::Value, Option<Problem>> {
        let mut outcome = None;
        let walk = Walk { reader, visitor, names, outcome: &mut outcome };
        let end = serde_json::Deserializer::from_str(text).deserialize_any(walk);
        match (outcome, end) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Ok(_)), Err(_)) => Err(None),
            (Some(Err(problem)), _) => Err(Some(problem)),
            (None, _) => Err(Some(Problem::unreadable())),
        }
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Walk<'_, 'de, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<(), A::Error> {
        let (names, probe) = (self.names.unwrap_or_default(), self.reader.probe());
        let elements = Elements { reader: self.reader, array, index: 0, names, probe };
        *self.outcome = Some(self.visitor.visit_seq(elements));
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        let members = Members {
            reader: self.reader,
            object,
            names: self.names,
            probe: match self.reader.probe() {
                Some(Reads::OneMore(name)) => Some(name),
                Some(Reads::Nothing) | None => None,
            },
            current: Current::None,
        };
        *self.outcome = Some(self.visitor.visit_map(members));
        Ok(())
    }
}

struct Elements<'de, A> {
    reader: Reader<'de>,
    array: A,
    index: usize,
    /// The members of the struct that is read from it; none if it is no struct.
    names: &'static [&'static str],
    probe: Option<Reads>,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'de, A> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        let raw = match self.probe {
            Some(Reads::Nothing) => None,
            _ => {
                let raw = self.array.next_element::<&'de RawValue>();
                raw.map_err(|_| Problem::unreadable())?.map(RawValue::get)
            }
        };
        let one_more = |probe: &Reads| matches!(probe, Reads::OneMore(_));
        let Some(text) =
            raw.or_else(|| self.probe.take_if(|probe| one_more(probe)).and(Some("null")))
        else {
            return Ok(None);
        };
        let (index, array) = (self.index, self.reader.address());
        let step = match self.names.get(index) {
            Some(name) => Step::Position { index, name, array },
            None => Step::Element(index),
        };
        self.index += 1;
        read(self.reader, text, seed, |_| step).map(Some)
    }
}

struct Members<'de, A> {
    reader: Reader<'de>,
    object: A,
    /// The members that a struct has.
    names: Option<&'static [&'static str]>,
    /// A member that is still to be put at the end.
    probe: Option<&'static str>,
    current: Current,
}

/// The member whose name was read, and whose value was not.
enum Current {
    None,
    Sent(Step),
    Probe(Step),
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'de, A> {
    type Error = Problem;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Problem> {
        let sent = self.object.next_key::<String>().map_err(|_| Problem::unreadable())?;
        let (name, is_probe) = match (sent, self.probe) {
            (Some(name), _) => (Cow::Owned(name), false),
            (None, Some(_)) => (self.probe.take().unwrap_or_default().into(), true),
            (None, None) => return Ok(None),
        };
        let mut is_known = false;
        let key = seed
            .deserialize(Name { text: &name, is_known: &mut is_known })
            .map_err(Problem::found_in_name)?;
        let step = Step::Member(match self.names {
            Some(names) => known_name(&name, names),
            None if is_known => name,
            None => ANY_NAME.into(),
        });
        self.current = if is_probe { Current::Probe(step) } else { Current::Sent(step) };
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        match std::mem::replace(&mut self.current, Current::None) {
            Current::Sent(step) => {
                let raw = self.object.next_value::<&'de RawValue>();
                let raw = raw.map_err(|_| Problem::unreadable())?;
                let names = self.names;
                read(self.reader, raw.get(), seed, |problem| match names {
                    // A type with a flattened part asks for every name in the same way, and puts
                    // aside what it does not know.
                    None if problem.is_in_buffer() => Step::Member(ANY_NAME.into()),
                    _ => step,
                })
            }
            Current::Probe(step) => read(self.reader, "null", seed, |_| step),
            // A mistake in the application's `Deserialize`: it asks for a value before its name.
            Current::None => Err(Problem::custom("no name was read")),
        }
    }
}

fn read<'de, S: DeserializeSeed<'de>>(
    outer: Reader<'de>,
    text: &'de str,
    seed: S,
    step: impl FnOnce(&Problem) -> Step,
) -> Result<S::Value, Problem> {
    let read = outer
        .inner(text)
        .and_then(|reader| seed.deserialize(reader).map_err(|problem| problem.found_in(&reader)));
    read.map_err(|problem| {
        let step = step(&problem);
        problem.under(step)
    })
}

/// A name that is in the list, which makes it ours, or else a sign for any name.
fn known_name(name: &str, names: &'static [&'static str]) -> Cow<'static, str> {
    names.iter().find(|&&known| known == name).map_or(ANY_NAME, |known| known).into()
}

/// An object with one member, which is how a variant with data is written.
pub(super) struct OnlyMember<'de> {
    pub(super) name: String,
    pub(super) value: &'de RawValue,
}

impl<'de> Deserialize<'de> for OnlyMember<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Only;

        impl<'de> Visitor<'de> for Only {
            type Value = OnlyMember<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with one member")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
                let first = object.next_entry()?;
                let (name, value) = first.ok_or_else(|| A::Error::custom("no member"))?;
                match object.next_key::<IgnoredAny>()? {
                    None => Ok(OnlyMember { name, value }),
                    Some(_) => Err(A::Error::custom("a second member")),
                }
            }
        }

        deserializer.deserialize_map(Only)
    }
}

/// A variant that was chosen by its name, `"Name"`, or with data, `{"Name": data}`.
pub(super) struct Chosen<'de> {
    name: String,
    data: Option<Data<'de>>,
}

/// What comes with a variant.
pub(super) struct Data<'de> {
    reader: Reader<'de>,
    step: Step,
}

impl<'de> Chosen<'de> {
    pub(super) fn by_name(name: String) -> Self {
        Chosen { name, data: None }
    }

    pub(super) fn with_data(
        name: String,
        reader: Reader<'de>,
        variants: &'static [&'static str],
    ) -> Self {
        let step = Step::Member(known_name(&name, variants));
        Chosen { name, data: Some(Data { reader, step }) }
    }
}

impl<'de> EnumAccess<'de> for Chosen<'de> {
    type Error = Problem;
    type Variant = Variant<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Variant<'de>), Problem> {
        let name = Name { text: &self.name, is_known: &mut false };
        let variant = seed.deserialize(name).map_err(|problem| match &self.data {
            // The string that was sent is shown; an object is not, nor a name in it.
            None => problem,
            Some(_) => problem.found_in_name(),
        })?;
        Ok((variant, Variant(self.data)))
    }
}

/// The data of a variant, if there is any.
pub(super) struct Variant<'de>(Option<Data<'de>>);

impl<'de> Variant<'de> {
    fn read<T>(self, read: impl FnOnce(Reader<'de>) -> Result<T, Problem>) -> Result<T, Problem> {
        match self.0 {
            Some(Data { reader, step }) => {
                read(reader).map_err(|problem| problem.found_in(&reader).under(step))
            }
            None => Err(Problem::invalid_type(Unexpected::UnitVariant, &"newtype variant")),
        }
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.0 {
            Some(_) => self.read(<()>::deserialize),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Problem> {
        self.read(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.read(|reader| reader.deserialize_tuple(length, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.read(|reader| reader.deserialize_struct("", names, visitor))
    }
}
