//! Compares ranges, lengths, formats and patterns.

use std::cmp::Ordering;

use serde_json::Number;

use super::types::{Effect, Types};
use crate::schema::{ArrayShape, Bound, NumberShape, ObjectShape, Shape, StringShape};

pub(super) fn number(types: &mut Types<'_>, old: &NumberShape, new: &NumberShape, path: &str) {
    let (old, new) = (&regular(old, &new.format), &regular(new, &old.format));
    let kind = |it: &NumberShape| if it.is_integer { "integer" } else { "number" };
    let changed =
        |effect| (effect, format!("the type changed from `{}` to `{}`", kind(old), kind(new)));
    let kinds = match (old.is_integer, new.is_integer) {
        (true, false) => Some(changed(Effect::Wider)),
        (false, true) => Some(changed(Effect::Narrower)),
        _ => None,
    };
    if let Some((effect, text)) = kinds {
        types.values(effect, path, text);
    }
    bound(types, "minimum", &old.minimum, &new.minimum, Ordering::Less, path);
    bound(types, "maximum", &old.maximum, &new.maximum, Ordering::Greater, path);
    multiple(types, &old.multiple_of, &new.multiple_of, path);
    format(types, &old.format, &new.format, path);
}

/// Whole numbers in one form: without exclusive bounds, with the bounds of a format that both types have, and without
/// a divisor of 1.
fn regular(shape: &NumberShape, other_format: &Option<String>) -> NumberShape {
    let mut shape = shape.clone();
    if shape.multiple_of.as_ref().is_some_and(|it| float(it) == 1.0) {
        (shape.is_integer, shape.multiple_of) = (true, None);
    }
    if shape.is_integer {
        for (bound, step) in [(&mut shape.minimum, 1), (&mut shape.maximum, -1)] {
            let inside = |it: &Bound| it.value.as_i64().and_then(|value| value.checked_add(step));
            if let Some(value) = bound.as_ref().filter(|it| it.is_exclusive).and_then(inside) {
                *bound = Some(Bound { value: value.into(), is_exclusive: false });
            }
        }
    }
    if shape.format == *other_format
        && let Some((least, most)) = shape.format.as_deref().and_then(range)
    {
        let bound = |value: Number| Some(Bound { value, is_exclusive: false });
        shape.minimum = tighter(&shape.minimum, &bound(least), Ordering::Greater);
        shape.maximum = tighter(&shape.maximum, &bound(most), Ordering::Less);
    }
    shape
}

/// The numbers of a format.
fn range(format: &str) -> Option<(Number, Number)> {
    Some(match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" => (i64::MIN.into(), i64::MAX.into()),
        "uint8" => (0.into(), u8::MAX.into()),
        "uint16" => (0.into(), u16::MAX.into()),
        "uint32" => (0.into(), u32::MAX.into()),
        "uint64" => (0.into(), u64::MAX.into()),
        _ => return None,
    })
}

/// The bound that allows fewer values. `inside` is the order of a value further inside to one further outside.
pub(super) fn tighter(a: &Option<Bound>, b: &Option<Bound>, inside: Ordering) -> Option<Bound> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let order = compared(&a.value, &b.value);
            let is_a = order == inside || (order == Ordering::Equal && a.is_exclusive);
            Some(if is_a { a.clone() } else { b.clone() })
        }
        (a, b) => a.clone().or_else(|| b.clone()),
    }
}

/// True if a number is one of the type, as far as its limits say.
pub(super) fn has_number(shape: &NumberShape, number: &Number) -> bool {
    let is_inside = |bound: &Option<Bound>, inside: Ordering| match bound {
        None => true,
        Some(bound) => match compared(number, &bound.value) {
            Ordering::Equal => !bound.is_exclusive,
            order => order == inside,
        },
    };
    let is_multiple = |it: &Number| float(it) == 0.0 || float(number) % float(it) == 0.0;
    (!shape.is_integer || float(number).fract() == 0.0)
        && is_inside(&shape.minimum, Ordering::Greater)
        && is_inside(&shape.maximum, Ordering::Less)
        && shape.multiple_of.as_ref().is_none_or(is_multiple)
}

/// True if a string is one of the type, as far as its length says.
pub(super) fn has_string(shape: &StringShape, text: &str) -> bool {
    let length = text.chars().count() as u64;
    shape.min_length.is_none_or(|least| length >= least)
        && shape.max_length.is_none_or(|most| length <= most)
}

pub(super) fn string(types: &mut Types<'_>, old: &StringShape, new: &StringShape, path: &str) {
    least(types, "minLength", old.min_length, new.min_length, path);
    most(types, "maxLength", old.max_length, new.max_length, path);
    format(types, &old.format, &new.format, path);
    match (&old.pattern, &new.pattern) {
        (a, b) if a == b => {}
        (None, Some(b)) => {
            types.values(Effect::Narrower, path, format!("the pattern `{b}` is new"));
        }
        (Some(a), None) => {
            types.values(Effect::Wider, path, format!("the pattern `{a}` was removed"));
        }
        (Some(a), Some(b)) => {
            types.values(
                Effect::Different,
                path,
                format!("the pattern changed from `{a}` to `{b}`"),
            );
        }
        (None, None) => {}
    }
}

pub(super) fn array(types: &mut Types<'_>, old: &ArrayShape, new: &ArrayShape, path: &str) {
    least(types, "minItems", old.min_items, new.min_items, path);
    most(types, "maxItems", most_items(old), most_items(new), path);
    match (old.is_unique, new.is_unique) {
        (false, true) => {
            types.values(Effect::Narrower, path, "duplicates are refused now".to_owned());
        }
        (true, false) => types.values(Effect::Wider, path, "duplicates are allowed now".to_owned()),
        _ => {}
    }
}

