//! Wrappers: asynchronous functions around handlers.
//!
//! A wrapper is a handler whose arguments are the request and the rest of the way. Its return value is the
//! answer, so there is exactly one, whether it runs the rest once, several times or never. Everything that it awaits
//! belongs to its future: a cancellation drops all of it.

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
pub(super) type Wrapper = dyn Fn(&Arc<dyn Inner>) -> Arc<dyn Inner> + Send + Sync;

/// A message with its params as they came: the argument of a [wrapper](Router::wrap). Handlers can ask for it
/// too.
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
    /// The method that is called.
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

    /// Reads the params as a type. The error is the one that a handler with such params answers.
    pub fn params<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(params::read(&to_params(self.raw_params()))?)
    }

    /// Changes the params: anything that serde writes as an array or an object; `()` and `None` stand for
    /// none.
    pub fn set_params(&mut self, params: impl Serialize) -> Result<(), Failure> {
        let params = to_raw_value(&params)?;
        self.params = match params.get().as_bytes().first() {
            Some(b'{' | b'[') => Some(params),
            Some(b'n') => None,
            _ => return Err(Failure::internal("params are an array or an object")),
        };
        Ok(())
    }

    pub(crate) fn take_params(&mut self) -> Option<Box<RawValue>> {
        self.params.take()
    }
}

/// Params as they are read.
pub(crate) fn to_params(raw: Option<&RawValue>) -> Params<'_> {
    match raw.map(RawValue::get) {
        None => Params::Absent,
        Some(raw) if raw.starts_with('{') => Params::Object(raw),
        Some(raw) if raw.starts_with('[') => Params::Array(raw),
        Some(_) => Params::Null,
    }
}

impl fmt::Debug for Request {
    /// Shows nothing of the params.
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

/// The rest of the way of a message: further wrappers, and the handler.
#[derive(Clone)]
pub struct Next(Arc<dyn Inner>);

impl Next {
    /// Runs the rest. It may be run several times, to try again.
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
        let next = binding.next().ok_or("it takes a `Next`, which only wrappers can")?;
        Ok(Next(Arc::clone(next)))
    }

    fn extract(bound: &Next, _: &mut Parts<'_>) -> Result<Self, Refusal> {
        Ok(bound.clone())
    }
}

impl Router {
    /// Wraps each handler in an asynchronous function. It may change params and results, add a deadline, try
    /// again, or answer without the handler: its return value is the answer.
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
    /// The wrapper that was added first is the outermost. It applies to every handler and fallback in this
    /// router, registered before or after. The entries of a batch pass one by one, and a wrapper cannot change
    /// the id. Await `next.run` in the wrapper itself: on a task that the wrapper spawns, the handler is neither
    /// cancelled with its request, nor do later messages wait for it. For each wrapper a message costs a boxed future, unless the
    /// handler inside is not `async`, and a copy of its params; and once a copy of its result.
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

/// The markers of the arguments of a wrapper.
type Marks = (AsExtractor<OfMessage>, AsExtractor<OfRouter>);

#[expect(clippy::panic, reason = "the two arguments of a wrapper can always be bound")]
fn around<W, S, R, O, E>(wrapper: W) -> Arc<Wrapper>
where
    W: Handler<S, Arguments = (Request, Next)> + Send + Sync + 'static,
    Typed<W, S, Marks, R, O, E>: Inner + 'static,
{
    let wrapper = Arc::new(wrapper);
    Arc::new(move |next| {
        let scope = Scope { state: None, next: Some(next) };
        match Typed::<W, S, Marks, R, O, E>::bind(Arc::clone(&wrapper), &scope) {
            Ok(typed) => Arc::new(typed),
            Err(missing) => panic!("cannot add the wrapper: {missing}"),
        }
    })
}
