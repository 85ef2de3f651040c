//! JSON Schema as a [`Schema`].
//!
//! Every keyword that restricts values becomes a part; a schema with several parts is an `AllOf`. Keywords without a
//! `type` beside them imply one: `properties` means an object.

use std::collections::HashSet;

use serde_json::Number;

use super::Reader;
use super::place::Place;
use crate::error::ApiError;
use crate::json::Json;
use crate::schema::{
    ArrayShape, Bound, Member, NumberShape, ObjectShape, Schema, Shape, StringShape,
};

const OBJECT_KEYWORDS: [&str; 6] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "maxProperties",
];
const ARRAY_KEYWORDS: [&str; 5] = ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"];
const NUMBER_KEYWORDS: [&str; 5] =
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const STRING_KEYWORDS: [&str; 3] = ["pattern", "minLength", "maxLength"];

/// Keywords that restrict values and have no place in the model.
const OPAQUE_KEYWORDS: [&str; 12] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
];

impl<'a> Reader<'a> {
    /// Reads the schema at a place.
    pub(super) fn schema(&mut self, place: &Place<'a>) -> Result<Schema, ApiError> {
        match place.value {
            Json::Bool(true) => return Ok(Schema::new(Shape::Any)),
            Json::Bool(false) => return Ok(Schema::new(Shape::Never)),
            Json::Object(_) => {}
            other => {
                let found = other.kind();
                return Err(place.error(format!("expected a schema, found {found}")));
            }
        }
        let mut parts = Vec::new();
        if let Some(reference) = place.member("$ref") {
            parts.push(Shape::Ref(self.reference(place, &reference)?));
        }
        parts.extend(self.own_types(place)?);
        for keyword in ["oneOf", "anyOf"] {
            if let Some(list) = place.member(keyword) {
                parts.push(joined(self.schemas(&list)?, Shape::AnyOf));
            }
        }
        if let Some(list) = place.member("allOf") {
            parts.push(joined(self.schemas(&list)?, Shape::AllOf));
        }
        for keyword in OPAQUE_KEYWORDS {
            if let Some(value) = place.value.get(keyword) {
                parts.push(Shape::Opaque(keyword.to_owned(), value.clone()));
            }
        }
        parts.retain(|part| *part != Shape::Any);
        let shape = match parts.len() {
            0 => Shape::Any,
            1 => parts.remove(0),
            _ => joined(parts.into_iter().map(Schema::new).collect(), Shape::AllOf),
        };
        let shape = match place.member_flag("nullable")? {
            true => with_null(shape),
            false => shape,
        };
        Ok(Schema {
            title: place.member_text("title")?,
            description: place.member_text("description")?,
            default: place.value.get("default").cloned(),
            examples: match place.value.get("examples") {
                Some(Json::Array(examples)) => examples.clone(),
                _ => place.value.get("example").cloned().into_iter().collect(),
            },
            is_deprecated: place.member_flag("deprecated")?,
            shape,
        })
    }

    fn schemas(&mut self, list: &Place<'a>) -> Result<Vec<Schema>, ApiError> {
        let entries = list.entries()?;
        if entries.is_empty() {
            return Err(list.error("expected at least one schema"));
        }
        entries.iter().map(|entry| self.schema(entry)).collect()
    }

    /// The part of `enum`, `const` or `type`, with the keywords that belong to it.
    fn own_types(&mut self, place: &Place<'a>) -> Result<Option<Shape>, ApiError> {
        if let Some(value) = place.value.get("const") {
            return Ok(Some(Shape::Enum(vec![value.clone()])));
        }
        if let Some(list) = place.member("enum") {
            let values: Vec<Json> = list.entries()?.iter().map(|it| it.value.clone()).collect();
            return Ok(Some(if values.is_empty() { Shape::Never } else { Shape::Enum(values) }));
        }
        let given = match place.member("type") {
            None => {
                return implied(place).map(|name| self.own_type(place, place, name)).transpose();
            }
            Some(list) if list.value.as_array().is_some() => list.entries()?,
            Some(name) => vec![name],
        };
        let mut types = Vec::new();
        for at in given {
            types.push(Schema::new(self.own_type(place, &at, &at.text()?)?));
        }
        Ok((!types.is_empty()).then(|| joined(types, Shape::AnyOf)))
    }

    fn own_type(
        &mut self,
        place: &Place<'a>,
        at: &Place<'a>,
        name: &str,
    ) -> Result<Shape, ApiError> {
        Ok(match name {
            "null" => Shape::Null,
            "boolean" => Shape::Boolean,
            "string" => Shape::String(string(place)?),
            "integer" => Shape::Number(number(place, true)?),
            "number" => Shape::Number(number(place, false)?),
            "array" => Shape::Array(self.array(place)?),
            "object" => Shape::Object(self.object(place)?),
            "any" => Shape::Any,
            _ => {
                return Err(at.error(format!(
                    "`{name}` is not a type: expected null, boolean, string, integer, number, array or object"
                )));
            }
        })
    }

    fn array(&mut self, place: &Place<'a>) -> Result<ArrayShape, ApiError> {
        let (items, prefix) = (place.member("items"), place.member("prefixItems"));
        // Before draft 2020-12, `items` could be a list, followed by `additionalItems`.
        let (prefix, items) = match items {
            Some(list) if list.value.as_array().is_some() => {
                (Some(list), place.member("additionalItems"))
            }
            items => (prefix, items),
        };
        let prefix = prefix.map_or(Ok(Vec::new()), |list| list.entries())?;
        Ok(ArrayShape {
            prefix: prefix.iter().map(|it| self.schema(it)).collect::<Result<_, _>>()?,
            items: items.map(|it| self.schema(&it).map(Box::new)).transpose()?,
            min_items: place.member_size("minItems")?,
            max_items: place.member_size("maxItems")?,
            is_unique: place.member_flag("uniqueItems")?,
        })
    }

