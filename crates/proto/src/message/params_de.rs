//! Deserializer for params: serde_json's, but a `RawValue` gets the text without parsing.

use serde::Deserializer;
use serde::de::Visitor;
use serde::de::value::{BorrowedStrDeserializer, MapDeserializer};
use serde_json::Error;

/// A whole JSON text. It was checked already: parsing it again for a `RawValue`, only to find its
/// end, would cost more than the check did.
pub(super) struct ParamsDeserializer<'de>(pub(super) &'de str);

/// The name with which `RawValue` asks for the text itself.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> ParamsDeserializer<'de> {
    #[inline(always)]
    fn read<T>(
        self,
        read: impl FnOnce(
            &mut serde_json::Deserializer<serde_json::de::StrRead<'de>>,
        ) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut json = serde_json::Deserializer::from_str(self.0);
        let value = read(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

/// Forwards each of these methods to serde_json.
macro_rules! as_json {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(
            #[inline]
            fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, Error> {
                self.read(|json| json.$method($($name,)* visitor))
            }
        )*
    };
}

impl<'de> Deserializer<'de> for ParamsDeserializer<'de> {
    type Error = Error;

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            RAW_VALUE => {
                // Borrowed, because `&RawValue` accepts nothing else.
                let text = BorrowedStrDeserializer::new(self.0);
                visitor.visit_map(MapDeserializer::new([(RAW_VALUE, text)].into_iter()))
            }
            _ => self.read(|json| json.deserialize_newtype_struct(name, visitor)),
        }
    }

    as_json! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use crate::message::Params;

    const TEXT: &str = r#"{"a": [1.0, "\u00e9é"], "b": null }"#;

    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Wrapped<'a>(#[serde(borrow)] &'a RawValue);

    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        a: &'a RawValue,
    }

    #[test]
    fn s3_raw_params_are_the_text_itself() -> Result<(), serde_json::Error> {
        let params = Params::Object(TEXT);
        assert_eq!(params.parse::<Box<RawValue>>()?.get(), TEXT);
        assert_eq!(
            params.parse::<Option<Box<RawValue>>>()?.map(|raw| raw.get().len()),
            Some(TEXT.len())
        );
        // The text is not copied.
        assert!(std::ptr::eq(params.parse::<&RawValue>()?.get(), TEXT));
        assert!(std::ptr::eq(params.parse::<Wrapped<'_>>()?.0.get(), TEXT));
        assert_eq!(params.parse::<Part<'_>>()?.a.get(), r#"[1.0, "\u00e9é"]"#);
        assert_eq!(Params::Absent.parse::<&RawValue>()?.get(), "null");
        assert!(params.parse::<Option<&RawValue>>()?.is_some());
        Ok(())
    }
}
