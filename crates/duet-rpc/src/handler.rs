//! Handlers: any `async fn` with serde types, with or without params, with or without a context
//! (P7).

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use duet_rpc_proto::message::{ErrorObject, Params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Error;
use crate::failure::Failure;
use crate::{fence, params};

/// What can be registered with a [`Router`](crate::Router): a function of the params, of the params
/// and the [`Context`], of the context alone, or of nothing, whose future yields an [`Output`].
///
/// `M` tells these apart and is always inferred. Params are any type that serde can read: a tuple
/// takes them by position, a struct by name, `Box<RawValue>` as they are.
pub trait Handler<M>: Send + Sync + 'static {
    /// What it does.
    type Future: Future<Output: Output> + Send + 'static;

    /// Begins to handle a message.
    fn begin(
        &self,
        params: &Params<'_>,
        context: &mut dyn FnMut() -> Context,
    ) -> Result<Self::Future, ErrorObject>;
}

/// What a handler yields: a result that serde can write, or why there is none; or nothing.
pub trait Output {
    /// The result.
    type Result: Serialize;

    /// Makes it a plain result.
    fn into_result(self) -> Result<Self::Result, Failure>;
}

impl<T: Serialize, E: Into<Failure>> Output for Result<T, E> {
    type Result = T;

    fn into_result(self) -> Result<T, Failure> {
        self.map_err(Into::into)
    }
}

impl Output for () {
    type Result = ();

