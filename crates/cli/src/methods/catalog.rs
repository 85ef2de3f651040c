//! Descriptions of all served methods, for people: `listMethods` and `describeMethods`.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use duet_rpc::openrpc::Document;
use duet_rpc::service::MethodInfo;
use duet_rpc::{Failure, OrInternal};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The served methods and their document. Services that describe all methods share it. It is filled once all
/// services exist.
#[derive(Clone, Default)]
pub(super) struct Catalog(Arc<OnceLock<(Vec<MethodInfo>, Document)>>);

#[derive(Serialize, JsonSchema)]
pub(super) struct Listed {
    name: &'static str,
    description: &'static str,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Described {
    name: String,
    params: Vec<String>,
    returns: String,
}

impl Catalog {
    pub(super) fn fill(&self, methods: Vec<MethodInfo>, document: Document) {
        // Called once, so `set` cannot fail.
        let _ = self.0.set((methods, document));
    }

    pub(super) fn list(&self) -> Vec<Listed> {
        let methods = self.0.get().into_iter().flat_map(|(methods, _)| methods);
        methods.map(|it| Listed { name: it.name, description: it.docs }).collect()
    }

    /// Makes the document.
    pub(super) fn document(&self) -> Value {
        self.0.get().map_or(Value::Null, |(_, document)| document.to_value())
    }

    pub(super) fn describe(&self) -> Vec<Described> {
        let document = self.document();
        let types = Types(&document["components"]["schemas"]);
        let describe = |method: &Value| Described {
            name: method["name"].as_str().unwrap_or_default().to_owned(),
            params: items(&method["params"]).map(|param| types.param(param)).collect(),
            returns: types.text(&method["result"]["schema"]),
        };
        items(&document["methods"]).map(describe).collect()
    }
}

/// A constant result of type `T`, as JSON. Building it takes ten times as long as sending it, so it is
/// cached. Few clients ask for it, so it is not built at the start.
#[derive(Serialize)]
#[serde(transparent, bound = "")]
pub(super) struct Cached<T> {
    json: Box<RawValue>,
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

/// Storage for a cached result.
pub(super) type CachedJson = OnceLock<Box<RawValue>>;

impl<T: Serialize> Cached<T> {
    /// Returns the cached result, built on first use.
    pub(super) fn new(cached: &CachedJson, make: impl FnOnce() -> T) -> Result<Self, Failure> {
        let json = match cached.get() {
            Some(json) => json,
            None => {
                let json = to_raw_value(&make()).or_internal()?;
                cached.get_or_init(|| json)
            }
        };
        Ok(Cached { json: json.clone(), of: PhantomData })
    }
}

impl<T: JsonSchema> JsonSchema for Cached<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The named schemas of a document, for texts about types.
struct Types<'a>(&'a Value);

impl Types<'_> {
    /// Formats a param: `level?: string`.
    fn param(&self, param: &Value) -> String {
        let name = param["name"].as_str().unwrap_or_default();
        let mark = if param["required"] == true { "" } else { "?" };
        format!("{name}{mark}: {}", self.type_name(&param["schema"]))
    }

    /// JSON type of the values that match a schema.
    fn type_name(&self, schema: &Value) -> String {
        match &self.resolve(schema)["type"] {
            Value::String(name) => name.clone(),
            Value::Array(names) => {
                // `null` means that the value may be left out, which `?` shows already.
                let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
                names.collect::<Vec<_>>().join(" or ")
            }
            _ => "any".to_owned(),
        }
    }

    /// Formats a schema for people: `{"level": "debug" | "info", "success": boolean}`.
    fn text(&self, schema: &Value) -> String {
        let schema = self.resolve(schema);
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
        }
        match schema["type"].as_str() {
            Some("array") => format!("[{}]", self.text(&schema["items"])),
            Some("object") => {
                // `required` keeps the order of members; `properties` does not.
                let names = items(&schema["required"]).filter_map(Value::as_str);
                let members = names
                    .map(|name| format!("{name:?}: {}", self.text(&schema["properties"][name])));
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
            _ => self.type_name(schema),
        }
    }

    /// Follows a reference to a named schema.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
        name.map_or(schema, |name| &self.0[name])
    }
}
