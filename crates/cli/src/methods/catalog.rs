//! Descriptions of all served methods, for people: `listMethods` and `describeMethods`.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use duet_rpc::service::{MethodInfo, ParamInfo, ParamsForm};
use duet_rpc::{Failure, OrInternal};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::schema::{Schema, result};

/// The served methods, in order. Services that describe all methods share it. It is filled once all services
/// exist.
#[derive(Clone, Default)]
pub(super) struct Catalog(Arc<OnceLock<Vec<MethodInfo>>>);

result! {
    pub(super) struct Listed { "name" => name: &'static str, "description" => description: &'static str }
}

result! {
    pub(super) struct Described {
        "name" => name: &'static str,
        "params" => params: Vec<String>,
        "returns" => returns: String,
    }
}

impl Catalog {
    pub(super) fn fill(&self, methods: Vec<MethodInfo>) {
        // Called once, so `set` cannot fail.
        let _ = self.0.set(methods);
    }

    pub(super) fn methods(&self) -> &[MethodInfo] {
        self.0.get().map_or(&[], Vec::as_slice)
    }

    pub(super) fn list(&self) -> Vec<Listed> {
        let methods = self.methods().iter();
        methods.map(|it| Listed { name: it.name, description: it.docs }).collect()
    }

    pub(super) fn describe(&self) -> Vec<Described> {
        let describe = |method: &MethodInfo| Described {
            name: method.name,
            params: named(method).iter().map(param_text).collect(),
            returns: text(&make(method.result_schema)),
        };
        self.methods().iter().map(describe).collect()
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

impl<T: Schema> Schema for Cached<T> {
    fn schema() -> Value {
        T::schema()
    }
}

/// Params that have names.
pub(super) fn named(method: &MethodInfo) -> &'static [ParamInfo] {
    match method.params_form {
        ParamsForm::Whole => &[],
        _ => method.params,
    }
}

/// Evaluates a schema. Without one, any value is allowed.
pub(super) fn make(schema: Option<fn() -> Value>) -> Value {
    schema.map_or_else(|| json!({}), |schema| schema())
}

fn param_text(param: &ParamInfo) -> String {
    let mark = if param.is_required { "" } else { "?" };
    format!("{}{mark}: {}", param.name, type_name(&make(param.schema)))
}

/// JSON type of the values that match a schema.
fn type_name(schema: &Value) -> String {
    match &schema["type"] {
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
fn text(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema["type"].as_str() {
        Some("array") => format!("[{}]", text(&schema["items"])),
        Some("object") => {
            // `required` keeps the order of members; `properties` does not.
            let names =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let members =
                names.map(|name| format!("{name:?}: {}", text(&schema["properties"][name])));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        _ => type_name(schema),
    }
}
