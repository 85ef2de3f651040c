//! Handlers: any `async fn` with serde types, with or without params, with or without a context (P7).

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

use duet_rpc_proto::message::{ErrorObject, Id, Params, write_result_with};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::Failure;
use crate::panic_guard::{self, Guarded, drop_quietly};
use crate::params;

/// What can be registered with a [`Router`](crate::Router): a function of the params, of the params
/// and the [`Context`], of the context alone, or of nothing, whose future yields an [`Output`].
///
/// `M` tells these apart and is always inferred. Params are any type that serde can read: a tuple
/// takes them by position, a struct by name, `Box<RawValue>` as they are.
#[diagnostic::on_unimplemented(
    message = "this is not a handler",
    label = "this cannot be registered as a method",
    note = "a handler is an async function or closure of nothing, of params, of a `Context`, or of params and a `Context`",
    note = "its params implement `serde::Deserialize`; several params are one tuple or struct",
    note = "it returns `()`, or `Result<T, E>` where `T` implements `serde::Serialize` and `E` converts into `duet_rpc::Failure`"
)]
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
#[expect(unnameable_types, reason = "it tells kinds of handlers apart, and nobody writes it")]
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

/// The outcome of a message, as the connection answers it.
pub(crate) enum Answer<'a> {
    /// A result, which this writes straight into the outbox.
    Result(Write<'a>),
    /// A response that was written where the handler ran.
    Response(Vec<u8>),
    Failed(Failure),
    /// The handler was never begun.
    WrongParams(ErrorObject),
    UnknownMethod,
    /// The handler was dropped before its end.
    Dropped,
}

/// The outcome of a handler that had to wait: its response as JSON, or the failure. The response is written
/// where the handler ran, because copying a large one would hold up the connection.
pub(crate) type Outcome = Result<Vec<u8>, Failure>;

impl From<Option<Outcome>> for Answer<'_> {
    fn from(outcome: Option<Outcome>) -> Self {
        match outcome {
            Some(Ok(response)) => Answer::Response(response),
            Some(Err(failure)) => Answer::Failed(failure),
            None => Answer::Dropped,
        }
    }
}

/// The connection as a handler sees it that begins.
pub(crate) trait Host {
    /// The context of the message.
    fn context(&mut self) -> Context;
    /// The id of the request; none for a notification.
    fn id(&self) -> Option<Id>;
    /// Takes the answer of a handler that is ready immediately.
    fn answer(&mut self, answer: Answer<'_>);
}

/// The memory in which one connection polls the futures of one handler.
pub(crate) type Slot = Option<Box<dyn Any + Send>>;

/// Room for most responses.
const USUAL: usize = 192;

/// A handler that waits.
pub(crate) type Waiting = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A handler with its types erased.
pub(crate) trait Route: Send + Sync {
    /// Begins the handler; if it may run inline, runs it until it waits. A handler that is not done comes
    /// back, and the host has no answer.
    fn start(
        &self,
        is_inline: bool,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Option<Waiting>;
}

/// A handler that knows its types.
pub(crate) struct Typed<M, H> {
    handler: H,
    shape: PhantomData<fn() -> M>,
}

impl<M, H: Handler<M>> Typed<M, H> {
    pub(crate) fn new(handler: H) -> Self {
        Typed { handler, shape: PhantomData }
    }
}

/// The place of a future. A future must not move once it was polled, and most are ready immediately: so one
/// place is used again and again, and only a future that waits takes it along.
type Pinned<F> = Pin<Box<Option<F>>>;

/// The place in a slot; `None` if a future has taken it along.
fn pinned_in<F: Send + 'static>(slot: &mut Slot) -> Option<&mut Option<Pinned<F>>> {
    slot.get_or_insert_with(|| Box::new(None::<Pinned<F>>)).downcast_mut()
}

impl<M: 'static, H: Handler<M>> Route for Typed<M, H> {
    fn start(
        &self,
        is_inline: bool,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Option<Waiting> {
        let mut spare = None;
        // One handler alone uses a slot, so the place has the right type.
        let kept = pinned_in::<H::Future>(slot).unwrap_or(&mut spare);
        let place = kept.get_or_insert_with(|| Box::pin(None));
        // If it has to wait, the task that it becomes polls it again, with its own waker.
        let mut noop = TaskContext::from_waker(Waker::noop());
        let mut outcome = None;
        let begun = panic_guard::catch(|| {
            place.set(Some(self.handler.begin(params, &mut || host.context())?));
            if is_inline && let Poll::Ready(output) = poll(place, &mut noop) {
                // Kept outside, where nothing that panics now can drop it.
                outcome = Some(output.into_result());
                place.set(None);
            }
            Ok::<_, ErrorObject>(())
        });
        match begun {
            Ok(Ok(())) => match outcome {
                Some(Ok(result)) => {
                    let mut write = |out: &mut Vec<u8>| serde_json::to_writer(out, &result);
                    host.answer(Answer::Result(&mut write));
                    drop_quietly(result);
                }
                Some(Err(failure)) => host.answer(Answer::Failed(failure)),
                None => return kept.take().map(|place| wait(place, host.id())),
            },
            Ok(Err(error)) => host.answer(Answer::WrongParams(error)),
            Err(panic) => {
                drop_quietly(outcome);
                drop_quietly(kept.take());
                host.answer(Answer::Failed(panic.into()));
            }
        }
        None
    }
}

fn poll<F: Future>(place: &mut Pinned<F>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
    match place.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        // It was put there just now.
        None => Poll::Pending,
    }
}

fn wait<F>(place: Pinned<F>, id: Option<Id>) -> Waiting
where
    F: Future<Output: Output> + Send + 'static,
{
    let mut place = place;
    let guarded = Guarded::new(std::future::poll_fn(move |cx| poll(&mut place, cx)));
    Box::pin(async move {
        let output = guarded.await?;
        let result = panic_guard::catch(|| output.into_result())??;
        let Some(id) = id else {
            // A notification: nobody is told the result.
            drop_quietly(result);
            return Ok(Vec::new());
        };
        // The result stays outside: a panic that drops it could meet a second one, which aborts.
        let mut text = Vec::with_capacity(USUAL);
        let written = panic_guard::catch(|| {
            write_result_with(&mut text, &id, |out| serde_json::to_writer(out, &result))
        });
        drop_quietly(result);
        written??;
        Ok(text)
    })
}
