//! `rpc.discover`: the served methods as an OpenRPC document.

use std::borrow::Cow;

use duet_rpc::openrpc::Document;
use duet_rpc::service::MethodInfo;
use duet_rpc::{Failure, Router};
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::catalog::{Cached, CachedJson, Catalog};

/// JSON-RPC reserves the prefix, so a service cannot define a name with it. OpenRPC defines this one method there.
const PREFIX: &str = "rpc.";
const NAME: &str = "rpc.discover";

pub(super) struct Discovery {
    catalog: Catalog,
    document: CachedJson,
}

#[duet_rpc::service(openrpc)]
impl Discovery {
    /// Describes all methods in an OpenRPC document.
    #[rpc(quick)]
    fn discover(&self) -> Result<Cached<OpenRpc>, Failure> {
        Cached::new(&self.document, || OpenRpc(self.catalog.document()))
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
        Router::new().nest(PREFIX, self.into_router())
    }

    /// The document with the method, under its full name.
    pub(super) fn add_to(document: Document) -> Document {
        document.nest(PREFIX, Discovery::openrpc())
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct OpenRpc(serde_json::Value);

impl JsonSchema for OpenRpc {
    fn schema_name() -> Cow<'static, str> {
        "OpenRpc".into()
    }

    /// Schema of the parts that every program needs.
    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        let method = json_schema!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "summary": {"type": "string"},
                "params": {"type": "array", "items": true},
                "result": true,
            },
            "required": ["name", "summary", "params", "result"],
        });
        json_schema!({
            "type": "object",
            "properties": {
                "openrpc": {"type": "string"},
                "info": {
                    "type": "object",
                    "properties": {"title": {"type": "string"}, "version": {"type": "string"}},
                    "required": ["title", "version"],
                },
                "methods": {"type": "array", "items": method},
            },
            "required": ["openrpc", "info", "methods"],
        })
    }
}
