//! Types as one line of text, in the notation of TypeScript: `{id: integer, tags?: string[]} | null`.

use crate::model::Document;
use crate::schema::{ArrayShape, Bound, NumberShape, ObjectShape, Schema, Shape, StringShape};

/// Levels of a type that are written out. What is deeper is `…`.
const MAX_LEVELS: usize = 6;

/// Length after which a line is cut off.
const MAX_LENGTH: usize = 2_000;

impl Document {
    /// The type as one line, such as `{id: integer, tags?: string[]} | null`. Types with a name are not unfolded.
    ///
    /// ```
    /// # fn main() -> Result<(), duet_rpc_api::ApiError> {
    /// # let document = duet_rpc_api::Document::read(br#"{"openrpc": "1.3.2", "info": {"title": "", "version": ""},
    /// #   "methods": [{"name": "m", "params": [{"name": "p", "schema": {"type": ["string", "null"]}}]}]}"#)?;
    /// let schema = &document.methods[0].params[0].schema;
    /// assert_eq!(document.type_text(schema), "string | null");
    /// # Ok(())
    /// # }
    /// ```
    pub fn type_text(&self, schema: &Schema) -> String {
        self.type_line(schema, &str::to_owned, &str::to_owned)
    }

    /// The type as one line, with names of types and all other text as these functions write them.
    pub(crate) fn type_line(
        &self,
        schema: &Schema,
        name: &dyn Fn(&str) -> String,
        other: &dyn Fn(&str) -> String,
    ) -> String {
        let mut line = TypeText { document: self, pieces: Vec::new(), length: 0 };
        line.add(schema, 0);
        let written = line.pieces.iter().map(|piece| match piece {
            Piece::Name(text) => name(text),
            Piece::Other(text) => other(text),
        });
        written.collect()
    }

    /// The restrictions of a type, such as `1 to 100` and `format date`; empty if nothing.
    pub fn limits_text(&self, schema: &Schema) -> String {
        let mut limits = Vec::new();
        match &schema.shape {
            Shape::Number(number) => number_limits(number, &mut limits),
            Shape::String(string) => string_limits(string, &mut limits),
            Shape::Array(array) => array_limits(array, &mut limits),
            Shape::Object(object) => {
                limits.extend(range(object.min_members, object.max_members, "members"));
            }
            Shape::AnyOf(_) => {
                let (types, _) = schema.split_null();
                if let [one] = types.as_slice() {
                    return self.limits_text(one);
                }
            }
            _ => {}
        }
        limits.join(", ")
    }
}

fn number_limits(number: &NumberShape, limits: &mut Vec<String>) {
    let end = |bound: &Bound, open: &str, closed: &str| match bound.is_exclusive {
        true => format!("{open} {}", bound.value),
        false => format!("{closed} {}", bound.value),
    };
    match (&number.minimum, &number.maximum) {
        (Some(low), Some(high)) if !low.is_exclusive && !high.is_exclusive => {
            limits.push(format!("{} to {}", low.value, high.value));
        }
        (low, high) => {
            limits.extend(low.as_ref().map(|it| end(it, "more than", "at least")));
            limits.extend(high.as_ref().map(|it| end(it, "less than", "at most")));
        }
    }
    limits.extend(number.multiple_of.as_ref().map(|it| format!("multiple of {it}")));
    limits.extend(number.format.as_ref().map(|it| format!("format {it}")));
}

fn string_limits(string: &StringShape, limits: &mut Vec<String>) {
    limits.extend(range(string.min_length, string.max_length, "characters"));
    limits.extend(string.format.as_ref().map(|it| format!("format {it}")));
    limits.extend(string.pattern.as_ref().map(|it| format!("pattern {it}")));
}

fn array_limits(array: &ArrayShape, limits: &mut Vec<String>) {
    limits.extend(range(array.min_items, array.max_items, "entries"));
    limits.extend(array.is_unique.then(|| "no duplicates".to_owned()));
}

fn range(least: Option<u64>, most: Option<u64>, unit: &str) -> Option<String> {
    match (least, most) {
        (None | Some(0), None) => None,
        (Some(least), Some(most)) if least == most => Some(format!("{least} {unit}")),
        (Some(least), Some(most)) => Some(format!("{least} to {most} {unit}")),
        (Some(1), None) => Some("not empty".to_owned()),
        (Some(least), None) => Some(format!("at least {least} {unit}")),
        (None, Some(most)) => Some(format!("at most {most} {unit}")),
    }
}

enum Piece {
    /// The name of a type.
    Name(String),
    Other(String),
}

struct TypeText<'a> {
    document: &'a Document,
    pieces: Vec<Piece>,
    /// Characters so far.
    length: usize,
}

