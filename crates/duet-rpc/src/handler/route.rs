//! Routes: handlers with their types erased, and the code that runs them.
//!
//! ```text
//!             inline: called and polled once, in reused memory
//!           ┌──────────────────────────────────────────────────▶ answered, no allocation
//!  start ───┤                                   └── pending ──▶ Waiting, a task
//!           └─────────────────────────────────────────────────▶ Waiting, called by the worker pool
//!             not inline
//! ```

use std::any::Any;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use duet_rpc_proto::message::{ErrorObject, IdRef, Params, write_result_with};

use super::Handler;
use super::arguments::{Arguments, Binding, Message, Parts, Refusal, Scope};
use super::returns::{Begun, IntoFailure, Output, Returns, Writable};
use crate::error::Failure;
use crate::panic_guard::{self, Guarded, drop_quietly};
use crate::peer::Peer;
use crate::remote::Remote;
use crate::router::HookRun;

/// Writes a result as JSON.
pub(crate) type Write<'a> = &'a mut dyn FnMut(&mut Vec<u8>) -> Result<(), serde_json::Error>;

/// The outcome of a message, as the connection answers it.
pub(crate) enum Answer<'a> {
    /// A function that writes the result directly into the outbox.
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
/// where the handler ran, because copying a large response would delay the connection.
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

impl From<Refusal> for Answer<'_> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongParams(error) => Answer::WrongParams(error),
            Refusal::Failed(failure) => Answer::Failed(failure),
        }
    }
}

/// The connection, as a starting handler sees it.
pub(crate) trait Host: Message {
    /// The id of the request; none for a notification.
    fn id(&self) -> Option<IdRef<'_>>;
    fn peer(&self) -> Peer;
    /// The sender of the message.
    fn remote(&self) -> &Remote;
    /// Answers with the outcome of a handler that is ready immediately.
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
    /// Runs the hooks of the message, if there are any, and begins the handler. A handler that may run inline
    /// runs until it waits. Returns a handler that waits; otherwise the host has received the answer.
    fn start(
        &self,
        is_inline: bool,
        hooks: Option<&HookRun<'_>>,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Option<Waiting>;
}

/// The markers of a handler. No marker is ever constructed, so none has to be `Send`.
type TypeMarks<S, R, O, E> = fn() -> (S, R, O, E);

/// The future of a handler.
type FutureOf<H, S, R> = <<H as Handler<S>>::Return as Returns<R>>::Future;

/// A handler that knows its types.
pub(crate) struct Typed<H, S, A, R, O, E>
where
    H: Handler<S, Arguments: Arguments<A>>,
{
    pub(super) handler: Arc<H>,
    pub(super) bound: <H::Arguments as Arguments<A>>::Bound,
    marks: PhantomData<TypeMarks<S, R, O, E>>,
}

impl<H, S, A, R, O, E> Typed<H, S, A, R, O, E>
where
    H: Handler<S, Arguments: Arguments<A>>,
{
    /// Binds a handler to its router. The error names the missing part.
    pub(crate) fn bind(handler: Arc<H>, scope: &Scope<'_>) -> Result<Self, String> {
        let bound = H::Arguments::bind(&Binding(scope))?;
        Ok(Typed { handler, bound, marks: PhantomData })
    }

    /// Runs the hooks of the message, and makes the arguments.
    #[inline(always)]
    fn enter(
        &self,
        hooks: Option<&HookRun<'_>>,
        params: &Params<'_>,
        host: &mut dyn Host,
    ) -> Result<H::Arguments, Refusal> {
        if let Some(hooks) = hooks {
            hooks.pass(params, host).map_err(Refusal::Failed)?;
        }
        Arguments::extract(&self.bound, &mut Parts { params, message: host })
    }
}

/// Pinned memory for one future. A future must not move once it was polled. Most futures are ready immediately,
/// so the memory is reused; a future that has to wait keeps it.
type Pinned<F> = Pin<Box<Option<F>>>;

/// The pinned memory in a slot. The inner `Option` is `None` if a waiting future keeps the memory. The outer one is
/// `None` if the slot belongs to a future of another type.
fn pinned_in<F: Send + 'static>(slot: &mut Slot) -> Option<&mut Option<Pinned<F>>> {
    slot.get_or_insert_with(|| Box::new(None::<Pinned<F>>)).downcast_mut()
}

