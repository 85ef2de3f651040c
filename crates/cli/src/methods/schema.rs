//! JSON schemas of params and results, one per type.

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A type with a JSON schema for its values.
pub(super) trait Schema {
    fn schema() -> Value;
}

/// Schema of a type, in the form that `#[service(schema = …)]` takes.
pub(super) fn schema_of<T: Schema>() -> Value {
    T::schema()
}

/// Any JSON value.
impl Schema for Box<RawValue> {
    fn schema() -> Value {
        json!({})
    }
}

impl Schema for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }
}

impl Schema for String {
    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl Schema for &str {
    fn schema() -> Value {
        String::schema()
    }
}

impl<T: Schema> Schema for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

/// An optional param. Its description says so, not its schema.
impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        T::schema()
    }
}

/// Schema of a string with these values.
pub(super) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

/// Members of an object, all required, with their schemas.
pub(super) type Members = [(&'static str, fn() -> Value)];

/// Schema of an object.
pub(super) fn object(members: &Members) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, schema) in members {
        properties.insert((*name).to_owned(), schema());
    }
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

/// Defines the struct of a result together with its schema, so that their members agree.
macro_rules! result {
    ($vis:vis struct $name:ident { $($member:literal => $field:ident: $ty:ty),+ $(,)? }) => {
        #[derive(serde::Serialize)]
        $vis struct $name {
            $(#[serde(rename = $member)] $field: $ty),+
        }

        impl $crate::methods::schema::Schema for $name {
            fn schema() -> serde_json::Value {
                use $crate::methods::schema::{object, schema_of};
                object(&[$(($member, schema_of::<$ty>)),+])
            }
        }
    };
}
pub(super) use result;
