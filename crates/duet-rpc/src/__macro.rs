//! Support for generated code: everything that the macros need of this library beyond its public interface.
//!
//! Nothing here is for people: it may change with every version.

use std::marker::PhantomData;

pub use serde;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Failure, RemoteError};
use crate::handler::IntoFailure;
use crate::service::{MethodInfo, ParamInfo, ParamsForm};

/// The error of a method as that of its handler.
#[inline]
pub fn into_failure<E: IntoFailure<M>, M>(error: E) -> Failure {
    error.into()
}

/// The data of an error as this type; `None` if it does not fit.
pub fn data<T: DeserializeOwned>(error: &RemoteError) -> Option<T> {
    let text = error.data.as_ref().map_or("null", |data| data.get());
    serde_json::from_str(text).ok()
}

/// A description to be filled in.
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

/// A description to be filled in.
pub const fn param_info(name: &'static str) -> ParamInfo {
    ParamInfo { name, docs: "", is_required: true, schema: None }
}

/// Compiles if params can be read as this type.
pub fn params<T: for<'de> Deserialize<'de>>() {}

/// Compiles if a result of this type can be written.
pub fn result<T: Serialize>() {}

/// Compiles if a handler can fail with this type.
pub fn failure<E: IntoFailure<M>, M>() {}

/// Compiles if this is the future of a handler.
pub fn future<F: Future + Send + 'static>(_: F) {}

/// Compiles if a service of this type can be shared by all connections.
pub fn shared<S: Send + Sync + 'static>() {}

/// The return type of a method. `KIND` of its own has precedence over that of [`NotResult`], so it tells a
/// `Result` under any name from other types.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<T>);

impl<T, E> Returned<Result<T, E>> {
    /// It is a `Result`.
    pub const KIND: ResultAlias = ResultAlias;
}

/// See [`Returned`].
pub trait NotResult {
    /// It is not a `Result`.
    const KIND: PlainValue = PlainValue;
}

impl<T> NotResult for Returned<T> {}

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
