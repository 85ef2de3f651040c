//! Methods to try a connection with.

use duet_rpc::proto::message::{ErrorObject, ParamProblem};
use duet_rpc::{Context, Failure, quick};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::catalog::{About, Catalog, Param, Params};
use super::shape::Shape;

pub(super) fn add(catalog: &mut Catalog) {
    catalog.add(
        About {
            name: "system.ping",
            description: "Answers \"pong\".",
            params: Params::Named(&[]),
            result: Shape::OneOf(&["pong"]),
        },
        |router, name| router.method(name, quick(ping)),
    );
    catalog.add(
        About {
            name: "system.echo",
            description: "Answers with the params, whatever they are.",
            params: Params::Free,
            result: Shape::Params,
        },
        |router, name| router.method(name, quick(echo)),
    );
}

/// Adds the method that calls the client.
pub(super) fn add_callback(catalog: &mut Catalog) {
    catalog.add(
        About {
            name: "system.callback",
            description: "Calls a method of the client, and passes its answer on, or its error.",
            params: Params::Named(&[
                Param {
                    name: "method",
                    description: "The client's method to call.",
                    shape: Shape::String,
                    is_required: true,
                },
                Param {
                    name: "params",
                    description: "What to call it with.",
                    shape: Shape::Params,
                    is_required: false,
                },
            ]),
            result: Shape::Any,
        },
        |router, name| router.method(name, quick(callback)),
    );
}

fn ping() -> &'static str {
    "pong"
}

fn echo(params: Box<RawValue>) -> Box<RawValue> {
    params
}

#[derive(Deserialize)]
struct Callback {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

async fn callback(wanted: Callback, cx: Context) -> Result<Box<RawValue>, Failure> {
    if let Some(params) = &wanted.params
        && let Some(received) = wrong_type(params)
    {
        let problem = ParamProblem::wrong_type("params", Shape::Params.type_name(), received);
        return Err(ErrorObject::invalid_params(problem).into());
    }
    let answer = cx.peer().call(&wanted.method, wanted.params).await;
    answer.map_err(|error| match error.remote() {
        Some(remote) => remote.clone().into(),
        None => error.into(),
    })
}

/// The JSON type of a value that cannot be params.
fn wrong_type(value: &RawValue) -> Option<&'static str> {
    match value.get().as_bytes().first() {
        Some(b'{' | b'[') => None,
        Some(b'"') => Some("string"),
        Some(b't' | b'f') => Some("boolean"),
        _ => Some("number"),
    }
}
