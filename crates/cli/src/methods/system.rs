//! Methods for trying out a connection.

use std::borrow::Cow;

use duet_rpc::proto::message::{ErrorObject, ParamProblem};
use duet_rpc::{Context, Failure};
use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(super) struct System;

#[duet_rpc::service(prefix = "system.", openrpc)]
impl System {
    /// Answers "pong".
    #[rpc(quick)]
    fn ping(&self) -> Pong {
        Pong::Pong
    }

    /// Returns the params unchanged.
    #[rpc(quick)]
    fn echo(&self, #[rpc(whole)] params: AnyParams) -> AnyParams {
        params
    }
}

/// Methods that call the client.
pub(super) struct Callback;

#[duet_rpc::service(prefix = "system.", openrpc)]
impl Callback {
    /// Calls a method of the client, and returns its result or its error.
    #[rpc(quick)]
    async fn callback(
        &self,
        /// The client's method to call.
        method: String,
        /// The params of the call.
        #[rpc(name = "params")]
        params: Option<AnyParams>,
        cx: Context,
    ) -> Result<Box<RawValue>, Failure> {
        if let Some(received) = params.as_ref().and_then(AnyParams::wrong_type) {
            let problem = ParamProblem::wrong_type("params", "object or array", received);
            return Err(ErrorObject::invalid_params(problem).into());
        }
        let answer = cx.peer().call(&method, params).await;
        answer.map_err(|error| match error.remote() {
            Some(remote) => remote.clone().into(),
            None => error.into(),
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Pong {
    Pong,
}

/// Any params that a message can have.
#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct AnyParams(Box<RawValue>);

impl JsonSchema for AnyParams {
    fn schema_name() -> Cow<'static, str> {
        "AnyParams".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema!({"type": ["object", "array", "null"]})
    }
}

impl AnyParams {
    /// JSON type of a value that cannot be params.
    fn wrong_type(&self) -> Option<&'static str> {
        match self.0.get().as_bytes().first() {
            Some(b'{' | b'[') => None,
            Some(b'"') => Some("string"),
            Some(b't' | b'f') => Some("boolean"),
            _ => Some("number"),
        }
    }
}
