//! Methods in a document, written from their descriptions.
//!
//! Clients send the params of the service's methods, and the server sends results and errors. For the methods of
//! `callbacks` it is the reverse.

use std::collections::BTreeSet;

use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::schemas::{Renames, Schemas};
use super::{Described, HasDocument};
use crate::describe::ErrorInfo;
use crate::service::{MethodInfo, ParamInfo, ParamsForm};

/// The sender of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SentBy {
    /// A client of the service.
    Client,
    /// The service.
    Server,
}

impl SentBy {
    fn other(self) -> Self {
        match self {
            SentBy::Client => SentBy::Server,
            SentBy::Server => SentBy::Client,
        }
    }
}

type SchemaFn = fn(&mut SchemaGenerator) -> Value;
/// `None` for a default that JSON cannot express.
type DefaultFn = fn() -> Option<Value>;

/// The types of a method, beside its [`MethodInfo`].
#[derive(Debug, Default)]
pub struct MethodTypes {
    /// For each param, its schema and its default.
    pub params: Vec<(SchemaFn, Option<DefaultFn>)>,
    /// `None` for a notification.
    pub result: Option<SchemaFn>,
    /// `None` if the method cannot fail, or is a notification.
    pub errors: Option<fn(&mut SchemaGenerator) -> Vec<ErrorInfo>>,
}

/// The methods of a document while it is written.
#[derive(Default)]
pub(super) struct MethodWriter {
    schemas: Schemas,
    methods: Vec<Value>,
    client_methods: Vec<Value>,
}

impl MethodWriter {
    /// Adds the methods of a service. `caller` sends their params.
    pub(super) fn service(&mut self, service: &Described, caller: SentBy) {
        let prefix = match caller {
            SentBy::Client => &service.prefix,
            // A prefix of the server's router is not one of the client's router.
            SentBy::Server => "",
        };
        (service.describe)(&mut Methods { written: self, prefix, caller });
    }

    /// Puts methods and schemas into the document.
    pub(super) fn finish(self, document: &mut Value) {
        let MethodWriter { schemas, mut methods, mut client_methods } = self;
        let (components, renames) = schemas.into_components();
        rename(&mut methods, &["result", "x-errors"], &renames);
        rename(&mut client_methods, &["params", "x-params"], &renames);
        document["methods"] = Value::Array(methods);
        if !client_methods.is_empty() {
            document["x-client-methods"] = Value::Array(client_methods);
        }
        if !components.is_empty() {
            document["components"] = json!({"schemas": components});
        }
    }
}

/// Changes the references in the members of methods that the server sends.
fn rename(methods: &mut [Value], members: &[&str], renames: &Renames) {
    let members = |method| {
        let method: &mut Value = method;
        let all = method.as_object_mut().into_iter().flatten();
        all.filter(|(name, _)| members.contains(&name.as_str())).map(|(_, value)| value)
    };
    methods.iter_mut().flat_map(members).for_each(|value| renames.apply(value));
}

/// The methods of one service while they are written.
#[expect(missing_debug_implementations, reason = "only generated code has one")]
pub struct Methods<'a> {
    written: &'a mut MethodWriter,
    prefix: &'a str,
    caller: SentBy,
}