pub(super) fn object(types: &mut Types<'_>, old: &ObjectShape, new: &ObjectShape, path: &str) {
    least(types, "minProperties", old.min_members, new.min_members, path);
    most(types, "maxProperties", old.max_members, new.max_members, path);
}

/// The largest number of entries. An array without further entries ends with those that have a type of their own.
pub(super) fn most_items(array: &ArrayShape) -> Option<u64> {
    let is_closed = array.items.as_ref().is_some_and(|it| it.shape == Shape::Never);
    let own = is_closed.then_some(array.prefix.len() as u64);
    [array.max_items, own].into_iter().flatten().min()
}

fn least(types: &mut Types<'_>, name: &str, old: Option<u64>, new: Option<u64>, path: &str) {
    let (a, b) = (old.unwrap_or(0), new.unwrap_or(0));
    if a != b {
        let effect = if b > a { Effect::Narrower } else { Effect::Wider };
        types.values(effect, path, format!("`{name}` changed from {a} to {b}"));
    }
}

fn most(types: &mut Types<'_>, name: &str, old: Option<u64>, new: Option<u64>, path: &str) {
    let (effect, text) = match (old, new) {
        (None, Some(b)) => (Effect::Narrower, format!("`{name}` is {b} now; there was no limit")),
        (Some(a), None) => (Effect::Wider, format!("`{name}` was {a}; there is no limit now")),
        (Some(a), Some(b)) if a != b => {
            let effect = if b < a { Effect::Narrower } else { Effect::Wider };
            (effect, format!("`{name}` changed from {a} to {b}"))
        }
        _ => return,
    };
    types.values(effect, path, text);
}

/// Compares the ends of a range. `outside` is the order of a value further outside to one further inside.
fn bound(
    types: &mut Types<'_>,
    name: &str,
    old: &Option<Bound>,
    new: &Option<Bound>,
    outside: Ordering,
    path: &str,
) {
    let shown = |it: &Bound| match it.is_exclusive {
        true => format!("{} (exclusive)", it.value),
        false => it.value.to_string(),
    };
    let (effect, text) = match (old, new) {
        (None, Some(b)) => {
            (Effect::Narrower, format!("the {name} is {} now; there was none", shown(b)))
        }
        (Some(a), None) => {
            (Effect::Wider, format!("the {name} was {}; there is none now", shown(a)))
        }
        (Some(a), Some(b)) if a != b => {
            let order = compared(&a.value, &b.value);
            let is_narrower = order == outside || (order == Ordering::Equal && b.is_exclusive);
            let effect = if is_narrower { Effect::Narrower } else { Effect::Wider };
            (effect, format!("the {name} changed from {} to {}", shown(a), shown(b)))
        }
        _ => return,
    };
    types.values(effect, path, text);
}

fn multiple(types: &mut Types<'_>, old: &Option<Number>, new: &Option<Number>, path: &str) {
    let (effect, text) = match (old, new) {
        (None, Some(b)) => (Effect::Narrower, format!("must be a multiple of {b} now")),
        (Some(a), None) => (Effect::Wider, format!("no longer has to be a multiple of {a}")),
        (Some(a), Some(b)) if a != b => {
            let (x, y) = (float(a), float(b));
            let effect = match (x % y == 0.0, y % x == 0.0) {
                (true, _) => Effect::Wider,
                (_, true) => Effect::Narrower,
                _ => Effect::Different,
            };
            (effect, format!("must be a multiple of {b} now, not of {a}"))
        }
        _ => return,
    };
    types.values(effect, path, text);
}

fn format(types: &mut Types<'_>, old: &Option<String>, new: &Option<String>, path: &str) {
    let (effect, text) = match (old, new) {
        (None, Some(b)) => (Effect::Narrower, format!("the format `{b}` is new")),
        (Some(a), None) => (Effect::Wider, format!("the format `{a}` was removed")),
        (Some(a), Some(b)) if a != b => {
            let effect = match (contains(b, a), contains(a, b)) {
                (true, _) => Effect::Wider,
                (_, true) => Effect::Narrower,
                _ => Effect::Different,
            };
            (effect, format!("the format changed from `{a}` to `{b}`"))
        }
        _ => return,
    };
    types.values(effect, path, text);
}

/// True if every value of the second format is one of the first.
fn contains(wide: &str, narrow: &str) -> bool {
    const SIGNED: [&str; 5] = ["int8", "int16", "int32", "int64", "int128"];
    const UNSIGNED: [&str; 5] = ["uint8", "uint16", "uint32", "uint64", "uint128"];
    const FLOATS: [&str; 2] = ["float", "double"];
    let rank = |list: &[&str], name: &str| list.iter().position(|it| *it == name);
    let in_list =
        |list: &[&str]| rank(list, wide).zip(rank(list, narrow)).is_some_and(|(a, b)| a >= b);
    let signs = rank(&SIGNED, wide).zip(rank(&UNSIGNED, narrow));
    in_list(&SIGNED) || in_list(&UNSIGNED) || in_list(&FLOATS) || signs.is_some_and(|(a, b)| a > b)
}

/// The order of two numbers. Whole ones are not rounded.
fn compared(a: &Number, b: &Number) -> Ordering {
    let whole = |it: &Number| it.as_i64().map(i128::from).or(it.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => float(a).total_cmp(&float(b)),
    }
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}