    fn object(&mut self, place: &Place<'a>) -> Result<ObjectShape, ApiError> {
        // Draft 3 had `required: true` in the schema of a member. Some documents still have it; it is no list.
        let required = match place.member("required") {
            Some(it) if it.value.as_bool().is_none() => it.entries()?,
            _ => Vec::new(),
        };
        let required = required.iter().map(|it| it.text()).collect::<Result<Vec<_>, _>>()?;
        let names: HashSet<&str> = required.iter().map(String::as_str).collect();
        let mut members = Vec::new();
        for (name, schema) in self.named_schemas(place, "properties")? {
            let is_required = names.contains(name.as_str());
            members.push(Member { name, is_required, schema });
        }
        let known: HashSet<String> = members.iter().map(|it| it.name.clone()).collect();
        let mut listed = HashSet::new();
        for name in required.into_iter().filter(|name| !known.contains(name)) {
            if listed.insert(name.clone()) {
                members.push(Member { name, is_required: true, schema: Schema::new(Shape::Any) });
            }
        }
        let additional = place.member("additionalProperties");
        Ok(ObjectShape {
            members,
            patterns: self.named_schemas(place, "patternProperties")?,
            additional: additional.map(|it| self.schema(&it).map(Box::new)).transpose()?,
            min_members: place.member_size("minProperties")?,
            max_members: place.member_size("maxProperties")?,
        })
    }

    fn named_schemas(
        &mut self,
        place: &Place<'a>,
        keyword: &str,
    ) -> Result<Vec<(String, Schema)>, ApiError> {
        let Some(list) = place.member(keyword) else { return Ok(Vec::new()) };
        let read = |(name, value): (&str, &'a Json)| {
            Ok((name.to_owned(), self.schema(&list.child(name, value))?))
        };
        list.object()?.iter().map(read).collect()
    }
}

/// The type that keywords imply.
fn implied(place: &Place<'_>) -> Option<&'static str> {
    let types: [(&str, &[&str]); 4] = [
        ("object", &OBJECT_KEYWORDS),
        ("array", &ARRAY_KEYWORDS),
        ("number", &NUMBER_KEYWORDS),
        ("string", &STRING_KEYWORDS),
    ];
    let has = |keywords: &[&str]| keywords.iter().any(|it| place.value.get(it).is_some());
    types.into_iter().find(|(_, keywords)| has(keywords)).map(|(name, _)| name)
}

fn string(place: &Place<'_>) -> Result<StringShape, ApiError> {
    Ok(StringShape {
        format: place.member_text("format")?,
        pattern: place.member_text("pattern")?,
        min_length: place.member_size("minLength")?,
        max_length: place.member_size("maxLength")?,
    })
}

fn number(place: &Place<'_>, is_integer: bool) -> Result<NumberShape, ApiError> {
    let value = |name: &str| -> Result<Option<Number>, ApiError> {
        match place.member(name) {
            // Draft 4 had `exclusiveMinimum: true` beside `minimum`.
            None => Ok(None),
            Some(it) if it.value.as_bool().is_some() => Ok(None),
            Some(it) => match it.value.as_number() {
                Some(number) => Ok(Some(number.clone())),
                None => Err(it.error(format!("expected a number, found {}", it.value.kind()))),
            },
        }
    };
    let bound = |name: &str, exclusive: &str, is_tighter: fn(f64, f64) -> bool| {
        let is_flagged = place.value.get(exclusive).and_then(Json::as_bool) == Some(true);
        let plain = value(name)?.map(|value| Bound { value, is_exclusive: is_flagged });
        let exclusive = value(exclusive)?.map(|value| Bound { value, is_exclusive: true });
        let number = |bound: &Bound| bound.value.as_f64().unwrap_or_default();
        Ok::<_, ApiError>(match (plain, exclusive) {
            (Some(a), Some(b)) if is_tighter(number(&a), number(&b)) => Some(a),
            (a, b) => b.or(a),
        })
    };
    Ok(NumberShape {
        is_integer,
        format: place.member_text("format")?,
        minimum: bound("minimum", "exclusiveMinimum", |a, b| a > b)?,
        maximum: bound("maximum", "exclusiveMaximum", |a, b| a < b)?,
        multiple_of: value("multipleOf")?,
    })
}

/// One type as it is, several as a list of them. Lists of the same kind in the list are joined with it.
fn joined(types: Vec<Schema>, list: fn(Vec<Schema>) -> Shape) -> Shape {
    let mut flat = Vec::new();
    for schema in types {
        let is_same =
            std::mem::discriminant(&schema.shape) == std::mem::discriminant(&list(Vec::new()));
        match schema.shape {
            Shape::AnyOf(inner) | Shape::AllOf(inner)
                if is_same && is_bare(&schema.title, &schema.description) =>
            {
                flat.extend(inner);
            }
            shape => flat.push(Schema { shape, ..schema }),
        }
    }
    match flat.len() {
        1 => flat.remove(0).shape,
        _ => list(flat),
    }
}

fn is_bare(title: &Option<String>, description: &Option<String>) -> bool {
    title.is_none() && description.is_none()
}

fn with_null(shape: Shape) -> Shape {
    let null = Schema::new(Shape::Null);
    match shape {
        Shape::Any | Shape::Null => shape,
        Shape::AnyOf(types) if types.contains(&null) => Shape::AnyOf(types),
        Shape::AnyOf(mut types) => {
            types.push(null);
            Shape::AnyOf(types)
        }
        shape => Shape::AnyOf(vec![Schema::new(shape), null]),
    }
}
