//! Compares types with alternatives, and enums.
//!
//! Both sides become a list of plain types and a set of single values (of enums; `null` is one). Types are paired by name,
//! then by kind and tag. A type without a partner is no change if another one of the other side covers it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::limits;
use super::types::{Effect, Flow, Types};
use crate::json::Json;
use crate::model::Document;
use crate::schema::{Schema, Shape, TypeId};

/// Values that one message names.
const MAX_NAMED: usize = 5;

static BOOLEAN: Schema = Schema {
    title: None,
    description: None,
    default: None,
    examples: Vec::new(),
    is_deprecated: false,
    shape: Shape::Boolean,
};

#[derive(Default)]
struct Alternatives<'a> {
    types: Vec<Alternative<'a>>,
    values: Vec<Json>,
    seen: HashSet<TypeId>,
}

struct Alternative<'a> {
    /// As it stands in the list, perhaps a reference.
    listed: &'a Schema,
    resolved: &'a Schema,
}

impl<'a> Alternatives<'a> {
    fn add(&mut self, document: &'a Document, listed: &'a Schema) {
        let mut resolved = listed;
        while let Shape::Ref(id) = &resolved.shape {
            // A type that is listed twice adds nothing.
            if !self.seen.insert(*id) {
                return;
            }
            resolved = &document.named(*id).schema;
        }
        match &resolved.shape {
            Shape::AnyOf(types) => types.iter().for_each(|it| self.add(document, it)),
            Shape::Enum(values) => self.values.extend(values.iter().cloned()),
            Shape::Null => self.values.push(Json::Null),
            _ => self.types.push(Alternative { listed, resolved }),
        }
    }

    fn new(document: &'a Document, schema: &'a Schema) -> Self {
        let mut alternatives = Alternatives::default();
        alternatives.add(document, schema);
        // Both values are the whole type.
        let has = |value| alternatives.values.contains(&Json::Bool(value));
        if has(true) && has(false) {
            alternatives.values.retain(|it| !matches!(it, Json::Bool(_)));
            alternatives.types.push(Alternative { listed: &BOOLEAN, resolved: &BOOLEAN });
        }
        alternatives
    }

    fn allows(&self, value: &Json) -> bool {
        self.types.iter().any(|it| allows(it.resolved, value))
    }
}

/// Compares two types of which at least one has alternatives, or that are of different kinds.
pub(super) fn walk(types: &mut Types<'_>, old: &Schema, new: &Schema, path: &str) {
    let (old_document, new_document) = (types.old, types.new);
    let a = Alternatives::new(old_document, old);
    let b = Alternatives::new(new_document, new);
    let (old_left, new_left) = pair(types, &a, &b, path);
    values(types, &a, &b, path);
    let mut removed = Vec::new();
    for it in old_left {
        // Values of its kind that are left make it an enum.
        let is_enum =
            b.values.iter().any(|value| *value != Json::Null && is_of_kind(it.resolved, value));
        let is_covered = b.types.iter().any(|other| covers(types, it, other, true));
        if is_enum {
            let shown = named(b.values.iter().filter(|value| is_of_kind(it.resolved, value)));
            types.values(
                Effect::Narrower,
                path,
                format!("only these values are allowed now: {shown}"),
            );
        } else if !is_covered {
            removed.push(it);
        }
    }
    let mut added = Vec::new();
    for it in new_left {
        let was_enum =
            a.values.iter().any(|value| *value != Json::Null && is_of_kind(it.resolved, value));
        let is_covered = a.types.iter().any(|other| covers(types, other, it, false));
        if was_enum {
            let text = format!("every `{}` is allowed now", new_document.type_text(it.listed));
            types.values(Effect::Wider, path, text);
        } else if !is_covered {
            added.push(it);
        }
    }
    let is_replaced = !removed.is_empty() && !added.is_empty();
    if is_replaced {
        let list = |document: &Document, list: &[&Alternative<'_>]| {
            let texts = list.iter().take(MAX_NAMED).map(|it| document.type_text(it.listed));
            texts.collect::<Vec<_>>().join(" | ")
        };
        let (a, b) = (list(old_document, &removed), list(new_document, &added));
        types.values(Effect::Different, path, format!("the type changed from `{a}` to `{b}`"));
        return;
    }
    for it in removed {
        let text = format!("`{}` is no longer allowed", old_document.type_text(it.listed));
        types.values(Effect::Narrower, path, text);
    }
    for it in added {
        let text = format!("`{}` is allowed now", new_document.type_text(it.listed));
        types.values(Effect::Wider, path, text);
    }
}

/// True if values of one type are values of the other: of the new type, or else of the old one.
fn covers(
    types: &mut Types<'_>,
    old: &Alternative<'_>,
    new: &Alternative<'_>,
    by_new: bool,
) -> bool {
    let is_same_kind = kind_name(old).is_some_and(|name| kind_name(new) == Some(name));
    let flow = types.flow();
    types.set_flow(if by_new { Flow::ToNew } else { Flow::FromNew });
    let covers = is_same_kind && types.can_replace(old.resolved, new.resolved);
    types.set_flow(flow);
    covers
}

