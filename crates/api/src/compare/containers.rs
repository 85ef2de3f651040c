//! Compares arrays and objects.

use std::collections::HashMap;

use super::limits;
use super::types::{Effect, Types};
use crate::schema::{ArrayShape, Member, ObjectShape, Schema, Shape};

pub(super) fn array(types: &mut Types<'_>, old: &ArrayShape, new: &ArrayShape, path: &str) {
    limits::array(types, old, new, path);
    let any = Schema::new(Shape::Any);
    let rest = |array: &ArrayShape| array.items.as_deref().cloned().unwrap_or_else(|| any.clone());
    let (old_rest, new_rest) = (rest(old), rest(new));
    let count = old.prefix.len().max(new.prefix.len());
    for at in 0..count {
        let (a, b) = (old.prefix.get(at), new.prefix.get(at));
        types.walk(a.unwrap_or(&old_rest), b.unwrap_or(&new_rest), &format!("{path}[{at}]"));
    }
    // Entries that neither can have need no comparison.
    let is_over = |it: &ArrayShape| limits::most_items(it).is_some_and(|most| most <= count as u64);
    if count == 0 || !(is_over(old) && is_over(new)) {
        types.walk(&old_rest, &new_rest, &format!("{path}[]"));
    }
}

pub(super) fn object(types: &mut Types<'_>, old: &ObjectShape, new: &ObjectShape, path: &str) {
    limits::object(types, old, new, path);
    let in_old: HashMap<&str, &Member> =
        old.members.iter().map(|it| (it.name.as_str(), it)).collect();
    let in_new: HashMap<&str, &Member> =
        new.members.iter().map(|it| (it.name.as_str(), it)).collect();
    for a in &old.members {
        let path = format!("{path}.{}", a.name);
        match (in_new.get(a.name.as_str()), others(new)) {
            (Some(b), _) => types.member(a, b, &path),
            (None, Some(others)) => types.member(a, &unnamed(others), &path),
            (None, None) => types.removed("member", a.is_required, &path),
        }
    }
    for b in new.members.iter().filter(|it| !in_old.contains_key(it.name.as_str())) {
        let path = format!("{path}.{}", b.name);
        let is_closed = old.additional.as_ref().is_some_and(|it| it.shape == Shape::Never);
        match others(old) {
            Some(others) => types.member(&unnamed(others), b, &path),
            None => types.added("member", b.is_required, is_closed, &path),
        }
    }
    patterns(types, old, new, path);
    let open = Schema::new(Shape::Any);
    let (a, b) = (old.additional.as_deref(), new.additional.as_deref());
    let (a, b) = (a.unwrap_or(&open), b.unwrap_or(&open));
    match (&a.shape, &b.shape) {
        (Shape::Any | Shape::Never, Shape::Never) if a.shape != b.shape => {
            types.values(Effect::Narrower, path, "other members are refused now".to_owned());
        }
        (Shape::Never, _) if b.shape != Shape::Never => {
            types.values(Effect::Wider, path, "other members are allowed now".to_owned());
        }
        _ => types.walk(a, b, &format!("{path}[name]")),
    }
}

/// The type of members without a name of their own, if it says anything.
fn others(object: &ObjectShape) -> Option<&Schema> {
    object.additional.as_deref().filter(|it| !matches!(it.shape, Shape::Any | Shape::Never))
}

/// A member without a name of its own. It may be missing.
fn unnamed(schema: &Schema) -> Member {
    Member { name: String::new(), is_required: false, schema: schema.clone() }
}

fn patterns(types: &mut Types<'_>, old: &ObjectShape, new: &ObjectShape, path: &str) {
    let find = |list: &[(String, Schema)], name: &str| {
        list.iter().find(|(pattern, _)| pattern == name).map(|(_, schema)| schema.clone())
    };
    for (pattern, a) in &old.patterns {
        match find(&new.patterns, pattern) {
            Some(b) => types.walk(a, &b, &format!("{path}[/{pattern}/]")),
            None => types.values(
                Effect::Different,
                path,
                format!("the pattern `{pattern}` was removed"),
            ),
        }
    }
    for (pattern, _) in &new.patterns {
        if find(&old.patterns, pattern).is_none() {
            types.values(Effect::Different, path, format!("the pattern `{pattern}` is new"));
        }
    }
}
