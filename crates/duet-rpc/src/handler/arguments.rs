//! Arguments of handlers: the params, and extractors.
//!
//! Each argument has one marker, which the compiler infers. The marker decides how the argument is made. A
//! type without a marker cannot be an argument, and the compiler's message names that type.
//!
//! An argument is bound when its handler is registered. A missing state is reported then, and never when a message
//! arrives.

use std::any::{Any, type_name};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use duet_rpc_proto::message::{ErrorObject, Params};
use serde::de::DeserializeOwned;

use super::Inner;
use super::State;
use crate::context::Context;
use crate::error::Failure;
use crate::params;

/// A type that a handler can take as an argument besides its params. It is made from the [`Context`] of the message.
///
/// ```
/// use duet_rpc::{Context, Failure, FromContext, Router};
///
/// struct RequestId(String);
///
/// impl FromContext for RequestId {
///     fn from_context(cx: Context) -> Result<Self, Failure> {
///         Ok(RequestId(cx.id().ok_or_else(|| Failure::new(-32001, "Not a request"))?.to_string()))
///     }
/// }
///
/// let router = Router::new().method("id", async |id: RequestId| id.0);
/// ```
///
/// A type that implements both this and `Deserialize` cannot be an argument of a handler: the compiler could not
/// know which is meant. In a [service](mod@crate::service), `#[rpc(context)]` marks each argument whose type implements
/// this trait, except a [`Context`]. Without the mark, the argument does not compile, because the caller could send a
/// forged value. The compiler checks `T` and `Option<T>`; it does not see a `T` in a field of a param or in a `Vec`.
pub trait FromContext: Sized {
    /// Makes the argument. A failure is the answer to the message, and the handler is not called.
    fn from_context(context: Context) -> Result<Self, Failure>;
}

impl FromContext for Context {
    #[inline]
    fn from_context(context: Context) -> Result<Self, Failure> {
        Ok(context)
    }
}

/// The name of the method that was called, as an argument of a handler: for handlers that serve several
/// methods, such as [`Router::fallback`](crate::Router::fallback). It derefs to the name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Method(Arc<str>);

impl Deref for Method {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The message, as extractors see it.
pub(crate) trait Message {
    fn method(&self) -> &Arc<str>;
    fn context(&mut self) -> Context;
}

/// The parts of a router that can become arguments of its handlers.
pub(crate) struct Scope<'a> {
    pub(crate) state: Option<&'a Arc<dyn Any + Send + Sync>>,
    /// The handler inside a wrapper.
    pub(crate) next: Option<&'a Arc<dyn Inner>>,
}

/// A message whose arguments are extracted.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "nobody sees it")]
pub struct Parts<'a> {
    pub(super) params: &'a Params<'a>,
    pub(super) message: &'a mut dyn Message,
}

impl Parts<'_> {
    pub(crate) fn params(&self) -> &Params<'_> {
        self.params
    }

    pub(crate) fn message(&mut self) -> &mut dyn Message {
        self.message
    }
}

/// The router of a handler that is registered.
#[doc(hidden)]
#[expect(missing_debug_implementations, reason = "nobody sees it")]
pub struct Binding<'a>(pub(super) &'a Scope<'a>);

impl<'a> Binding<'a> {
    pub(crate) fn next(&self) -> Option<&'a Arc<dyn Inner>> {
        self.0.next
    }
}

/// The reason why a handler is not called.
#[doc(hidden)]
#[derive(Debug)]
pub enum Refusal {
    WrongParams(ErrorObject),
    Failed(Failure),
}

impl Refusal {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Refusal::WrongParams(error) => error.into(),
            Refusal::Failed(failure) => failure,
        }
    }
}

/// An argument of a handler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "one of its arguments is a `{Self}`",
    note = "params implement `serde::Deserialize` and own their data: add `#[derive(serde::Deserialize)]` to `{Self}`, \
            and write `String` instead of `&str`",
    note = "other arguments are extractors: `Context`, `State<S>`, `Method`, or a type that implements `FromContext`"
)]
#[doc(hidden)]
pub trait Argument<M>: Sized {
    /// The part of the argument that is known when the handler is registered.
    type Bound: Send + Sync + 'static;

