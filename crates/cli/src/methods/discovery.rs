//! `rpc.discover`: the served methods as an OpenRPC document.

use duet_rpc::service::{MethodInfo, ParamInfo, ParamsForm};
use duet_rpc::{Failure, Router, quick};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::catalog::{Cached, CachedJson, Catalog, make, named};
use super::schema::{Schema, object, schema_of};

/// Version of the OpenRPC specification.
const OPENRPC: &str = "1.3.2";
/// Our OpenRPC extension: the schema of params without names.
const FREE_PARAMS: &str = "x-params";

/// A service cannot define this name, because JSON-RPC reserves the prefix. OpenRPC defines this one method
/// there.
const NAME: &str = "rpc.discover";

pub(super) struct Discovery {
    catalog: Catalog,
    document: CachedJson,
}

#[duet_rpc::service(schema = schema_of)]
impl Discovery {
    /// Describes all methods in an OpenRPC document.
    #[rpc(quick)]
    fn discover(&self) -> Result<Cached<Document>, Failure> {
        Cached::new(&self.document, || Document::new(self.catalog.methods()))
    }
}

impl Discovery {
    pub(super) fn new(catalog: Catalog) -> Self {
        Discovery { catalog, document: CachedJson::new() }
    }

    /// The method, under its full name.
    pub(super) fn methods() -> Vec<MethodInfo> {
        let mut methods = Discovery::METHODS.to_vec();
        methods.iter_mut().for_each(|method| method.name = NAME);
        methods
    }

    pub(super) fn router(self) -> Router {
        Router::new().method(NAME, quick(move || self.discover()))
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Document(Value);

impl Document {
    fn new(methods: &[MethodInfo]) -> Self {
        Document(json!({
            "openrpc": OPENRPC,
            "info": {
                "title": "duet-rpc",
                "version": env!("CARGO_PKG_VERSION"),
                "license": {"name": env!("CARGO_PKG_LICENSE")},
            },
            "methods": methods.iter().map(describe).collect::<Vec<_>>(),
        }))
    }
}

impl Schema for Document {
    /// Schema of the parts that every program needs.
    fn schema() -> Value {
        object(&[
            ("openrpc", String::schema),
            ("info", || object(&[("title", String::schema), ("version", String::schema)])),
            ("methods", schema_of::<Vec<Method>>),
        ])
    }
}

/// Schema of a method in the document.
struct Method;

impl Schema for Method {
    fn schema() -> Value {
        object(&[
            ("name", String::schema),
            ("summary", String::schema),
            ("params", schema_of::<Vec<Box<RawValue>>>),
            ("result", schema_of::<Box<RawValue>>),
        ])
    }
}

fn describe(method: &MethodInfo) -> Value {
    let mut described = json!({
        "name": method.name,
        "summary": method.docs,
        "params": named(method).iter().map(describe_param).collect::<Vec<_>>(),
        "result": {"name": "result", "schema": make(method.result_schema)},
    });
    if let (ParamsForm::Whole, [params]) = (method.params_form, method.params) {
        // OpenRPC can only describe named params. Without this extension, a program would assume that there
        // are none.
        described[FREE_PARAMS] = make(params.schema);
    }
    described
}

fn describe_param(param: &ParamInfo) -> Value {
    json!({
        "name": param.name,
        "summary": param.docs,
        "required": param.is_required,
        "schema": make(param.schema),
    })
}