    fn into_result(self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The four shapes of handlers.
#[derive(Debug)]
#[doc(hidden)]
pub enum Shape<const PARAMS: bool, const CONTEXT: bool, P> {
    #[doc(hidden)]
    Never(PhantomData<P>),
}

impl<F, R> Handler<Shape<false, false, ()>> for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output: Output> + Send + 'static,
{
    type Future = R;

    fn begin(
        &self,
        _: &Params<'_>,
        _: &mut dyn FnMut() -> Context,
    ) -> Result<Self::Future, ErrorObject> {
        Ok(self())
    }
}

impl<F, R> Handler<Shape<false, true, ()>> for F
where
    F: Fn(Context) -> R + Send + Sync + 'static,
    R: Future<Output: Output> + Send + 'static,
{
    type Future = R;

    fn begin(
        &self,
        _: &Params<'_>,
        context: &mut dyn FnMut() -> Context,
    ) -> Result<Self::Future, ErrorObject> {
        Ok(self(context()))
    }
}

impl<F, P, R> Handler<Shape<true, false, P>> for F
where
    F: Fn(P) -> R + Send + Sync + 'static,
    P: DeserializeOwned,
    R: Future<Output: Output> + Send + 'static,
{
    type Future = R;

    fn begin(
        &self,
        params: &Params<'_>,
        _: &mut dyn FnMut() -> Context,
    ) -> Result<Self::Future, ErrorObject> {
        Ok(self(params::read(params)?))
    }
}

impl<F, P, R> Handler<Shape<true, true, P>> for F
where
    F: Fn(P, Context) -> R + Send + Sync + 'static,
    P: DeserializeOwned,
    R: Future<Output: Output> + Send + 'static,
{
    type Future = R;

    fn begin(
        &self,
        params: &Params<'_>,
        context: &mut dyn FnMut() -> Context,
    ) -> Result<Self::Future, ErrorObject> {
        Ok(self(params::read(params)?, context()))
    }
}

/// Writes a result as JSON.
pub(crate) type Write<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<(), serde_json::Error>;

/// Where the outcome of a handler goes that was ready at once.
pub(crate) trait Sink {
    /// It has a result.
    fn result(&mut self, write: Write<'_>);
    /// It failed.
    fn failed(&mut self, failure: Failure);
    /// It was never begun, as the params are wrong.
    fn refused(&mut self, object: ErrorObject);
}

/// What became of a handler that had to wait: its result as JSON, or why there is none.
pub(crate) type Outcome = Result<Vec<u8>, Failure>;

/// A handler that waits.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A handler with its types erased.
pub(crate) trait Route: Send + Sync {
    /// Begins the handler, and if it may run in place, runs it as far as it goes without waiting.
    /// If it is not done then, it comes back, and the sink has heard nothing.
    fn start(
        &self,
        in_place: bool,
        params: &Params<'_>,
        context: &mut dyn FnMut() -> Context,
        sink: &mut dyn Sink,
    ) -> Option<Waiting>;
}

/// A handler that knows its types.
pub(crate) struct Typed<M, H: Handler<M>> {
    handler: H,
    /// Where futures are polled. A future must not move once it was polled, and most of them are
    /// ready at once: this one place is used again and again, and only a future that waits takes
    /// it along.
    place: Mutex<Option<Place<H::Future>>>,
    shape: PhantomData<fn() -> M>,
}

type Place<F> = Pin<Box<Option<F>>>;

impl<M, H: Handler<M>> Typed<M, H> {
    pub(crate) fn new(handler: H) -> Self {
        Typed { handler, place: Mutex::new(None), shape: PhantomData }
    }

    fn take_place(&self) -> Place<H::Future> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        place.unwrap_or_else(|| Box::pin(None))
    }
}

impl<M: 'static, H: Handler<M>> Route for Typed<M, H> {
    fn start(
        &self,
        in_place: bool,
        params: &Params<'_>,
        context: &mut dyn FnMut() -> Context,
        sink: &mut dyn Sink,
    ) -> Option<Waiting> {
        let mut place = self.take_place();
        // If it has to wait, the task that it becomes polls it again, with a waker of its own.
        let mut noop = TaskContext::from_waker(Waker::noop());
        let begun = fence::call(|| {
            place.set(Some(self.handler.begin(params, context)?));
            Ok::<_, ErrorObject>(match in_place {
                true => poll(&mut place, &mut noop),
                false => Poll::Pending,
            })
        });
        let output = match begun {
            Ok(Ok(Poll::Ready(output))) => output,
            Ok(Ok(Poll::Pending)) => return Some(wait(place)),
            Ok(Err(object)) => {
                sink.refused(object);
                return None;
            }
            Err(panic) => {
                let _ = fence::call(|| place.set(None));
                sink.failed(panic.into());
                return None;
            }
        };
        match fence::call(|| place.set(None)) {
            Ok(()) => *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place),
            Err(panic) => {
                drop_fenced(output);
                sink.failed(panic.into());
                return None;
            }
        }
        match fence::call(|| output.into_result()).unwrap_or_else(|panic| Err(panic.into())) {
            Ok(result) => {
                sink.result(&mut |out| serde_json::to_writer(&mut *out, &result));
                drop_fenced(result);
            }
            Err(failure) => sink.failed(failure),
        }
        None
    }
}

/// Drops what is the handler's. A destructor that panics has nobody to tell: the answer has been
/// given.
fn drop_fenced<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        let _ = fence::call(move || drop(value));
    }
}

/// A future that is dropped inside the fence, also where it waits.
struct Kept<F>(Option<Place<F>>);

impl<F> Drop for Kept<F> {
    fn drop(&mut self) {
        drop_fenced(self.0.take());
    }
}

fn poll<F: Future>(place: &mut Place<F>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
    match place.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        // It was put there just now.
        None => Poll::Pending,
    }
}

fn wait<F>(place: Place<F>) -> Waiting
where
    F: Future<Output: Output> + Send + 'static,
{
    let mut kept = Kept(Some(place));
    Box::pin(async move {
        let polled = std::future::poll_fn(|cx| {
            let Some(place) = &mut kept.0 else { return Poll::Pending };
            match fence::call(|| poll(place, cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        let output = polled.await;
        let cleared = fence::call(|| drop(kept.0.take()));
        let outcome = fence::call(|| {
            let result = output.and_then(|output| cleared.map(|()| output))?.into_result()?;
            let mut json = Vec::new();
            serde_json::to_writer(&mut json, &result)?;
            Ok(json)
        });
        outcome.unwrap_or_else(|panic: Error| Err(panic.into()))
    })
}
