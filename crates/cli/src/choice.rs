//! Parameters with a closed list of string values.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, EnumAccess, Error, IgnoredAny, Unexpected, VariantAccess, Visitor};

/// Reads one of `names`. The error for any other value lists them.
///
/// A serde enum would also accept `{"name": null}`, which we do not offer.
pub(crate) fn deserialize<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    names: &'static [&'static str],
    find: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    deserializer.deserialize_enum("", names, Choice { names, find, found: PhantomData })
}

struct Choice<F, T> {
    names: &'static [&'static str],
    find: F,
    found: PhantomData<T>,
}

impl<'de, T, F: Fn(&str) -> Option<T>> Visitor<'de> for Choice<F, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("string")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, chosen: A) -> Result<T, A::Error> {
        let (name, with) = chosen.variant::<String>()?;
        // Only an object has a value beside the name.
        if with.newtype_variant::<IgnoredAny>().is_ok() {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        (self.find)(&name).ok_or_else(|| A::Error::unknown_variant(&name, self.names))
    }
}
