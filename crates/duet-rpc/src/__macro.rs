//! Support for generated code: functions and types that the macros need beyond the public interface.
//!
//! Only generated code may use this module. It may change with every version.

use std::marker::PhantomData;

pub use serde;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Failure, RemoteError};
use crate::handler::IntoFailure;
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

/// Compiles if serde can read params as this type.
pub fn params<T: for<'de> Deserialize<'de>>() {}

/// Compiles if serde can write a result of this type.
pub fn result<T: Serialize>() {}

/// Compiles if a handler can fail with this type.
pub fn failure<E: IntoFailure<M>, M>() {}

/// Compiles if this can be the future of a handler.
pub fn future<F: Future + Send + 'static>(_: F) {}

/// Compiles if all connections can share a service of this type.
pub fn shared<S: Send + Sync + 'static>() {}

/// The return type of a method. Its inherent `IS_RESULT` has precedence over that of [`NotResult`], so the
/// constant tells a `Result` under any name from other types.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<T>);

impl<T, E> Returned<Result<T, E>> {
    /// `T` is a `Result`.
    pub const IS_RESULT: bool = true;
}

/// The fallback for types that are not a `Result`; see [`Returned`].
pub trait NotResult {
    /// `T` is not a `Result`.
    const IS_RESULT: bool = false;
}

impl<T> NotResult for Returned<T> {}
