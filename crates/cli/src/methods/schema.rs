//! JSON schemas of params and results: each type has its own.

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A type with a schema that its values hold to.
pub(super) trait Schema {
    fn schema() -> Value;
}

/// The schema of a type; the function that our services name.
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

/// A param that may be left out: its description says so, besides the schema.
impl<T: Schema> Schema for Option<T> {
    fn schema() -> Value {
        T::schema()
    }
}

/// The schema of one of these strings.
pub(super) fn one_of(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

/// The members of an object, all of which are there, with the schema of each.
pub(super) type Members = [(&'static str, fn() -> Value)];

/// The schema of an object.
pub(super) fn object(members: &Members) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, schema) in members {
        properties.insert((*name).to_owned(), schema());
    }
    let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

/// Defines the struct of a result and its schema, so that neither can have a member that the other has not.
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