impl TypeText<'_> {
    fn is_full(&self) -> bool {
        self.length > MAX_LENGTH
    }

    /// Adds text, unless the line is long enough.
    fn push(&mut self, text: &str) {
        if self.is_full() {
            return;
        }
        let rest = MAX_LENGTH.saturating_sub(self.length);
        self.length += text.chars().count();
        let text = match text.char_indices().nth(rest) {
            Some((end, _)) if self.is_full() => format!("{}…", &text[..end]),
            _ => text.to_owned(),
        };
        match self.pieces.last_mut() {
            Some(Piece::Other(last)) => last.push_str(&text),
            _ => self.pieces.push(Piece::Other(text)),
        }
    }

    fn push_name(&mut self, name: &str) {
        if !self.is_full() {
            self.length += name.chars().count();
            self.pieces.push(Piece::Name(name.to_owned()));
        }
    }

    fn add(&mut self, schema: &Schema, level: usize) {
        if level > MAX_LEVELS || self.is_full() {
            self.push("…");
            return;
        }
        match &schema.shape {
            Shape::Any => self.push("any"),
            Shape::Never => self.push("never"),
            Shape::Null => self.push("null"),
            Shape::Boolean => self.push("boolean"),
            Shape::Number(number) => {
                self.push(if number.is_integer { "integer" } else { "number" });
            }
            Shape::String(_) => self.push("string"),
            Shape::Enum(values) => {
                self.list(values.iter(), " | ", |it, value| it.push(&value.to_string()));
            }
            Shape::Ref(id) => {
                let document = self.document;
                self.push_name(&document.named(*id).name);
            }
            Shape::AnyOf(types) => {
                self.list(types.iter(), " | ", |it, one| it.part(one, level + 1));
            }
            Shape::AllOf(types) => {
                self.list(types.iter(), " & ", |it, one| it.part(one, level + 1));
            }
            Shape::Array(array) => self.array(array, level + 1),
            Shape::Object(object) => self.object(object, level + 1),
            Shape::Opaque(keyword, value) => {
                self.push(&format!("{keyword} {value}"));
            }
        }
    }

    /// Adds a type that stands beside another one.
    fn part(&mut self, schema: &Schema, level: usize) {
        match &schema.shape {
            Shape::AnyOf(_) | Shape::AllOf(_) | Shape::Opaque(..) => {
                self.push("(");
                self.add(schema, level);
                self.push(")");
            }
            _ => self.add(schema, level),
        }
    }

    fn list<T>(
        &mut self,
        entries: impl Iterator<Item = T>,
        separator: &str,
        mut add: impl FnMut(&mut Self, T),
    ) {
        for (at, entry) in entries.enumerate() {
            if at > 0 {
                self.push(separator);
            }
            if self.is_full() {
                return;
            }
            add(self, entry);
        }
    }

    fn array(&mut self, array: &ArrayShape, level: usize) {
        if array.prefix.is_empty() {
            match &array.items {
                None => self.push("any"),
                Some(items) => match &items.shape {
                    Shape::Enum(values) if values.len() > 1 => {
                        self.push("(");
                        self.add(items, level);
                        self.push(")");
                    }
                    _ => self.part(items, level),
                },
            }
            self.push("[]");
            return;
        }
        self.push("[");
        self.list(array.prefix.iter(), ", ", |it, entry| it.add(entry, level));
        match &array.items {
            Some(items) if items.shape == Shape::Never => {}
            Some(items) => {
                self.push(", …");
                self.part(items, level);
                self.push("[]");
            }
            None => self.push(", …any[]"),
        }
        self.push("]");
    }

    fn object(&mut self, object: &ObjectShape, level: usize) {
        let others = object.additional.as_ref().filter(|it| it.shape != Shape::Never);
        if object.members.is_empty() && object.patterns.is_empty() {
            match others {
                None => self.push("object"),
                Some(others) => {
                    self.push("{[name]: ");
                    self.add(others, level);
                    self.push("}");
                }
            }
            return;
        }
        self.push("{");
        self.list(object.members.iter(), ", ", |it, member| {
            let mark = if member.is_required { "" } else { "?" };
            it.push(&format!("{}{mark}: ", member_name(&member.name)));
            it.add(&member.schema, level);
        });
        for (at, (pattern, schema)) in object.patterns.iter().enumerate() {
            let separator = if at == 0 && object.members.is_empty() { "" } else { ", " };
            self.push(&format!("{separator}[/{pattern}/]: "));
            self.add(schema, level);
        }
        if let Some(others) = others.filter(|it| it.shape != Shape::Any) {
            self.push(", [name]: ");
            self.add(others, level);
        }
        self.push("}");
    }
}

/// A name as it is, or in quotes if it is not a word.
fn member_name(name: &str) -> String {
    let is_word =
        |it: char| it.is_alphanumeric() || it == '_' || it == '$' || it == '-' || it == '.';
    match !name.is_empty() && name.chars().all(is_word) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}
