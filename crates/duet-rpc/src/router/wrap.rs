//! Wrappers: asynchronous functions around handlers.
//!
//! A wrapper is a handler whose arguments are the request and a [`Next`], which runs the inner wrappers and the
//! handler. Its return value is the answer, so there is exactly one answer, whether it runs `next` once, several
//! times or never. Everything that it awaits belongs to its future, so a
//! cancellation drops all of it.

use std::fmt;
use std::sync::Arc;

use duet_rpc_proto::message::{Id, Params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::Router;
use crate::context::Context;
use crate::error::Failure;
use crate::handler::{Argument, AsExtractor, Binding, OfMessage, OfRouter, Parts, Refusal};
use crate::handler::{
    Handler, Inner, IntoFailure, Message, Output, Reply, Returns, Scope, Typed, Writable,
};
use crate::params;

/// Puts a wrapper around a handler.
pub(super) type WrapFn = dyn Fn(&Arc<dyn Inner>) -> Arc<dyn Inner> + Send + Sync;

/// A message with its raw params: the argument of a [wrapper](Router::wrap). Handlers can take it, too.
///
/// A wrapper can change the params, but not the method and the id.
#[derive(Clone)]
pub struct Request {
    method: Arc<str>,
    params: Option<Box<RawValue>>,
    context: Context,
    #[cfg(feature = "tower")]
    pub(super) next: Option<Next>,
}

impl Request {
    /// The called method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<&Id> {
        self.context.id()
    }

    /// The context of the message.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The params as JSON; `None` if there are none.
    pub fn raw_params(&self) -> Option<&RawValue> {
        self.params.as_deref()
    }

    /// Deserialises the params. The error is the same as for a handler that takes params of this type.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(params::read(&to_params(self.raw_params()))?)
    }

    /// Replaces the params with any value that serde writes as an array or an object. `()` and `None` remove the
    /// params.
    pub fn set_params(&mut self, params: impl Serialize) -> Result<(), Failure> {
        let params = to_raw_value(&params)?;
        self.params = match params.get().as_bytes().first() {
            Some(b'{' | b'[') => Some(params),
            Some(b'n') => None,
            _ => return Err(Failure::internal("params must be an array or an object")),
        };
        Ok(())
    }

    pub(crate) fn take_params(&mut self) -> Option<Box<RawValue>> {
        self.params.take()
    }
}

/// Converts raw params for the deserialiser.
pub(crate) fn to_params(raw: Option<&RawValue>) -> Params<'_> {
    match raw.map(RawValue::get) {
        None => Params::Absent,
        Some(raw) if raw.starts_with('{') => Params::Object(raw),
        Some(raw) if raw.starts_with('[') => Params::Array(raw),
        Some(_) => Params::Null,
    }
}

impl fmt::Debug for Request {
    /// Shows the method, but not the params.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

impl Message for Request {
    fn method(&self) -> &Arc<str> {
        &self.method
    }

    fn context(&mut self) -> Context {
        self.context.clone()
    }
}

#[diagnostic::do_not_recommend]
impl Argument<AsExtractor<OfMessage>> for Request {
    type Bound = ();

    fn bind(_: &Binding<'_>) -> Result<(), String> {
        Ok(())
    }

    fn extract((): &(), parts: &mut Parts<'_>) -> Result<Self, Refusal> {
        let params = match parts.params() {
            Params::Absent => None,
            given => Some(given.parse().map_err(|error| Refusal::Failed(Failure::from(error)))?),
        };
        let method = Arc::clone(parts.message().method());
        Ok(Request {
            method,
            params,
            context: parts.message().context(),
            #[cfg(feature = "tower")]
            next: None,
        })
    }
}

/// The inner part of a wrapped message: further wrappers, and the handler.
#[derive(Clone)]
pub struct Next(Arc<dyn Inner>);

impl Next {
    /// Runs the further wrappers and the handler. A wrapper may call this several times, for example to retry.
    pub async fn run(&self, request: Request) -> Result<Box<RawValue>, Failure> {
        let mut request = request;
        let reply = self.0.call(&mut request);
        drop(request);
        match reply {
            Reply::Ready(reply) => reply,
            Reply::Later(reply) => reply.await,
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

#[diagnostic::do_not_recommend]
impl Argument<AsExtractor<OfRouter>> for Next {
    type Bound = Next;

    fn bind(binding: &Binding<'_>) -> Result<Next, String> {
        let next = binding.next().ok_or("only wrappers can take a `Next`")?;
        Ok(Next(Arc::clone(next)))
    }

    fn extract(bound: &Next, _: &mut Parts<'_>) -> Result<Self, Refusal> {
        Ok(bound.clone())
    }
}

impl Router {
    /// Wraps each handler in a function. The function may change params and results, add a deadline, retry, or
    /// answer without the handler. Its return value is the answer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b).wrap(
    ///     async |request, next| {
    ///         let answer = tokio::time::timeout(Duration::from_secs(5), next.run(request));
    ///         answer.await.unwrap_or_else(|_| Err(Failure::new(-32001, "Too slow")))
    ///     },
    /// );
    /// ```
    ///
    /// The first wrapper that was added is the outermost. A wrapper applies to every handler and fallback of this
    /// router, registered before or after. The entries of a batch pass one by one. A wrapper cannot change
    /// the id. Await `next.run` in the wrapper itself: on a task that the wrapper spawns, the handler is not cancelled
    /// with its request, and later messages do not wait for it.
    ///
    /// Each wrapper costs a copy of the params, and a boxed future if the handler inside is `async`. All wrappers
    /// together cost one copy of the result.
    #[must_use]
    pub fn wrap<W, T, R, O, E>(mut self, wrapper: W) -> Self
    where
        R: 'static,
        O: 'static,
        E: 'static,
        W: Fn(Request, Next) -> T + Send + Sync + 'static,
        T: Returns<R> + 'static,
        T::Future: Send + 'static,
        T::Output: Output<O>,
        <T::Output as Output<O>>::Value: Writable,
        <T::Output as Output<O>>::Error: IntoFailure<E>,
    {
        let wrapper = around::<W, fn(Request, Next), R, O, E>(wrapper);
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.wrappers.push(wrapper));
        self
    }
}

/// The marker types of a wrapper's arguments.
type WrapperMarks = (AsExtractor<OfMessage>, AsExtractor<OfRouter>);

#[expect(clippy::panic, reason = "the two arguments of a wrapper can always be bound")]
fn around<W, S, R, O, E>(wrapper: W) -> Arc<WrapFn>
where
    W: Handler<S, Arguments = (Request, Next)> + Send + Sync + 'static,
    Typed<W, S, WrapperMarks, R, O, E>: Inner + 'static,
{
    let wrapper = Arc::new(wrapper);
    Arc::new(move |next| {
        let scope = Scope { state: None, next: Some(next) };
        match Typed::<W, S, WrapperMarks, R, O, E>::bind(Arc::clone(&wrapper), &scope) {
            Ok(typed) => Arc::new(typed),
            Err(missing) => panic!("cannot add the wrapper: {missing}"),
        }
    })
}