    /// The error is a sentence that names the missing part.
    fn bind(binding: &Binding<'_>) -> Result<Self::Bound, String>;

    fn extract(bound: &Self::Bound, parts: &mut Parts<'_>) -> Result<Self, Refusal>;
}

/// Marks the params.
#[doc(hidden)]
#[derive(Debug)]
pub enum AsParams {}

/// Marks an extractor; `K` is its kind.
#[doc(hidden)]
#[derive(Debug)]
pub struct AsExtractor<K>(PhantomData<K>);

#[doc(hidden)]
#[derive(Debug)]
pub enum OfContext {}
#[doc(hidden)]
#[derive(Debug)]
pub enum OfRouter {}
#[doc(hidden)]
#[derive(Debug)]
pub enum OfMessage {}

impl<P: DeserializeOwned> Argument<AsParams> for P {
    type Bound = ();

    fn bind(_: &Binding<'_>) -> Result<(), String> {
        Ok(())
    }

    #[inline(always)]
    fn extract((): &(), parts: &mut Parts<'_>) -> Result<Self, Refusal> {
        params::read(parts.params).map_err(Refusal::WrongParams)
    }
}

#[diagnostic::do_not_recommend]
impl<E: FromContext> Argument<AsExtractor<OfContext>> for E {
    type Bound = ();

    fn bind(_: &Binding<'_>) -> Result<(), String> {
        Ok(())
    }

    #[inline(always)]
    fn extract((): &(), parts: &mut Parts<'_>) -> Result<Self, Refusal> {
        E::from_context(parts.message.context()).map_err(Refusal::Failed)
    }
}

#[diagnostic::do_not_recommend]
impl<S: Send + Sync + 'static> Argument<AsExtractor<OfRouter>> for State<S> {
    type Bound = Arc<S>;

    fn bind(binding: &Binding<'_>) -> Result<Arc<S>, String> {
        let wanted = type_name::<S>();
        let Some(state) = binding.0.state else {
            return Err(format!(
                "it takes a `State<{wanted}>`, and the router has no state; \
                 make the router with `Router::with_state`"
            ));
        };
        Arc::clone(state).downcast().map_err(|_| {
            format!("it takes a `State<{wanted}>`, and the state of the router has another type")
        })
    }

    #[inline(always)]
    fn extract(bound: &Arc<S>, _: &mut Parts<'_>) -> Result<Self, Refusal> {
        Ok(State(Arc::clone(bound)))
    }
}

#[diagnostic::do_not_recommend]
impl Argument<AsExtractor<OfMessage>> for Method {
    type Bound = ();

    fn bind(_: &Binding<'_>) -> Result<(), String> {
        Ok(())
    }

    fn extract((): &(), parts: &mut Parts<'_>) -> Result<Self, Refusal> {
        Ok(Method(Arc::clone(parts.message.method())))
    }
}

/// The arguments of a handler, as a tuple; `M` holds the marker of each.
#[doc(hidden)]
pub trait Arguments<M>: Sized {
    type Bound: Send + Sync + 'static;

    fn bind(binding: &Binding<'_>) -> Result<Self::Bound, String>;

    fn extract(bound: &Self::Bound, parts: &mut Parts<'_>) -> Result<Self, Refusal>;
}

/// Markers of which at most one is the params.
#[diagnostic::on_unimplemented(
    message = "a handler has two arguments that are params",
    label = "the params have to be one argument",
    note = "put them into one tuple or struct: `async |(a, b): (i64, i64)| …` instead of `async |a: i64, b: i64| …`"
)]
#[doc(hidden)]
pub trait AtMostOneParams {}

macro_rules! impl_arguments {
    ($($argument:ident $mark:ident $index:tt),*) => {
        impl<$($argument, $mark),*> Arguments<($($mark,)*)> for ($($argument,)*)
        where
            $($argument: Argument<$mark>),*
        {
            type Bound = ($($argument::Bound,)*);

            fn bind(_binding: &Binding<'_>) -> Result<Self::Bound, String> {
                Ok(($($argument::bind(_binding)?,)*))
            }

            #[inline(always)]
            fn extract(_bound: &Self::Bound, _parts: &mut Parts<'_>) -> Result<Self, Refusal> {
                Ok(($($argument::extract(&_bound.$index, _parts)?,)*))
            }
        }
    };
}

impl_arguments!();
impl_arguments!(A M0 0);
impl_arguments!(A M0 0, B M1 1);
impl_arguments!(A M0 0, B M1 1, C M2 2);
impl_arguments!(A M0 0, B M1 1, C M2 2, D M3 3);
impl_arguments!(A M0 0, B M1 1, C M2 2, D M3 3, E M4 4);

/// Implements [`AtMostOneParams`] for tuples of this many markers: for extractors only, and for params in one place
/// with extractors in the others.
macro_rules! impl_at_most_one {
    (@each [$($before:ident)*]) => {};
    (@each [$($before:ident)*] $here:ident $($after:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<$($before,)* $($after),*> AtMostOneParams
            for ($(AsExtractor<$before>,)* AsParams, $(AsExtractor<$after>,)*) {}
        impl_at_most_one!(@each [$($before)* $here] $($after)*);
    };
    ($($kind:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<$($kind),*> AtMostOneParams for ($(AsExtractor<$kind>,)*) {}
        impl_at_most_one!(@each [] $($kind)*);
    };
}

impl_at_most_one!();
impl_at_most_one!(A);
impl_at_most_one!(A B);
impl_at_most_one!(A B C);
impl_at_most_one!(A B C D);
impl_at_most_one!(A B C D E);