impl<H, S, A, R, O, E> Route for Typed<H, S, A, R, O, E>
where
    S: 'static,
    R: 'static,
    O: 'static,
    E: 'static,
    H: Handler<
            S,
            Arguments: Arguments<A> + Send + 'static,
            Return: Returns<
                R,
                Future: Send + 'static,
                Output: Output<O, Value: Writable, Error: IntoFailure<E>>,
            >,
        > + Send
        + Sync
        + 'static,
{
    fn start(
        &self,
        is_inline: bool,
        hooks: Option<&HookRun<'_>>,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Option<Waiting> {
        if !is_inline {
            match panic_guard::catch(|| self.enter(hooks, params, host)) {
                Ok(Ok(arguments)) => {
                    let handler = Arc::clone(&self.handler);
                    let future = begin_later(move || handler.call(arguments).begin());
                    return Some(wait(future, host.id()));
                }
                Ok(Err(refusal)) => host.answer(refusal.into()),
                Err(_) if hooks.is_some_and(HookRun::can_go_on) => {
                    return self.start(is_inline, hooks, params, slot, host);
                }
                Err(panic) => host.answer(Answer::Failed(panic.into())),
            }
            return None;
        }
        let mut spare = None;
        // Only one handler uses a slot, so the memory has the right type.
        let kept = pinned_in::<FutureOf<H, S, R>>(slot).unwrap_or(&mut spare);
        let place = kept.get_or_insert_with(|| Box::pin(None));
        // A future that has to wait becomes a task, which polls it again with the waker of the task.
        let mut noop = TaskContext::from_waker(Waker::noop());
        let mut outcome = None;
        let begun = panic_guard::catch(|| {
            match self.handler.call(self.enter(hooks, params, host)?).begin() {
                Begun::Ready(output) => outcome = Some(output.into_result()),
                Begun::Later(future) => {
                    place.set(Some(future));
                    if let Poll::Ready(output) = poll(place, &mut noop) {
                        // Stored outside of the closure: dropping the future may panic, and a panic of the
                        // output's drop during that unwinding would abort the process.
                        outcome = Some(output.into_result());
                        place.set(None);
                    }
                }
            }
            Ok::<_, Refusal>(())
        });
        match begun {
            Ok(Ok(())) => match outcome {
                Some(Ok(result)) => {
                    let mut write = |out: &mut Vec<u8>| serde_json::to_writer(out, &result);
                    host.answer(Answer::Result(&mut write));
                    drop_quietly(result);
                }
                Some(Err(error)) => host.answer(Answer::Failed(into_failure(error))),
                None => {
                    let mut place = kept.take().unwrap_or_else(|| Box::pin(None));
                    let future = std::future::poll_fn(move |cx| poll(&mut place, cx));
                    return Some(wait(future, host.id()));
                }
            },
            Ok(Err(refusal)) => host.answer(refusal.into()),
            Err(_) if hooks.is_some_and(HookRun::can_go_on) => {
                return self.start(is_inline, hooks, params, slot, host);
            }
            Err(panic) => {
                drop_quietly(outcome);
                drop_quietly(kept.take());
                host.answer(Answer::Failed(panic.into()));
            }
        }
        None
    }
}

/// A future that begins a handler when a worker polls it: the call itself may block.
fn begin_later<T, F: Future<Output = T>>(
    begin: impl FnOnce() -> Begun<T, F>,
) -> Pin<Box<impl Future<Output = T>>> {
    let (mut begin, mut place) = (Some(begin), Box::pin(None));
    // Not an `async` block, which would demand that the output is `Send`.
    Box::pin(std::future::poll_fn(move |cx| {
        match begin.take().map(|begin| begin()) {
            Some(Begun::Ready(output)) => return Poll::Ready(output),
            Some(Begun::Later(future)) => place.set(Some(future)),
            None => {}
        }
        poll(&mut place, cx)
    }))
}

/// The conversion is code of the application, and may panic.
fn into_failure(error: impl Into<Failure>) -> Failure {
    panic_guard::catch(|| error.into()).unwrap_or_else(Failure::from)
}

fn poll<F: Future>(place: &mut Pinned<F>, cx: &mut TaskContext<'_>) -> Poll<F::Output> {
    match place.as_mut().as_pin_mut() {
        Some(future) => future.poll(cx),
        // Unreachable: the callers store a future first.
        None => Poll::Pending,
    }
}

fn wait<O, E, F>(future: F, id: Option<IdRef<'_>>) -> Waiting
where
    F: Future<Output: Output<O, Value: Writable, Error: IntoFailure<E>>> + Unpin + Send + 'static,
{
    let (guarded, id) = (Guarded::new(future), id.map(IdRef::to_id));
    Box::pin(async move {
        let output = guarded.await?;
        let result = panic_guard::catch(|| output.into_result().map_err(Into::into))??;
        let Some(id) = id else {
            // A notification has no answer.
            drop_quietly(result);
            return Ok(Vec::new());
        };
        // The result stays outside of the closure: if writing it panics, unwinding must not drop it, because a
        // second panic would abort the process.
        let mut text = Vec::with_capacity(USUAL);
        let written = panic_guard::catch(|| {
            write_result_with(&mut text, &id, |out| serde_json::to_writer(out, &result))
        });
        drop_quietly(result);
        written??;
        Ok(text)
    })
}
