//! The values of variables in a session that runs.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::{ValueKey, Variables, has_values, key, quoted, words};
use crate::script::scalars::{self, splice};
use crate::script::{Place, Script};

/// The new values of the variables, and the texts that the user maps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The new value of each variable that changed: a text, or a JSON text.
    new: HashMap<usize, String>,
    /// The old key of a new one.
    old: HashMap<ValueKey, ValueKey>,
    /// Old and new text.
    maps: Vec<(String, String)>,
}

impl Table {
    /// A table with texts to replace: old and new.
    pub(crate) fn new(maps: Vec<(String, String)>) -> Self {
        Table { maps, ..Table::default() }
    }

    /// Learns the new values from the counterpart of a message.
    pub(crate) fn learn(
        &mut self,
        script: &Script,
        variables: &Variables,
        place: Place,
        new: &str,
    ) {
        let Some(made) = variables.made.get(&place) else { return };
        let mut parsed = None;
        for &number in made {
            let variable = &variables.all[number];
            let (mut is_there, mut found) = (false, None);
            scalars::for_each(new, |scalar| {
                is_there |= key(scalar).as_ref() == Some(&variable.key);
                if found.is_none() && has_values(scalar) && scalar.path() == variable.path {
                    found = key(scalar).map(|key| {
                        (key, scalar.text().map(Cow::into_owned), scalar.raw.to_owned())
                    });
                }
            });
            let Some((new_key, text, raw)) = found.filter(|_| !is_there) else { continue };
            let (old_json, new_json) = parsed.get_or_insert_with(|| {
                let old = script.steps[place.0].item_json(place.1);
                let parse = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
                (parse(old), parse(new))
            });
            if has_other_lists(old_json, new_json, &variable.path) {
                continue;
            }
            let value = match variable.key {
                ValueKey::Text(_) => text.unwrap_or(raw),
                ValueKey::Member(..) => raw,
            };
            self.new.insert(number, value);
            self.old.insert(new_key, variable.key.clone());
        }
    }

    /// The text of a frame with the new values.
    pub(crate) fn fill<'a>(
        &self,
        frame: &'a str,
        uses: Option<&Vec<super::Use>>,
        variables: &Variables,
    ) -> Cow<'a, str> {
        let mut parts: Vec<(std::ops::Range<usize>, String)> = Vec::new();
        for it in uses.into_iter().flatten() {
            let Some(new) = self.new.get(&it.variable) else { continue };
            let raw = match parts.last() {
                Some((range, raw)) if *range == it.range => raw.as_str(),
                _ => &frame[it.range.clone()],
            };
            let filled = match &variables.all[it.variable].key {
                ValueKey::Member(..) => new.clone(),
                ValueKey::Text(old) => quoted(&replace_word(&unquoted(raw), old, new)),
            };
            match parts.last_mut() {
                Some((range, raw)) if *range == it.range => *raw = filled,
                _ => parts.push((it.range.clone(), filled)),
            }
        }
        let filled = match parts.is_empty() {
            true => Cow::Borrowed(frame),
            false => Cow::Owned(splice(frame, &parts)),
        };
        let pairs: Vec<_> =
            self.maps.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
        mapped(filled, &pairs)
    }

    /// The text of a frame with the old values, for comparison.
    pub(crate) fn restore<'a>(&self, frame: &'a str) -> Cow<'a, str> {
        let pairs: Vec<_> =
            self.maps.iter().map(|(old, new)| (new.as_str(), old.as_str())).collect();
        let frame = mapped(Cow::Borrowed(frame), &pairs);
        if self.old.is_empty() {
            return frame;
        }
        let mut parts = Vec::new();
        scalars::for_each(&frame, |scalar| {
            let restored = match (key(scalar).and_then(|key| self.old.get(&key)), scalar.text()) {
                (Some(ValueKey::Text(old)), _) => Some(quoted(old)),
                (Some(ValueKey::Member(_, old)), _) => Some(old.clone()),
                (None, Some(text)) => self.restore_parts(&text),
                (None, None) => None,
            };
            parts.extend(restored.map(|text| (scalar.range.clone(), text)));
        });
        match parts.is_empty() {
            true => frame,
            false => Cow::Owned(splice(&frame, &parts)),
        }
    }

    /// Replaces the long new values in a string.
    fn restore_parts(&self, text: &str) -> Option<String> {
        let pairs = self.old.iter().filter_map(|pair| match pair {
            (ValueKey::Text(new), ValueKey::Text(old)) if text.contains(new.as_str()) => {
                Some((new.as_str(), old.as_str()))
            }
            _ => None,
        });
        let pairs: Vec<_> = pairs.collect();
        (!pairs.is_empty()).then(|| quoted(&replace_all(text, &pairs)))
    }
}

/// Replaces texts in the string values of a frame.
fn mapped<'a>(frame: Cow<'a, str>, pairs: &[(&str, &str)]) -> Cow<'a, str> {
    if pairs.is_empty() {
        return frame;
    }
    let mut parts = Vec::new();
    scalars::for_each(&frame, |scalar| {
        let Some(text) = scalar.text() else { return };
        let out = replace_all(&text, pairs);
        if out != *text {
            parts.push((scalar.range.clone(), quoted(&out)));
        }
    });
    match parts.is_empty() {
        true => frame,
        false => Cow::Owned(splice(&frame, &parts)),
    }
}

/// Replaces texts. The leftmost counts, then the first pair, so that nothing is replaced twice.
fn replace_all(text: &str, pairs: &[(&str, &str)]) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let find = |rest: &str| {
        let found = pairs.iter().filter(|(from, _)| !from.is_empty());
        let found = found.filter_map(|(from, to)| Some((rest.find(from)?, from.len(), *to)));
        found.min_by_key(|(at, ..)| *at)
    };
    while let Some((at, length, to)) = find(rest) {
        out += &rest[..at];
        out += to;
        rest = &rest[at + length..];
    }
    out + rest
}

/// Replaces a text that is the whole string or a word of it.
fn replace_word(text: &str, old: &str, new: &str) -> String {
    if text == old {
        return new.to_owned();
    }
    let found = words(text).filter(|(_, word)| *word == old);
    let parts: Vec<_> = found.map(|(at, word)| (at..at + word.len(), new.to_owned())).collect();
    splice(text, &parts)
}

fn unquoted(raw: &str) -> Cow<'_, str> {
    let inside = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
    inside.map_or(Cow::Borrowed(raw), duet_rpc_proto::text::unescape)
}

/// Returns `true` if a list on the way to a place has another length.
fn has_other_lists(old: &Value, new: &Value, path: &[String]) -> bool {
    let (mut old, mut new) = (Some(old), Some(new));
    for step in path {
        let next = |value: Option<&Value>| match value? {
            Value::Array(items) => Some(items.len()),
            _ => None,
        };
        if next(old) != next(new) {
            return true;
        }
        old = old.and_then(|value| child(value, step));
        new = new.and_then(|value| child(value, step));
    }
    false
}

fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    }
}
