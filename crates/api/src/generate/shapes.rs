//! Questions about types that every language asks.

use std::collections::HashSet;

use crate::json::Json;
use crate::model::Document;
use crate::schema::{ArrayShape, ObjectShape, Schema, Shape};

/// Alternatives of a type, after which a compiler takes too long to combine it with another one, or refuses.
const MAX_ALTERNATIVES: usize = 1_000;

/// Types that the count of alternatives looks at.
const MAX_STEPS: u32 = 10_000;

/// The entries of an array after those with a type of their own.
pub(super) enum Rest<'a> {
    /// There are none.
    Closed,
    /// They may be anything.
    Any,
    Of(&'a Schema),
}

pub(super) fn rest(array: &ArrayShape) -> Rest<'_> {
    let most = array.max_items.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    let is_full = most.is_some_and(|most| most <= array.prefix.len());
    match &array.items {
        _ if array.prefix.is_empty() => array.items.as_deref().map_or(Rest::Any, Rest::Of),
        _ if is_full => Rest::Closed,
        Some(items) if items.shape == Shape::Never => Rest::Closed,
        Some(items) => Rest::Of(items),
        None => Rest::Any,
    }
}

/// The object that a type with a name is, if it has members. A reference to another type is not followed.
pub(super) fn own_object(document: &Document, schema: &Schema) -> Option<ObjectShape> {
    match &schema.shape {
        Shape::Object(_) | Shape::AllOf(_) => document.as_object(schema),
        _ => None,
    }
}

/// True if no value is valid.
pub(super) fn is_never(document: &Document, schema: &Schema) -> bool {
    alternatives(document, schema, &mut MAX_STEPS.clone()) == 0
}

/// True if every value is an object or an array, as JSON-RPC requires of params.
pub(super) fn is_structured(document: &Document, schema: &Schema) -> bool {
    match &document.resolve(schema).shape {
        Shape::Any | Shape::Array(_) | Shape::Object(_) => true,
        Shape::AllOf(_) => document.as_object(schema).is_some(),
        _ => false,
    }
}

/// The parts of an `allOf` that a language can combine: the values of all enums as one enum, and further alternatives
/// only while there are few.
pub(super) fn combinable(document: &Document, parts: &[Schema]) -> Vec<Schema> {
    let (mut others, mut count) = (Vec::new(), 1_usize);
    let is_enum = |part: &&Schema| matches!(document.resolve(part).shape, Shape::Enum(_));
    for part in parts.iter().filter(|part| !is_enum(part)) {
        let alternatives = alternatives(document, part, &mut MAX_STEPS.clone());
        // Without a part, the type is wider, which is right for every value.
        if alternatives <= 1 || count.saturating_mul(alternatives) <= MAX_ALTERNATIVES {
            count = count.saturating_mul(alternatives.max(1));
            others.push(part.clone());
        }
    }
    let Some(values) = common_values(document, parts) else { return others };
    if count.saturating_mul(values.len()) > MAX_ALTERNATIVES {
        others.clear();
    }
    let shape = if values.is_empty() { Shape::Never } else { Shape::Enum(values) };
    others.insert(0, Schema::new(shape));
    others
}

/// The values that all enums of an `allOf` have; `None` if there is no enum.
fn common_values(document: &Document, parts: &[Schema]) -> Option<Vec<Json>> {
    let enums = parts.iter().filter_map(|part| match &document.resolve(part).shape {
        Shape::Enum(values) => Some(values),
        _ => None,
    });
    let mut found: Option<Vec<Json>> = None;
    for values in enums {
        found = Some(match found {
            None => values.clone(),
            Some(known) => common(known, values),
        });
    }
    found
}

fn common(values: Vec<Json>, others: &[Json]) -> Vec<Json> {
    let others: HashSet<String> = others.iter().map(Json::to_string).collect();
    values.into_iter().filter(|value| others.contains(&value.to_string())).collect()
}

/// The number of alternatives; none if no value is valid, and the largest number if there are too many types.
fn alternatives(document: &Document, schema: &Schema, steps: &mut u32) -> usize {
    *steps = steps.saturating_sub(1);
    if *steps == 0 {
        return usize::MAX;
    }
    let schema = document.resolve(schema);
    match &schema.shape {
        Shape::Never => 0,
        Shape::Enum(values) => values.len(),
        Shape::AnyOf(parts) => parts
            .iter()
            .fold(0, |sum, part| sum.saturating_add(alternatives(document, part, steps))),
        Shape::AllOf(_) if document.as_object(schema).is_some() => 1,
        Shape::AllOf(parts) => {
            let values = common_values(document, parts).map_or(1, |values| values.len().min(1));
            parts.iter().fold(values, |product, part| {
                product.saturating_mul(alternatives(document, part, steps))
            })
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> (Document, Schema) {
        let text = format!(
            r#"{{"openrpc":"1.3.2","info":{{"title":"","version":""}},"methods":[
                {{"name":"m","result":{{"name":"r","schema":{text}}}}}]}}"#
        );
        let document = Document::read(text.as_bytes()).expect("a document");
        let schema = document.methods[0].result.clone().expect("a result").schema;
        (document, schema)
    }

    #[test]
    fn a8_parts_of_all_of_stay_small() {
        let many = |from: usize| {
            let values: Vec<String> = (from..from + 400).map(|it| it.to_string()).collect();
            format!(r#"{{"enum":[{}]}}"#, values.join(","))
        };
        let objects = |name: &str| {
            let types: Vec<String> =
                (0..400).map(|it| format!(r#"{{"properties":{{"{name}{it}":{{}}}}}}"#)).collect();
            format!(r#"{{"anyOf":[{}]}}"#, types.join(","))
        };
        // The type, and the number of parts and values that are left.
        let rows = [
            (format!(r#"{{"allOf":[{},{}]}}"#, many(0), many(398)), 1, 2),
            (format!(r#"{{"allOf":[{},{}]}}"#, many(0), many(400)), 1, 0),
            (format!(r#"{{"allOf":[{},{}]}}"#, objects("a"), objects("b")), 1, 0),
            (r#"{"allOf":[{"type":"string"},{"enum":["a"]},{"not":{}}]}"#.to_owned(), 3, 1),
        ];
        for (text, parts, values) in rows {
            let (document, schema) = schema(&text);
            let Shape::AllOf(all) = &schema.shape else { panic!("{schema:?}") };
            let left = combinable(&document, all);
            assert_eq!(left.len(), parts, "{left:?}");
            let count = |it: &Schema| match &it.shape {
                Shape::Enum(values) => values.len(),
                _ => 0,
            };
            assert_eq!(left.iter().map(count).sum::<usize>(), values);
        }
    }
}
