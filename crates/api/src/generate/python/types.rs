//! Types of a document as types of Python.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::super::names::{pascal, words};
use super::super::{shapes, text};
use super::{PythonWriter, docstring, string};
use crate::json::Json;
use crate::schema::{ArrayShape, Member, ObjectShape, Schema, Shape, TypeId};

/// Types that a union has without parentheses.
const MAX_OPERATORS: usize = 64;

impl PythonWriter<'_> {
    pub(super) fn named_type(&mut self, at: usize, schema: &Schema) {
        let Some(name) = self.types.get(at).cloned() else { return };
        match shapes::own_object(self.document, schema) {
            Some(object) if is_class(&object) => {
                self.typed_dict(&name, &object, &text::of_schema(schema));
            }
            _ => {
                let value = self.type_of(schema, &name);
                let alias = self.typing("TypeAlias");
                let _ = writeln!(self.out, "\n{name}: {alias} = {}", string(&value));
                if !text::of_schema(schema).is_empty() {
                    docstring(&mut self.out, 0, &text::of_schema(schema));
                }
            }
        }
    }

    /// Writes a class for an object. Classes of objects inside of it come first.
    fn typed_dict(&mut self, name: &str, object: &ObjectShape, doc: &[String]) {
        let mut fields: Vec<(&Member, String)> = Vec::new();
        for member in &object.members {
            let value = self.type_of(&member.schema, &format!("{name}_{}", member.name));
            let value = if member.is_required {
                value
            } else {
                format!("{}[{value}]", self.typing("NotRequired"))
            };
            fields.push((member, value));
        }
        let base = self.typing("TypedDict");
        if fields.iter().all(|(member, _)| self.is_field(&member.name)) {
            let _ = writeln!(self.out, "\n\nclass {name}({base}):");
            let lines = if doc.is_empty() { vec!["An object.".to_owned()] } else { doc.to_vec() };
            docstring(&mut self.out, 4, &lines);
            for (member, value) in fields {
                let _ = writeln!(self.out, "\n    {}: {value}", member.name);
                let lines = text::of_schema(&member.schema);
                if !lines.is_empty() {
                    docstring(&mut self.out, 4, &lines);
                }
            }
            self.out.push('\n');
            return;
        }
        // Names that cannot be attributes need the other form of the class.
        let _ = writeln!(self.out, "\n{name} = {base}(\n    {},\n    {{", string(name));
        for (member, value) in fields {
            let _ = writeln!(self.out, "        {}: {},", string(&member.name), string(&value));
        }
        self.out.push_str("    },\n)\n");
        if !doc.is_empty() {
            docstring(&mut self.out, 0, doc);
        }
    }

    /// True if the name can be an attribute, and hides no name that an annotation uses.
    fn is_field(&self, name: &str) -> bool {
        is_identifier(name) && !name.starts_with("__") && !self.names.has(name)
    }

    /// The type as an annotation. `place` names the classes of objects in it.
    pub(super) fn type_of(&mut self, schema: &Schema, place: &str) -> String {
        match &schema.shape {
            Shape::Any | Shape::Opaque(..) => self.typing("Any"),
            Shape::Never => self.typing("Never"),
            Shape::Null => "None".to_owned(),
            Shape::Boolean => "bool".to_owned(),
            Shape::Number(number) => if number.is_integer { "int" } else { "float" }.to_owned(),
            Shape::String(_) => "str".to_owned(),
            Shape::Array(array) => self.array(array, place),
            Shape::Object(object) => self.object(object, &text::of_schema(schema), place),
            Shape::Ref(TypeId(at)) => match self.types.get(*at) {
                Some(name) => name.clone(),
                None => self.typing("Any"),
            },
            Shape::Enum(_) | Shape::AnyOf(_) => union(&self.alternatives(schema, place)),
            Shape::AllOf(parts) => match self.document.as_object(schema) {
                Some(object) => self.object(&object, &text::of_schema(schema), place),
                // There are no intersections; each part alone is a wider type.
                None => {
                    // An enum comes first.
                    let parts = shapes::combinable(self.document, parts);
                    let is_known =
                        |part: &&Schema| !matches!(part.shape, Shape::Any | Shape::Opaque(..));
                    match parts.iter().find(is_known) {
                        Some(part) => self.type_of(part, place),
                        None => self.typing("Any"),
                    }
                }
            },
        }
    }

    /// The type as an annotation for an argument that has a default.
    pub(super) fn optional(&mut self, schema: &Schema, place: &str) -> String {
        let mut parts = self.alternatives(schema, place);
        parts.push("duet_rpc.Default".to_owned());
        union(&parts)
    }

    /// The types of a union, with one `Literal` for the values of all its enums.
    fn alternatives(&mut self, schema: &Schema, place: &str) -> Vec<String> {
        let mut found = UnionParts::default();
        self.collect(schema, place, &mut found);
        let (mut types, mut literals) = (found.types, Vec::new());
        for value in found.values {
            match (literal(&value), value) {
                (Some(literal), _) => literals.push(literal),
                (None, Json::Null) => types.push("None".to_owned()),
                (None, Json::Number(_)) => types.push("float".to_owned()),
                (None, _) => types.push(self.typing("Any")),
            }
        }
        if !literals.is_empty() {
            let mut known = HashSet::new();
            literals.retain(|it| known.insert(it.clone()));
            types.insert(0, format!("{}[{}]", self.typing("Literal"), literals.join(", ")));
        }
        types
    }

    fn collect(&mut self, schema: &Schema, place: &str, found: &mut UnionParts) {
        match &schema.shape {
            Shape::Enum(values) => found.values.extend(values.iter().cloned()),
            Shape::AnyOf(parts) => {
                parts.iter().for_each(|it| self.collect(it, &alternative(it, place), found));
            }
            _ => {
                let value = self.type_of(schema, place);
                found.types.push(value);
            }
        }
    }

    /// Arrays are lists, even those with a type for each entry: JSON has no tuples.
    fn array(&mut self, array: &ArrayShape, place: &str) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (at, entry) in array.prefix.iter().enumerate() {
            parts.extend(self.alternatives(entry, &format!("{place}_{}", at + 1)));
        }
        match shapes::rest(array) {
            shapes::Rest::Closed => {}
            shapes::Rest::Any => parts.push(self.typing("Any")),
            shapes::Rest::Of(items) => {
                parts.extend(self.alternatives(items, &format!("{place}_item")));
            }
        }
        format!("list[{}]", union(&parts))
    }

    fn object(&mut self, object: &ObjectShape, doc: &[String], place: &str) -> String {
        if is_class(object) {
            let name = self.names.pick(&pascal(&words(place, "object")));
            self.typed_dict(&name, object, doc);
            return name;
        }
        let value = match &object.additional {
            Some(additional) if object.patterns.is_empty() && object.members.is_empty() => {
                self.type_of(additional, &format!("{place}_value"))
            }
            _ => self.typing("Any"),
        };
        format!("dict[str, {value}]")
    }

    pub(super) fn error_class(&mut self, at: usize) {
        let Some(class) = self.errors.classes.get(at) else { return };
        let (name, spec) = (class.name.clone(), class.spec);
        let data =
            spec.data_schema.as_ref().map(|schema| self.type_of(schema, &format!("{name}_data")));
        let _ = writeln!(self.out, "\n\nclass {name}(duet_rpc.RemoteError):");
        docstring(&mut self.out, 4, &text::of_error(spec));
        let _ = writeln!(self.out, "\n    default_code = {}", spec.code);
        let _ = writeln!(self.out, "    default_message = {}", string(&spec.message));
        if let Some(data) = data {
            let _ = writeln!(self.out, "    data: {data}");
        }
        self.out.push('\n');
    }
}

