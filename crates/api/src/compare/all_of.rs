//! Compares types with several parts (`allOf`).
//!
//! Objects are joined to one object, and limits of strings and numbers to one string or number, so that it does not
//! matter how a document divides them. The other parts are paired by kind.

use std::mem::discriminant;

use super::types::{Effect, Types};
use super::{containers, limits};
use crate::model::Document;
use crate::schema::{NumberShape, Schema, Shape, StringShape};

pub(super) fn walk(types: &mut Types<'_>, old: &Schema, new: &Schema, path: &str) {
    if let (Some(a), Some(b)) = (types.old.as_object(old), types.new.as_object(new)) {
        return containers::object(types, &a, &b, path);
    }
    let (mut old_parts, mut new_parts) = (parts(types.old, old), parts(types.new, new));
    let mut at = 0;
    while at < old_parts.len() {
        let kind = kind(types.old, &old_parts[at]);
        match new_parts.iter().position(|it| self::kind(types.new, it) == kind) {
            None => at += 1,
            Some(other) => {
                let (a, b) = (old_parts.remove(at), new_parts.remove(other));
                types.walk(&a, &b, path);
            }
        }
    }
    for part in old_parts {
        let text = format!("`{}` is no longer a condition", types.old.type_text(&part));
        types.values(Effect::Wider, path, text);
    }
    for part in new_parts {
        let text = format!("`{}` is a new condition", types.new.type_text(&part));
        types.values(Effect::Narrower, path, text);
    }
}

/// The parts of a type, with those of the same kind as one where that is possible.
fn parts(document: &Document, schema: &Schema) -> Vec<Schema> {
    let Shape::AllOf(parts) = &schema.shape else { return vec![schema.clone()] };
    let mut found: Vec<Schema> = Vec::new();
    for part in parts {
        let shape = &document.resolve(part).shape;
        let joined = found.iter_mut().any(|known| match joined(&known.shape, shape) {
            Some(shape) => {
                known.shape = shape;
                true
            }
            None => false,
        });
        match shape {
            _ if joined => {}
            // Their limits may be joined with those of a later part.
            Shape::Number(_) | Shape::String(_) => found.push(Schema::new(shape.clone())),
            _ => found.push(part.clone()),
        }
    }
    found
}

/// The values that both types allow, if there is a simple type for them.
fn joined(a: &Shape, b: &Shape) -> Option<Shape> {
    match (a, b) {
        (Shape::String(a), Shape::String(b)) => Some(Shape::String(StringShape {
            format: one_of(&a.format, &b.format)?,
            pattern: one_of(&a.pattern, &b.pattern)?,
            min_length: a.min_length.max(b.min_length),
            max_length: [a.max_length, b.max_length].into_iter().flatten().min(),
        })),
        (Shape::Number(a), Shape::Number(b)) => Some(Shape::Number(NumberShape {
            is_integer: a.is_integer || b.is_integer,
            format: one_of(&a.format, &b.format)?,
            minimum: limits::tighter(&a.minimum, &b.minimum, std::cmp::Ordering::Greater),
            maximum: limits::tighter(&a.maximum, &b.maximum, std::cmp::Ordering::Less),
            multiple_of: one_of(&a.multiple_of, &b.multiple_of)?,
        })),
        _ => None,
    }
}

/// The value that one of them has, or both.
fn one_of<T: Clone + PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<Option<T>> {
    (a.is_none() || b.is_none() || a == b).then(|| a.clone().or_else(|| b.clone()))
}

fn kind(document: &Document, schema: &Schema) -> (std::mem::Discriminant<Shape>, String) {
    let schema = document.resolve(schema);
    let keyword = match &schema.shape {
        Shape::Opaque(keyword, _) => keyword.clone(),
        _ => String::new(),
    };
    (discriminant(&schema.shape), keyword)
}