/// Compares the alternatives that belong together, and returns the others.
fn pair<'x, 'a>(
    types: &mut Types<'_>,
    a: &'x Alternatives<'a>,
    b: &'x Alternatives<'a>,
    path: &str,
) -> (Vec<&'x Alternative<'a>>, Vec<&'x Alternative<'a>>) {
    let (mut old_left, mut new_left): (Vec<_>, Vec<_>) =
        (a.types.iter().collect(), b.types.iter().collect());
    for key in [name_key, tag_key, text_key, kind_key] {
        let mut places: HashMap<String, VecDeque<usize>> = HashMap::new();
        for (at, it) in new_left.iter().enumerate() {
            if let Some(key) = key(types.new, it) {
                places.entry(key).or_default().push_back(at);
            }
        }
        let mut taken = HashSet::new();
        let mut rest = Vec::new();
        for it in old_left {
            let place = key(types.old, it).and_then(|key| places.get_mut(&key)?.pop_front());
            match place {
                None => rest.push(it),
                Some(at) => {
                    taken.insert(at);
                    types.walk(it.listed, new_left[at].listed, path);
                }
            }
        }
        old_left = rest;
        let left = new_left.into_iter().enumerate().filter(|(at, _)| !taken.contains(at));
        new_left = left.map(|(_, it)| it).collect();
    }
    (old_left, new_left)
}

/// Key of a type with a name.
fn name_key(document: &Document, it: &Alternative<'_>) -> Option<String> {
    match &it.listed.shape {
        Shape::Ref(id) => Some(format!("{}{}", kind_name(it)?, document.named(*id).name)),
        _ => None,
    }
}

/// Key of an object with a tag: a member that has one value.
fn tag_key(document: &Document, it: &Alternative<'_>) -> Option<String> {
    let object = document.as_object(it.resolved)?;
    let tag = |schema: &Schema| match &document.resolve(schema).shape {
        Shape::Enum(values) if values.len() == 1 => Some(values[0].to_string()),
        _ => None,
    };
    let mut tags: Vec<String> = object
        .members
        .iter()
        .filter_map(|member| Some(format!("{}={}", member.name, tag(&member.schema)?)))
        .collect();
    tags.sort_unstable();
    (!tags.is_empty()).then(|| tags.join("&"))
}

/// Key of a type as it is written.
fn text_key(document: &Document, it: &Alternative<'_>) -> Option<String> {
    match tag_key(document, it) {
        Some(_) => None,
        None => {
            Some(format!("{} {}", document.type_text(it.listed), document.limits_text(it.resolved)))
        }
    }
}

/// Key of the kind alone. Objects with a tag are different alternatives, whatever else they have.
fn kind_key(document: &Document, it: &Alternative<'_>) -> Option<String> {
    match tag_key(document, it) {
        Some(_) => None,
        None => kind_name(it).map(str::to_owned),
    }
}

fn kind_name(it: &Alternative<'_>) -> Option<&'static str> {
    Some(match &it.resolved.shape {
        Shape::Any => "any",
        Shape::Never => "never",
        Shape::Boolean => "boolean",
        Shape::Number(_) => "number",
        Shape::String(_) => "string",
        Shape::Array(_) => "array",
        Shape::Object(_) | Shape::AllOf(_) => "object",
        _ => return None,
    })
}

/// True if a value is of the kind of a type.
fn is_of_kind(schema: &Schema, value: &Json) -> bool {
    match (&schema.shape, value) {
        (Shape::Any, _) | (Shape::Null, Json::Null) | (Shape::Boolean, Json::Bool(_)) => true,
        (Shape::String(_), Json::String(_)) => true,
        (Shape::Array(_), Json::Array(_)) | (Shape::Object(_), Json::Object(_)) => true,
        (Shape::Number(shape), Json::Number(number)) => !shape.is_integer || !number.is_f64(),
        _ => false,
    }
}

/// True if a type allows this value. Patterns are not tried, so a value may not match one.
fn allows(schema: &Schema, value: &Json) -> bool {
    match (&schema.shape, value) {
        (Shape::String(shape), Json::String(text)) => {
            shape.pattern.is_none() && limits::has_string(shape, text)
        }
        (Shape::Number(shape), Json::Number(number)) => limits::has_number(shape, number),
        _ => is_of_kind(schema, value),
    }
}

/// Compares single values.
fn values(types: &mut Types<'_>, a: &Alternatives<'_>, b: &Alternatives<'_>, path: &str) {
    let texts = |list: &[Json]| list.iter().map(Json::to_string).collect::<HashSet<_>>();
    let (in_old, in_new) = (texts(&a.values), texts(&b.values));
    let missing = |list: &[Json], known: &HashSet<String>, others: &Alternatives<'_>| {
        let is_missing =
            |value: &&Json| !known.contains(&value.to_string()) && !others.allows(value);
        list.iter().filter(is_missing).cloned().collect::<Vec<_>>()
    };
    let (mut removed, mut added) = (missing(&a.values, &in_new, b), missing(&b.values, &in_old, a));
    let has_null = |list: &mut Vec<Json>| {
        let before = list.len();
        list.retain(|it| *it != Json::Null);
        list.len() < before
    };
    if has_null(&mut removed) {
        types.values(Effect::Narrower, path, "null is no longer allowed".to_owned());
    }
    if has_null(&mut added) {
        types.values(Effect::Wider, path, "may be null now".to_owned());
    }
    if !removed.is_empty() {
        let what = if removed.len() == 1 { "this value is" } else { "these values are" };
        let text = format!("{what} no longer allowed: {}", named(removed.iter()));
        types.values(Effect::Narrower, path, text);
    }
    if !added.is_empty() {
        let what = if added.len() == 1 { "this value is" } else { "these values are" };
        types.values(Effect::Wider, path, format!("{what} new: {}", named(added.iter())));
    }
}

fn named<'j>(values: impl Iterator<Item = &'j Json>) -> String {
    let mut texts: Vec<String> = values.take(MAX_NAMED + 1).map(Json::to_string).collect();
    if texts.len() > MAX_NAMED {
        texts[MAX_NAMED] = "…".to_owned();
    }
    texts.join(", ")
}
