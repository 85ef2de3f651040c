//! Descriptions of types for documents: schemas of values, and lists of errors.
//!
//! The traits are generic over the generator of schemas, and exist without the feature `openrpc`. So
//! `#[derive(RpcError)]` can implement [`DescribeErrors`] for every error type: its fields need a schema only where a
//! document of a service asks for it.

use std::convert::Infallible;
use std::io;

use duet_rpc_proto::message::ErrorObject;
use serde_json::{Map, Value, json};

use crate::error::{BoxError, Error, Failure, RemoteError};

/// A type with a JSON schema that the generator `G` makes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no JSON schema, which `#[service(openrpc)]` needs for its document",
    label = "no schema for `{Self}`",
    note = "add `#[derive(schemars::JsonSchema)]` to `{Self}`, and `schemars = \"1\"` to Cargo.toml",
    note = "a type of another crate may have a schema behind a feature of `schemars`, such as `chrono04` or `uuid1`"
)]
pub trait HasSchema<G> {
    /// Returns the schema, or a reference to it in the document of the generator.
    fn schema(generator: &mut G) -> Value;
}

/// An error type that lists its errors for a document; see [`openrpc`](crate::openrpc#errors).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not describe its errors, which `#[service(openrpc)]` needs for its document",
    label = "no list of errors for `{Self}`",
    note = "`#[derive(duet_rpc::RpcError)]` describes the errors of an enum or a struct",
    note = "for any other type, write `impl<G> duet_rpc::openrpc::DescribeErrors<G> for {Self} {{}}`: the document then \
            has no errors of this type"
)]
pub trait DescribeErrors<G> {
    /// Returns the errors. Default: none.
    fn errors(generator: &mut G) -> Vec<ErrorInfo> {
        let _ = generator;
        Vec::new()
    }
}

/// The description of an error that a method can answer.
///
/// ```
/// use duet_rpc::openrpc::{DescribeErrors, ErrorInfo, HasSchema};
///
/// /// An error type that converts into a `Failure` by hand.
/// struct Locked;
///
/// impl<G> DescribeErrors<G> for Locked
/// where
///     String: HasSchema<G>,
/// {
///     fn errors(generator: &mut G) -> Vec<ErrorInfo> {
///         let mut locked = ErrorInfo::new(1003, "Locked");
///         locked.docs = "Another user edits the document.";
///         locked.data = Some(String::schema(generator));
///         vec![locked]
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorInfo {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: &'static str,
    /// The name of the variant or the type, for generated clients. Default: none.
    pub name: &'static str,
    /// The doc comment.
    pub docs: &'static str,
    /// The schema of `data`; `None` if the error has no data.
    pub data: Option<Value>,
}

impl ErrorInfo {
    /// An error without a name, a doc comment and data.
    pub fn new(code: i64, message: &'static str) -> Self {
        ErrorInfo { code, message, name: "", docs: "", data: None }
    }
}

/// The schema of an object whose members are all present.
pub fn object_schema<const N: usize>(members: [(&str, Value); N]) -> Value {
    let required: Vec<_> = members.iter().map(|(name, _)| (*name).to_owned()).collect();
    let members = members.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    let properties: Map<_, _> = members.collect();
    json!({"type": "object", "properties": properties, "required": required})
}

/// The schema of an array with these items.
pub fn array_schema<const N: usize>(items: [Value; N]) -> Value {
    json!({"type": "array", "items": items.to_vec(), "minItems": N, "maxItems": N})
}

/// Errors without a fixed list.
macro_rules! without_a_list {
    ($($ty:ty),*) => {
        $(impl<G> DescribeErrors<G> for $ty {})*
    };
}

without_a_list!(
    BoxError,
    Error,
    ErrorObject,
    Failure,
    Infallible,
    RemoteError,
    io::Error,
    serde_json::Error
);

#[cfg(feature = "anyhow")]
without_a_list!(anyhow::Error);
