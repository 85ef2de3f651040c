//! What a value looks like: for people, and as a JSON schema.

use std::fmt;

use serde_json::{Value, json};

/// The shape of a parameter or a result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Whatever JSON can hold.
    Any,
    String,
    Boolean,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    Array(&'static Shape),
    /// These members, all of which are there.
    Object(&'static [(&'static str, Shape)]),
    /// What params can be.
    Params,
}

impl Shape {
    /// The name of its JSON type.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Shape::Any => "any",
            Shape::String | Shape::OneOf(_) => "string",
            Shape::Boolean => "boolean",
            Shape::Array(_) => "array",
            Shape::Object(_) => "object",
            Shape::Params => "object or array",
        }
    }

    /// A schema that its values hold to.
    pub(super) fn schema(self) -> Value {
        match self {
            Shape::Any => json!({}),
            Shape::String => json!({"type": "string"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::OneOf(values) => json!({"type": "string", "enum": values}),
            Shape::Array(items) => json!({"type": "array", "items": items.schema()}),
            Shape::Params => json!({"type": ["object", "array", "null"]}),
            Shape::Object(members) => {
                let names: Vec<_> = members.iter().map(|(name, _)| *name).collect();
                let schemas =
                    members.iter().map(|(name, shape)| ((*name).to_owned(), shape.schema()));
                let properties: serde_json::Map<_, _> = schemas.collect();
                json!({"type": "object", "properties": properties, "required": names})
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::OneOf(values) => write!(f, "\"{}\"", values.join("\" | \"")),
            Shape::Array(items) => write!(f, "[{items}]"),
            Shape::Object(members) => {
                f.write_str("{")?;
                for (index, (name, shape)) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}\"{name}\": {shape}")?;
                }
                f.write_str("}")
            }
            other => f.write_str(other.type_name()),
        }
    }
}
