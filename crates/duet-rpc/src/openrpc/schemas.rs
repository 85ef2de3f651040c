//! Schemas of a document: one generator for the values that clients send, one for the values that the server sends.
//!
//! Serde may read more than it writes, so a type can have two schemas. Named types are definitions of their generator.
//! [`Schemas::into_components`] joins them: equal definitions are shared, others of the server get another name.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use super::methods::SentBy;
use crate::describe::{DescribeErrors, ErrorInfo, HasSchema};

/// The place of definitions in a document, as references name it.
const COMPONENTS: &str = "#/components/schemas/";
/// The ending of a definition's name, if the server writes the type in another form than it reads it.
const OUTPUT: &str = "Output";

impl<T: JsonSchema + ?Sized> HasSchema<SchemaGenerator> for T {
    fn schema(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<T>().to_value()
    }
}

/// The schema of a type, or a reference to it. Generated code passes this function.
pub fn schema<T: HasSchema<SchemaGenerator>>(generator: &mut SchemaGenerator) -> Value {
    T::schema(generator)
}

/// The errors of a type. Generated code passes this function.
pub fn errors<E: DescribeErrors<SchemaGenerator>>(
    generator: &mut SchemaGenerator,
) -> Vec<ErrorInfo> {
    E::errors(generator)
}

pub(super) struct Schemas {
    client: SchemaGenerator,
    server: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Schemas {
            client: settings.clone().for_deserialize().into_generator(),
            server: settings.for_serialize().into_generator(),
        }
    }
}

impl Schemas {
    /// The generator for values of this sender.
    pub(super) fn sent_by(&mut self, sender: SentBy) -> &mut SchemaGenerator {
        match sender {
            SentBy::Client => &mut self.client,
            SentBy::Server => &mut self.server,
        }
    }

    /// Makes a schema that stands in the document itself, such as that of a param.
    pub(super) fn make(
        &mut self,
        sender: SentBy,
        schema: impl FnOnce(&mut SchemaGenerator) -> Value,
    ) -> Value {
        let generator = self.sent_by(sender);
        let schema = schema(generator);
        let Ok(mut schema) = Schema::try_from(schema) else { return Value::Bool(true) };
        generator.transforms_mut().for_each(|transform| transform.transform(&mut schema));
        schema.to_value()
    }

    /// Follows references to definitions of this sender.
    pub(super) fn resolve<'a>(&'a mut self, sender: SentBy, schema: &'a Value) -> &'a Value {
        let definitions = self.sent_by(sender).definitions();
        let named = |text: &str| definitions.iter().find(|(name, _)| reference(name) == text);
        let mut found = schema;
        // A definition that is only a reference may lead back to itself.
        for _ in 0..definitions.len() {
            match found["$ref"].as_str().and_then(named) {
                Some((_, schema)) => found = schema,
                None => break,
            }
        }
        found
    }

    /// Joins the definitions. The second result has the new names of those that the server writes in another form.
    pub(super) fn into_components(mut self) -> (Map<String, Value>, Renames) {
        let mut components = self.client.take_definitions(true);
        let mut server = self.server.take_definitions(true);
        let renames = Renames::new(&components, &server);
        for schema in server.values_mut() {
            renames.apply(schema);
        }
        for (name, schema) in server {
            let name = renames.0.get(&name).cloned().unwrap_or(name);
            // The form that the client sends is the more lenient one.
            components.entry(name).or_insert(schema);
        }
        (components, renames)
    }
}

/// New names of definitions.
pub(super) struct Renames(BTreeMap<String, String>);

impl Renames {
    /// Finds the definitions of the server that need another name: those that differ from a definition of the client
    /// with the same name, and those with such a definition inside.
    fn new(client: &Map<String, Value>, server: &Map<String, Value>) -> Self {
        // Definitions that differ or lead to one that does. Some of them only the server has: those keep their names.
        let differs = |name: &String, schema: &Value| {
            client.get(name).is_some_and(|it| lenient(it) != lenient(schema))
        };
        let mut other: BTreeSet<&String> =
            server.iter().filter(|(name, schema)| differs(name, schema)).map(|it| it.0).collect();
        loop {
            let references: BTreeSet<_> = other.iter().map(|name| reference(name)).collect();
            let leads = |schema: &Value| has_reference(schema, &references);
            let before = other.len();
            other.extend(server.iter().filter(|(_, schema)| leads(schema)).map(|it| it.0));
            if other.len() == before {
                break;
            }
        }
        let is_taken = |name: &String| client.contains_key(name) || server.contains_key(name);
        let mut names = BTreeMap::new();
        for name in other.into_iter().filter(|name| client.contains_key(*name)) {
            let mut renamed = format!("{name}{OUTPUT}");
            while is_taken(&renamed) {
                renamed.push_str(OUTPUT);
            }
            names.insert(name.clone(), renamed);
        }
        Renames(names)
    }

    /// Changes the references in a value of the server.
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(members) => {
                for (key, member) in members {
                    match member {
                        Value::String(text) if key == "$ref" => self.apply_to_reference(text),
                        member => self.apply(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn apply_to_reference(&self, text: &mut String) {
        let renamed = self.0.iter().find(|(name, _)| reference(name) == *text);
        if let Some((_, renamed)) = renamed {
            *text = reference(renamed);
        }
    }
}

/// A schema whose members need not be there if they may be `null`. Serde always writes such a member, and reads `null` if
/// it is missing: two schemas for each type with an `Option` would help nobody.
fn lenient(schema: &Value) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(lenient).collect(),
        Value::Object(members) => {
            let mut made: Map<_, _> =
                members.iter().map(|(name, member)| (name.clone(), lenient(member))).collect();
            if let (Some(properties), Some(Value::Array(required))) =
                (members.get("properties"), made.get_mut("required"))
            {
                required
                    .retain(|name| !name.as_str().is_some_and(|it| may_be_null(&properties[it])));
                if required.is_empty() {
                    made.remove("required");
                }
            }
            Value::Object(made)
        }
        plain => plain.clone(),
    }
}

fn may_be_null(schema: &Value) -> bool {
    let is_null = |ty: &Value| ty == "null";
    let types = schema["type"].as_array().into_iter().flatten();
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    is_null(&schema["type"])
        || types.into_iter().any(is_null)
        || choices.into_iter().any(|choice| is_null(&choice["type"]))
        || *schema == Value::Bool(true)
}

/// Returns `true` if a schema contains one of these references.
fn has_reference(schema: &Value, references: &BTreeSet<String>) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| has_reference(item, references)),
        Value::Object(members) => members.iter().any(|(key, member)| match member {
            Value::String(text) if key == "$ref" => references.contains(text),
            member => has_reference(member, references),
        }),
        _ => false,
    }
}

/// The reference to a definition, written as `schemars` writes it: a JSON pointer in a fragment.
fn reference(name: &str) -> String {
    let mut reference = COMPONENTS.to_owned();
    for byte in name.bytes() {
        match byte {
            b'~' => reference.push_str("~0"),
            b'/' => reference.push_str("~1"),
            b'!' | b'$' | b'&'..=b';' | b'=' | b'?'..=b'Z' | b'_' | b'a'..=b'z' => {
                reference.push(char::from(byte));
            }
            _ => reference.push_str(&format!("%{byte:02X}")),
        }
    }
    reference
}