impl Methods<'_> {
    /// Adds a method. Called by generated code.
    pub fn add(&mut self, info: MethodInfo, types: MethodTypes) {
        let name = format!("{}{}", self.prefix, info.name);
        let written = &self.written;
        let listed = match self.caller {
            SentBy::Client => &written.methods,
            SentBy::Server => &written.client_methods,
        };
        if listed.iter().any(|method| method["name"] == *name) {
            return;
        }
        let mut method = Map::new();
        method.insert("name".to_owned(), json!(name));
        add_docs(&mut method, info.docs);
        self.add_params(&mut method, &info, &types);
        let answerer = self.caller.other();
        if let Some(result) = types.result {
            let schema = self.written.schemas.make(answerer, result);
            method.insert("result".to_owned(), json!({"name": "result", "schema": schema}));
        }
        if let Some(errors) = types.errors {
            self.add_errors(&mut method, errors);
        }
        if let Some(reason) = info.deprecated {
            method.insert("deprecated".to_owned(), json!(true));
            method.insert("x-deprecated".to_owned(), json!(reason));
        }
        if let Some(version) = info.since {
            method.insert("x-since".to_owned(), json!(version));
        }
        if info.is_idempotent {
            method.insert("x-idempotent".to_owned(), json!(true));
        }
        if !info.aliases.is_empty() {
            let aliases = info.aliases.iter().map(|alias| format!("{}{alias}", self.prefix));
            method.insert("x-aliases".to_owned(), aliases.collect());
        }
        let written = &mut self.written;
        match self.caller {
            SentBy::Client => written.methods.push(Value::Object(method)),
            SentBy::Server => written.client_methods.push(Value::Object(method)),
        }
    }

    /// Adds the methods that the client serves. Called by generated code.
    pub fn callbacks<C: HasDocument>(&mut self) {
        // The callbacks of the client's methods are methods of a server again.
        if self.caller == SentBy::Client {
            for service in &C::document().services {
                self.written.service(service, SentBy::Server);
            }
        }
    }

    fn add_params(
        &mut self,
        method: &mut Map<String, Value>,
        info: &MethodInfo,
        types: &MethodTypes,
    ) {
        let schemas = &mut self.written.schemas;
        if let (ParamsForm::Whole, [(schema, _)]) = (info.params_form, &*types.params) {
            let schema = schemas.make(self.caller, schema);
            let members = members(schemas, self.caller, &schema);
            if members.is_some() {
                method.insert("paramStructure".to_owned(), json!("by-name"));
            }
            // OpenRPC can only describe single params. Without this extension, a program would assume that there are
            // none, or only those with names.
            method.insert("x-params".to_owned(), schema);
            method.insert("params".to_owned(), Value::Array(members.unwrap_or_default()));
            return;
        }
        let is_required = |param: &ParamInfo| param.is_required;
        let last_required = info.params.iter().rposition(is_required);
        let is_positional = info.params_form == ParamsForm::Positional;
        let mut params = Vec::new();
        for (place, (param, (schema, default))) in info.params.iter().zip(&types.params).enumerate()
        {
            let default = default.and_then(|default| default());
            let schema =
                schemas.make(self.caller, |generator| with_default(schema(generator), default));
            // By position, the caller cannot leave out a param before one that is required. It writes `null`.
            let is_required = param.is_required || (is_positional && Some(place) < last_required);
            let mut descriptor = Map::new();
            descriptor.insert("name".to_owned(), json!(param.name));
            add_docs(&mut descriptor, param.docs);
            descriptor.insert("required".to_owned(), json!(is_required));
            descriptor.insert("schema".to_owned(), schema);
            params.push(descriptor);
        }
        let is_optional = |param: &Map<String, Value>| param["required"] == false;
        let structure = if is_positional {
            Some("by-position")
        } else if params.is_sorted_by_key(is_optional) {
            None
        } else {
            // OpenRPC wants required params first, so the positions are not those of the method.
            params.sort_by_key(is_optional);
            Some("by-name")
        };
        if let Some(structure) = structure {
            method.insert("paramStructure".to_owned(), json!(structure));
        }
        method.insert("params".to_owned(), params.into_iter().map(Value::Object).collect());
    }

    fn add_errors(
        &mut self,
        method: &mut Map<String, Value>,
        errors: fn(&mut SchemaGenerator) -> Vec<ErrorInfo>,
    ) {
        let answerer = self.caller.other();
        let schemas = &mut self.written.schemas;
        let (mut listed, mut details) = (Vec::new(), Map::new());
        let mut codes = BTreeSet::new();
        for error in errors(schemas.sent_by(answerer)) {
            // OpenRPC wants unique codes.
            if !codes.insert(error.code) {
                continue;
            }
            listed.push(json!({"code": error.code, "message": error.message}));
            let mut detail = Map::new();
            if !error.name.is_empty() {
                detail.insert("name".to_owned(), json!(error.name));
            }
            add_docs(&mut detail, error.docs);
            if let Some(data) = error.data {
                detail.insert("data".to_owned(), schemas.make(answerer, |_| data));
            }
            details.insert(error.code.to_string(), Value::Object(detail));
        }
        if !listed.is_empty() {
            method.insert("errors".to_owned(), Value::Array(listed));
            // An error object of OpenRPC has no place for them.
            method.insert("x-errors".to_owned(), Value::Object(details));
        }
    }
}

/// The members of a struct as params, required ones first; `None` if the schema is not that of a struct.
fn members(schemas: &mut Schemas, caller: SentBy, schema: &Value) -> Option<Vec<Value>> {
    let object = schemas.resolve(caller, schema).as_object()?.clone();
    let combines = ["allOf", "anyOf", "oneOf"].iter().any(|key| object.contains_key(*key));
    let properties = object.get("properties")?.as_object().filter(|_| !combines)?;
    let required: Vec<_> =
        object.get("required").and_then(Value::as_array).into_iter().flatten().collect();
    let position = |name: &str| required.iter().position(|it| *it == name);
    let mut names: Vec<_> = properties.keys().collect();
    // `required` has the order of the source.
    names.sort_by_key(|name| position(name).unwrap_or(usize::MAX));
    let descriptor = |name: &String| {
        let schema = schemas.make(caller, |_| properties[name].clone());
        json!({"name": name, "required": position(name).is_some(), "schema": schema})
    };
    Some(names.into_iter().map(descriptor).collect())
}

fn with_default(schema: Value, default: Option<Value>) -> Value {
    let Some(default) = default else { return schema };
    match schema {
        Value::Object(mut members) => {
            members.insert("default".to_owned(), default);
            Value::Object(members)
        }
        // `true`: any value.
        _ => json!({"default": default}),
    }
}

/// Adds a doc comment: its first paragraph as one line, and the rest.
fn add_docs(object: &mut Map<String, Value>, docs: &str) {
    let (summary, description) = docs.split_once("\n\n").unwrap_or((docs, ""));
    if !summary.is_empty() {
        object.insert("summary".to_owned(), json!(summary.replace('\n', " ")));
    }
    if !description.is_empty() {
        object.insert("description".to_owned(), json!(description.trim_start_matches('\n')));
    }
}