/// True if the object can be a `TypedDict`. Type checkers refuse a member without a name.
fn is_class(object: &ObjectShape) -> bool {
    !object.members.is_empty() && object.members.iter().all(|member| !member.name.is_empty())
}

/// The place of an alternative: objects that are told apart by a member have its value in their name.
fn alternative(schema: &Schema, place: &str) -> String {
    let Shape::Object(object) = &schema.shape else { return place.to_owned() };
    let tag =
        object.members.iter().filter(|member| member.is_required).find_map(|member| match &member
            .schema
            .shape
        {
            Shape::Enum(values) => match values.as_slice() {
                [Json::String(value)] => Some(value),
                _ => None,
            },
            _ => None,
        });
    tag.map_or(place.to_owned(), |tag| format!("{place}_{tag}"))
}

/// The types and the constant values of a union.
#[derive(Default)]
struct UnionParts {
    types: Vec<String>,
    values: Vec<Json>,
}

/// A value as it stands in a `Literal`, if it can.
fn literal(value: &Json) -> Option<String> {
    match value {
        Json::Bool(value) => Some(if *value { "True" } else { "False" }.to_owned()),
        Json::String(text) => Some(string(text)),
        Json::Number(number) if number.is_i64() => Some(number.to_string()),
        _ => None,
    }
}

fn union(parts: &[String]) -> String {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for part in parts {
        if part == "typing.Any" {
            return part.clone();
        }
        if part != "typing.Never" && known.insert(part) {
            found.push(part.clone());
        }
    }
    if found.is_empty() { parts.first().cloned().unwrap_or_default() } else { grouped(found) }
}

/// Joins the parts of a union. Parsers of Python count every operator as a level, and have a limit.
fn grouped(mut parts: Vec<String>) -> String {
    while parts.len() > MAX_OPERATORS {
        let group = |group: &[String]| match group {
            [one] => one.clone(),
            group => format!("({})", group.join(" | ")),
        };
        parts = parts.chunks(MAX_OPERATORS).map(group).collect();
    }
    parts.join(" | ")
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}
