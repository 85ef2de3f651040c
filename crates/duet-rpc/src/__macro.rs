//! Support for generated code: functions and types that the macros need beyond the public interface.
//!
//! Only generated code may use this module. It may change with every version.

use std::marker::PhantomData;

pub use serde;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
pub use serde_json::Value;

use crate::context::Context;
pub use crate::describe::{DescribeErrors, ErrorInfo, HasSchema, array_schema, object_schema};
use crate::error::{Failure, RemoteError};
use crate::handler::{FromContext, IntoFailure};
use crate::service::{MethodInfo, ParamInfo, ParamsForm};

/// Converts the error of a method into the failure of its handler.
#[inline]
pub fn into_failure<E: IntoFailure<M>, M>(error: E) -> Failure {
    error.into()
}

/// Reads the data of an error as this type; `None` if the data does not fit.
pub fn data<T: DeserializeOwned>(error: &RemoteError) -> Option<T> {
    let text = error.data.as_ref().map_or("null", |data| data.get());
    serde_json::from_str(text).ok()
}

/// A description of a method with default values, which the generated code overwrites.
pub const fn method_info(name: &'static str) -> MethodInfo {
    MethodInfo {
        name,
        aliases: &[],
        docs: "",
        params: &[],
        result_schema: None,
        params_form: ParamsForm::Named,
        is_notification: false,
        is_idempotent: false,
        deprecated: None,
        since: None,
    }
}

/// A description of a param with default values, which the generated code overwrites.
pub const fn param_info(name: &'static str) -> ParamInfo {
    ParamInfo { name, docs: "", is_required: true, schema: None }
}

/// The type of a method's return value that is a `Result`, under any alias.
pub trait ResultType {
    /// Its error.
    type Error;
}

impl<T, E> ResultType for Result<T, E> {
    type Error = E;
}

/// The default of a param. Its inherent `json` has precedence over that of [`NotWritten`], so the document has the
/// default of each type that serde can write.
#[derive(Debug)]
pub struct DefaultValue<T>(pub T);

impl<T: Serialize> DefaultValue<T> {
    /// The default as JSON; `None` if JSON cannot express it.
    pub fn json(&self) -> Option<Value> {
        serde_json::to_value(&self.0).ok()
    }
}

/// The fallback for types that serde cannot write; see [`DefaultValue`].
pub trait NotWritten {
    /// There is no JSON.
    fn json(&self) -> Option<Value> {
        None
    }
}

impl<T> NotWritten for DefaultValue<T> {}

/// Compiles if serde can read params as this type.
pub fn params<T: for<'de> Deserialize<'de>>() {}

/// A type that a service reads from a message as one of its params.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a param of a service: serde cannot read it, and it is not marked `#[rpc(context)]`",
    label = "a `{Self}` is neither a param nor marked",
    note = "if it implements `FromContext`, so that the caller does not send it: mark the argument `#[rpc(context)]`",
    note = "if the caller sends it: add `#[derive(serde::Deserialize)]`",
    note = "a service has no `State`, `Method` or `Request`: `&self` is the state, and `#[rpc(whole)]` takes raw params"
)]
pub trait Param<'de>: Sized {
    /// Reads it.
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<'de, T: Deserialize<'de>> Param<'de> for T {
    #[inline]
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer)
    }
}

/// Compiles if all params of a service can be read as this type.
pub fn whole_params<T: for<'de> Param<'de>>() {}

/// An argument that the library makes from the context. It is never read from the params, even if serde can
/// read the type inside. Without this wrapper, such a handler would be ambiguous.
#[derive(Debug)]
pub struct Extracted<T>(pub T);

impl<T: FromContext> FromContext for Extracted<T> {
    #[inline(always)]
    fn from_context(context: Context) -> Result<Self, Failure> {
        T::from_context(context).map(Extracted)
    }
}

/// Compiles if this type can be made from the context.
pub fn extracted<T: FromContext>() {}

/// Compiles if serde can write a result of this type.
pub fn result<T: Serialize>() {}

/// Compiles if a handler can fail with this type.
pub fn failure<E: IntoFailure<M>, M>() {}

/// Compiles if this can be the future of a handler.
pub fn future<F: Future + Send + 'static>(_: F) {}

/// Compiles if all connections can share a service of this type.
pub fn shared<S: Send + Sync + 'static>() {}

/// The return type of a method. Its inherent `KIND` has precedence over that of [`NotResult`], so the constant
/// distinguishes a `Result`, under any alias, from other types.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<T>);

impl<T, E> Returned<Result<T, E>> {
    /// `T` is a `Result`.
    pub const KIND: ResultAlias = ResultAlias;
}

/// The fallback for types that are not a `Result`; see [`Returned`].
pub trait NotResult {
    /// `T` is not a `Result`.
    const KIND: PlainValue = PlainValue;
}

impl<T> NotResult for Returned<T> {}

/// The type of a param. Its inherent `IS_FROM_CONTEXT` has precedence over that of [`NotFromContext`], so the constant
/// distinguishes a type that implements [`FromContext`] from other types.
#[derive(Debug)]
pub struct ParamType<T>(PhantomData<T>);

impl<T: FromContext> ParamType<T> {
    /// `T` implements it.
    pub const IS_FROM_CONTEXT: bool = true;
}

impl<T: FromContext> ParamType<Option<T>> {
    /// The type inside the `Option` implements it.
    pub const IS_FROM_CONTEXT_INSIDE: bool = true;
}

/// See [`ParamType`].
pub trait NotFromContext {
    /// `T` does not implement it.
    const IS_FROM_CONTEXT: bool = false;
    /// The type inside the `Option` does not implement it.
    const IS_FROM_CONTEXT_INSIDE: bool = false;
}

impl<T> NotFromContext for ParamType<T> {}

/// A `Result` under another name.
#[derive(Debug)]
pub struct ResultAlias;

/// Any other type.
#[derive(Debug)]
pub struct PlainValue;

/// A return type that is answered as a result.
#[diagnostic::on_unimplemented(
    message = "this is an alias of `Result`: write `Result<T, E>`, so that errors are answered as errors",
    label = "an alias of `Result`"
)]
pub trait IsPlain {}

impl IsPlain for PlainValue {}

/// Compiles if a return type of this kind is answered as a result.
pub fn plain<K: IsPlain>(_: K) {}

/// A param whose type has the name of a client.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a param: to call the caller back, write `#[service(callbacks = ...)]` with the trait \
               of this client",
    label = "serde cannot read a `{Self}`",
    note = "`callbacks = Ui` lets methods ask for a `UiClient`"
)]
pub trait NotCallbacks {}

impl<T: for<'de> Deserialize<'de>> NotCallbacks for T {}

/// Compiles if this is a param, and not the client of the caller's methods.
pub fn not_callbacks<T: NotCallbacks>() {}
