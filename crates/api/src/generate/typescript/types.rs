//! Types of a document as types of TypeScript.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::super::{shapes, text};
use super::{TypeScriptWriter, doc, string};
use crate::json::Json;
use crate::schema::{ArrayShape, ObjectShape, Schema, Shape, TypeId};

impl TypeScriptWriter<'_> {
    pub(super) fn named_type(&mut self, at: usize, schema: &Schema) {
        let Some(name) = self.types.get(at).cloned() else { return };
        self.doc(0, &text::of_schema(schema));
        match shapes::own_object(self.document, schema) {
            Some(object) if !object.members.is_empty() => {
                let body = self.members(&object, 0);
                let _ = writeln!(self.out, "export interface {name} {body}\n");
            }
            _ => {
                let value = self.type_of(schema, 0).text;
                let _ = writeln!(self.out, "export type {name} = {value};\n");
            }
        }
    }

    pub(super) fn type_of(&self, schema: &Schema, indent: usize) -> Expression {
        match &schema.shape {
            Shape::Any | Shape::Opaque(..) => Expression::simple("unknown"),
            Shape::Never => Expression::simple("never"),
            Shape::Null => Expression::simple("null"),
            Shape::Boolean => Expression::simple("boolean"),
            Shape::Number(_) => Expression::simple("number"),
            Shape::String(_) => Expression::simple("string"),
            Shape::Enum(values) => union(values.iter().map(literal).collect()),
            Shape::Array(array) => self.array(array, indent),
            Shape::Object(object) => Expression::simple(&self.object(object, indent)),
            Shape::Ref(TypeId(at)) => {
                Expression::simple(self.types.get(*at).map_or("unknown", String::as_str))
            }
            Shape::AnyOf(parts) => union(parts.iter().map(|it| self.type_of(it, indent)).collect()),
            Shape::AllOf(parts) => match self.document.as_object(schema) {
                Some(object) => Expression::simple(&self.object(&object, indent)),
                None => {
                    let parts = shapes::combinable(self.document, parts);
                    intersection(parts.iter().map(|it| self.type_of(it, indent)).collect())
                }
            },
        }
    }

    fn array(&self, array: &ArrayShape, indent: usize) -> Expression {
        let items = match shapes::rest(array) {
            shapes::Rest::Closed => None,
            shapes::Rest::Any => Some(Expression::simple("unknown")),
            shapes::Rest::Of(items) => Some(self.type_of(items, indent)),
        };
        if let (Some(items), true) = (&items, array.prefix.is_empty()) {
            return Expression::simple(&format!("{}[]", items.in_parens()));
        }
        let least = usize::try_from(array.min_items.unwrap_or_default()).unwrap_or(usize::MAX);
        let mut entries: Vec<String> = Vec::new();
        for (at, entry) in array.prefix.iter().enumerate() {
            let entry = self.type_of(entry, indent).in_parens();
            entries.push(if at < least { entry } else { format!("{entry}?") });
        }
        entries.extend(items.map(|items| format!("...{}[]", items.in_parens())));
        Expression::simple(&format!("[{}]", entries.join(", ")))
    }

    fn object(&self, object: &ObjectShape, indent: usize) -> String {
        if !object.members.is_empty() {
            return self.members(object, indent);
        }
        let value = match &object.additional {
            Some(additional) if object.patterns.is_empty() => self.type_of(additional, indent).text,
            _ => "unknown".to_owned(),
        };
        format!("{{ [name: string]: {value} }}")
    }

    fn members(&self, object: &ObjectShape, indent: usize) -> String {
        let pad = " ".repeat(indent + 2);
        let mut out = String::from("{\n");
        for member in &object.members {
            doc(&mut out, indent + 2, &text::of_schema(&member.schema), &[]);
            let mark = if member.is_required { "" } else { "?" };
            let value = self.type_of(&member.schema, indent + 2).text;
            let _ = writeln!(out, "{pad}{}{mark}: {value};", key(&member.name));
        }
        // Members without a name of their own must fit the others, so their type is the widest.
        let is_open = object.additional.as_ref().is_some_and(|it| it.shape != Shape::Never);
        if is_open || !object.patterns.is_empty() {
            let _ = writeln!(out, "{pad}[name: string]: unknown;");
        }
        let _ = write!(out, "{}}}", " ".repeat(indent));
        out
    }

    pub(super) fn error_class(&mut self, at: usize) {
        let Some(class) = self.errors.classes.get(at) else { return };
        let (name, spec) = (class.name.clone(), class.spec);
        let data =
            spec.data_schema.as_ref().map_or("unknown".to_owned(), |it| self.type_of(it, 0).text);
        let message = string(&spec.message);
        self.doc(0, &text::of_error(spec));
        let _ = writeln!(
            self.out,
            "export class {name} extends ResponseError<{data}> {{\n  static readonly code = {code};\n\n  \
             constructor(message: string = {message}, data?: {data}) {{\n    super({code}, message, data);\n    \
             // The base class sets its own prototype.\n    Object.setPrototypeOf(this, new.target.prototype);\n    \
             this.name = '{name}';\n  }}\n}}\n",
            code = spec.code,
        );
    }
}

/// A type, and whether it needs parentheses beside an operator.
pub(super) struct Expression {
    pub(super) text: String,
    is_compound: bool,
}

impl Expression {
    fn simple(text: &str) -> Self {
        Expression { text: text.to_owned(), is_compound: false }
    }

    fn in_parens(&self) -> String {
        if self.is_compound { format!("({})", self.text) } else { self.text.clone() }
    }
}

fn union(parts: Vec<Expression>) -> Expression {
    join(parts, " | ", |text| text == "never", |text| text == "unknown")
}

fn intersection(parts: Vec<Expression>) -> Expression {
    join(parts, " & ", |text| text == "unknown", |text| text == "never")
}

/// Joins types with an operator, each once. `is_neutral` types change nothing; an `is_all` type is the whole.
pub(super) fn join(
    parts: Vec<Expression>,
    operator: &str,
    is_neutral: fn(&str) -> bool,
    is_all: fn(&str) -> bool,
) -> Expression {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut last = None;
    for part in parts {
        if is_all(&part.text) {
            return part;
        }
        let text = part.in_parens();
        if !is_neutral(&part.text) && known.insert(text.clone()) {
            found.push(text);
        }
        last = Some(part);
    }
    match (found.as_slice(), last) {
        ([], Some(last)) => last,
        ([], None) => Expression::simple("unknown"),
        ([one], _) => Expression::simple(one),
        _ => Expression { text: found.join(operator), is_compound: true },
    }
}

fn literal(value: &Json) -> Expression {
    match value {
        Json::Array(_) | Json::Object(_) => Expression::simple("unknown"),
        // A number that is too large for the language.
        Json::Number(number) if number.as_f64().is_none_or(f64::is_infinite) => {
            Expression::simple("number")
        }
        Json::String(text) => Expression::simple(&string(text)),
        value => Expression::simple(&value.to_string()),
    }
}

/// A member's name, in quotes if it is not an identifier.
pub(super) fn key(name: &str) -> String {
    let is_plain = name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    if is_plain { name.to_owned() } else { string(name) }
}
