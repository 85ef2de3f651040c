//! Compares JSON values, and names the places where they differ.

use std::fmt;

use serde_json::Value;

use crate::redact::REDACTED;

/// A JSON pointer; a `*` stands for any name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl std::str::FromStr for Pointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err("expected a JSON pointer such as /params/processId".to_owned());
        };
        let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
        Ok(Pointer(rest.split('/').map(step).collect()))
    }
}

impl Pointer {
    pub(crate) fn covers(&self, path: &[String]) -> bool {
        let is_step = |(rule, step): (&String, &String)| rule == "*" || rule == step;
        self.0.len() == path.len() && self.0.iter().zip(path).all(is_step)
    }
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The place in the message: a JSON pointer that begins with `/params`, `/result` or `/error`.
    pub path: String,
    /// The value in the first trace; `None` if it has none.
    pub old: Option<Value>,
    /// The value in the second trace.
    pub new: Option<Value>,
}

/// The values of an exchange.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bodies {
    pub(super) params: Option<Value>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Value>,
    /// A message was cut, so nobody knows its values.
    pub(super) is_cut: bool,
    /// Values were replaced.
    pub(super) is_redacted: bool,
}

/// The value of a JSON text. A text with numbers that no value can hold stays a text.
pub(super) fn parse(json: Option<&str>) -> Option<Value> {
    json.map(|json| serde_json::from_str(json).unwrap_or_else(|_| Value::from(json)))
}

impl Bodies {
    fn parts(&self) -> [(&'static str, Option<&Value>); 3] {
        [
            ("params", self.params.as_ref()),
            ("result", self.result.as_ref()),
            ("error", self.error.as_ref()),
        ]
    }

    /// The values without those at these places.
    pub(super) fn without(mut self, ignore: &[Pointer]) -> Bodies {
        for (name, part) in
            [("params", &mut self.params), ("result", &mut self.result), ("error", &mut self.error)]
        {
            let mut path = vec![name.to_owned()];
            if is_ignored(&path, ignore) {
                *part = None;
            } else if let Some(value) = part {
                remove(value, &mut path, ignore);
            }
        }
        self
    }
}

impl fmt::Display for Bodies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.parts() {
            if let Some(value) = value {
                write!(f, "{name} {value}")?;
            }
        }
        Ok(())
    }
}

/// The differences. A redacted value may be any, and so may the values of a message that was cut.
pub(super) fn compare(old: &Bodies, new: &Bodies, ignore: &[Pointer]) -> Vec<Change> {
    let mut changes = Vec::new();
    if old.is_cut || new.is_cut {
        return changes;
    }
    for ((name, old), (_, new)) in old.parts().into_iter().zip(new.parts()) {
        walk(&mut vec![name.to_owned()], old, new, ignore, &mut changes);
    }
    if old.is_redacted || new.is_redacted {
        let is_hidden = |value: &Option<Value>| matches!(value, Some(Value::String(text)) if text.contains(REDACTED));
        changes.retain(|change| !is_hidden(&change.old) && !is_hidden(&change.new));
    }
    changes
}

fn walk(
    path: &mut Vec<String>,
    old: Option<&Value>,
    new: Option<&Value>,
    ignore: &[Pointer],
    changes: &mut Vec<Change>,
) {
    if old == new || is_ignored(path, ignore) {
        return;
    }
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                path.push(name.clone());
                walk(path, old.get(name), new.get(name), ignore, changes);
                path.pop();
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                path.push(at.to_string());
                walk(path, old.get(at), new.get(at), ignore, changes);
                path.pop();
            }
        }
        _ => {
            let step = |step: &String| step.replace('~', "~0").replace('/', "~1");
            let path = format!("/{}", path.iter().map(step).collect::<Vec<_>>().join("/"));
            changes.push(Change { path, old: old.cloned(), new: new.cloned() });
        }
    }
}

fn is_ignored(path: &[String], ignore: &[Pointer]) -> bool {
    ignore.iter().any(|pointer| pointer.covers(path))
}

fn remove(value: &mut Value, path: &mut Vec<String>, ignore: &[Pointer]) {
    let is_kept = |path: &mut Vec<String>, step: String, value: &mut Value| {
        path.push(step);
        let is_kept = !is_ignored(path, ignore);
        if is_kept {
            remove(value, path, ignore);
        }
        path.pop();
        is_kept
    };
    match value {
        Value::Object(members) => members.retain(|name, value| is_kept(path, name.clone(), value)),
        Value::Array(items) => {
            let mut at = 0;
            items.retain_mut(|item| {
                at += 1;
                is_kept(path, (at - 1).to_string(), item)
            });
        }
        _ => {}
    }
}
