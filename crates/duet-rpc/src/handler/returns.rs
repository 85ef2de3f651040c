//! Return values of handlers: a value or a future of one, plain or fallible.

use std::future::Pending;
use std::marker::PhantomData;

use serde::Serialize;

use crate::error::Failure;

/// The return value of a handler: its output, or a future of it.
#[doc(hidden)]
#[derive(Debug)]
pub enum Begun<T, F> {
    Ready(T),
    Later(F),
}

/// The return value of a handler.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "this returns `{Self}`",
    note = "a handler returns a value that implements `serde::Serialize`: add `#[derive(serde::Serialize)]`",
    note = "or a `Result` of such a value and an error that converts into `duet_rpc::Failure`, or a future of either"
)]
#[doc(hidden)]
pub trait Returns<M>: Sized {
    type Output;
    type Future: Future<Output = Self::Output>;

    fn begin(self) -> Begun<Self::Output, Self::Future>;
}

/// Marks a future.
#[doc(hidden)]
#[derive(Debug)]
pub enum Asynchronous {}

/// Marks a value; `O` is the marker of its [`Output`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Synchronous<O>(PhantomData<O>);

impl<F: Future> Returns<Asynchronous> for F {
    type Output = F::Output;
    type Future = F;

    #[inline(always)]
    fn begin(self) -> Begun<F::Output, F> {
        Begun::Later(self)
    }
}

impl<O, T: Output<O>> Returns<Synchronous<O>> for T {
    type Output = T;
    type Future = Pending<T>;

    #[inline(always)]
    fn begin(self) -> Begun<T, Pending<T>> {
        Begun::Ready(self)
    }
}

/// The output of a handler: a value, or a `Result`.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`, because it cannot be written as JSON",
    label = "the result is a `{Self}`",
    note = "add `#[derive(serde::Serialize)]` to `{Self}`"
)]
#[doc(hidden)]
pub trait Output<M> {
    type Value;
    type Error;

    fn into_result(self) -> Result<Self::Value, Self::Error>;
}

/// Marks a value that is the result.
#[doc(hidden)]
#[derive(Debug)]
pub enum Plain {}

/// Marks a `Result`.
#[doc(hidden)]
#[derive(Debug)]
pub enum Fallible {}

impl<T: Writable> Output<Plain> for T {
    type Value = T;
    type Error = Failure;

    #[inline(always)]
    fn into_result(self) -> Result<T, Failure> {
        Ok(self)
    }
}

/// Applies to every `Result`, even if its error does not convert into a `Failure`. Otherwise such a `Result` would
/// count as a plain value, and serde would write it as `{"Err": …}`.
impl<T, E> Output<Fallible> for Result<T, E> {
    type Value = T;
    type Error = E;

    #[inline(always)]
    fn into_result(self) -> Result<T, E> {
        self
    }
}

/// A value that serde can write.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`, because it cannot be written as JSON",
    label = "the result is a `{Self}`",
    note = "add `#[derive(serde::Serialize)]` to `{Self}`"
)]
#[doc(hidden)]
pub trait Writable: Serialize {}

impl<T: Serialize> Writable for T {}

/// An error that converts into a [`Failure`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a handler, because it does not convert into `duet_rpc::Failure`",
    label = "the error is a `{Self}`",
    note = "for an error of your own that the remote is told: add `#[derive(duet_rpc::RpcError)]` to `{Self}`, or implement \
            `From<{Self}>` for `duet_rpc::Failure`",
    note = "for any other error: return `Result<_, duet_rpc::Failure>`, and write `.or_internal()?`, with \
            `use duet_rpc::OrInternal`",
    note = "`anyhow::Error` needs the feature `anyhow` of `duet-rpc`"
)]
#[doc(hidden)]
pub trait IntoFailure<M>: Into<Failure> {}

/// Marks an error that converts.
#[doc(hidden)]
#[derive(Debug)]
pub enum Converts {}

impl<E: Into<Failure>> IntoFailure<Converts> for E {}

/// Applies to no type. With only one implementation, the compiler would report a missing `From<E>` for `Failure`,
/// without the notes above.
impl<E: Into<Failure> + private::Never> IntoFailure<()> for E {}

mod private {
    #[expect(unnameable_types, reason = "nothing may implement it")]
    pub trait Never {}
}
