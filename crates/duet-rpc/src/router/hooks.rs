//! Hooks: the guards and observers that see a message before its handler.
//!
//! ```text
//!  arrived ──▶ guards ──▶ handler ──▶ ended: result, failure, panic, cancelled, dropped
//!                 └─────────────────▶ ended: refused
//! ```
//!
//! Every message that arrived ends exactly once, even if its connection is gone. A handler that is ready
//! immediately passes without an allocation.
//!
//! A message passes inside the panic guard of its handler's start, because a layer with a guard of its own
//! around each handler would cost several times as much as most observers do.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use duet_rpc_proto::message::{Code, Id, IdRef, Params};

use super::observer::{Arrival, End, Ended, Observer, Stopwatch, join, tell};
use super::{Entry, Router};
use crate::context::Flag;
use crate::error::Failure;
use crate::handler::{Answer, Answered, Host, IntoFailure, Outcome, Route, Slot, Started, Waiting};
use crate::panic_guard;

/// A function that may refuse a message.
pub(super) type Guard = dyn Fn(&Arrival<'_>) -> Result<(), Failure> + Send + Sync;

impl Router {
    /// Lets a function decide on each message whether it may go on to its handler. Its failure is the answer;
    /// a guard that panics refuses with an internal error (-32603).
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use duet_rpc::{Failure, Router};
    ///
    /// #[derive(Default)]
    /// struct Login(AtomicBool);
    ///
    /// let router = Router::new().method("secret", async || 42).guard(|message| {
    ///     match message.peer().extension::<Login>().0.load(Ordering::Relaxed) {
    ///         true => Ok(()),
    ///         false => Err(Failure::new(-32001, "Not logged in")),
    ///     }
    /// });
    /// ```
    ///
    /// Guards run in the order in which they were added, those of an outer router first, on the thread that
    /// reads and writes, when the message's turn has come. They apply to everything in this router, registered
    /// before or after, even to unknown methods. A guard costs no allocation.
    ///
    /// The error is anything that converts into a [`Failure`], such as an enum with
    /// [`#[derive(RpcError)]`](derive@crate::RpcError). A closure that uses `?`, or never fails, writes its type:
    /// `|message| -> Result<(), Failure> { … }`.
    #[must_use]
    pub fn guard<F, E, M>(mut self, guard: F) -> Self
    where
        F: Fn(&Arrival<'_>) -> Result<(), E> + Send + Sync + 'static,
        E: IntoFailure<M>,
    {
        let guard = move |message: &Arrival<'_>| guard(message).map_err(Into::into);
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.guards.push(Arc::new(guard)));
        self
    }
}

/// The observers and guards of a handler, each joined into one: most have no more, and need no list.
pub(crate) struct Hooks {
    observer: Option<Arc<dyn Observer>>,
    guard: Option<Arc<Guard>>,
}

impl Hooks {
    /// `None` if there is nothing to pass.
    pub(super) fn new(observers: &[Arc<dyn Observer>], guards: &[Arc<Guard>]) -> Option<Self> {
        let all = |first: Arc<Guard>, second: Arc<Guard>| -> Arc<Guard> {
            Arc::new(move |message| first(message).and_then(|()| second(message)))
        };
        let hooks = Hooks { observer: join(observers), guard: guards.iter().cloned().reduce(all) };
        (hooks.observer.is_some() || hooks.guard.is_some()).then_some(hooks)
    }

    /// Begins the run of a message.
    #[inline]
    pub(crate) fn begin(&self) -> HookRun<'_> {
        HookRun { hooks: self, step: Cell::new(Step::New) }
    }

    /// Tells the observers of the end of a handler that waits, when it comes.
    pub(crate) fn watch(
        &self,
        handler: Waiting,
        method: &Arc<str>,
        id: Option<Id>,
        begun: Instant,
        flag: impl FnOnce() -> Arc<Flag>,
    ) -> Waiting {
        let Some(observer) = &self.observer else { return handler };
        Box::pin(Watched {
            observer: Arc::clone(observer),
            method: Arc::clone(method),
            id,
            begun,
            handler: Some(handler),
            end: None,
            flag: flag(),
        })
    }
}

/// The hooks of one message, and how far they have run.
pub(crate) struct HookRun<'g> {
    hooks: &'g Hooks,
    step: Cell<Step>,
}

#[derive(Clone, Copy)]
enum Step {
    New,
    /// The observer is told, unless it has panicked.
    Observed,
    /// The guard is asked, and has not agreed yet.
    Asking,
    Passed,
}

impl HookRun<'_> {
    /// Tells the observers, and asks the guards. It may panic where they do, so it is called inside the panic
    /// guard of the handler.
    #[inline]
    pub(crate) fn pass(&self, params: &Params<'_>, host: &dyn Host) -> Result<(), Failure> {
        let arrival = Arrival { params, host };
        if let (Step::New, Some(observer)) =
            (self.step.replace(Step::Observed), &self.hooks.observer)
        {
            observer.arrived(&arrival);
        }
        self.step.set(Step::Asking);
        if let Some(guard) = &self.hooks.guard {
            guard(&arrival)?;
        }
        self.step.set(Step::Passed);
        Ok(())
    }

    /// Returns `true` if the observer has panicked. That is ignored, and the message goes on from there. A guard
    /// that panics refuses.
    pub(crate) fn can_go_on(&self) -> bool {
        matches!(self.step.get(), Step::Observed)
    }

    /// Tells the observers how a message ended whose handler did not wait. The clock has the time at which it
    /// began, and takes the time at which it ended if an observer asks for it.
    #[inline]
    pub(crate) fn end(
        &self,
        method: &str,
        id: Option<IdRef<'_>>,
        answered: Answered,
        clock: &mut Instant,
    ) {
        let Some(observer) = &self.hooks.observer else { return };
        let is_refused = !matches!(self.step.get(), Step::Passed);
        let end = match answered {
            Answered::Result => End::Result,
            Answered::Error(code) if is_refused => End::Refused(code.0),
            Answered::Error(code) => End::Failure(code.0),
            Answered::Panic if is_refused => End::Refused(Code::INTERNAL_ERROR.0),
            Answered::Panic => End::Panic,
        };
        let ended = Ended { method, id, end, stopwatch: Stopwatch::new(*clock) };
        tell(&**observer, |observer| observer.ended(&ended));
        *clock = ended.stopwatch.ended().unwrap_or(*clock);
    }
}

/// The end that a failure is.
fn end_of(failure: &Failure) -> End {
    match failure.is_panic() {
        true => End::Panic,
        false => End::Failure(failure.object().code().0),
    }
}

/// A handler that waits, and whose end is told when it is dropped, in whatever way it has ended.
struct Watched {
    observer: Arc<dyn Observer>,
    method: Arc<str>,
    id: Option<Id>,
    begun: Instant,
    /// `None` once it is dropped.
    handler: Option<Waiting>,
    end: Option<End>,
    flag: Arc<Flag>,
}

impl Future for Watched {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        let Some(handler) = &mut self.handler else { return Poll::Pending };
        let polled = handler.as_mut().poll(cx);
        if let Poll::Ready(outcome) = &polled {
            self.end = Some(outcome.as_ref().map_or_else(end_of, |_| End::Result));
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Its own destructors run before it counts as ended.
        self.handler = None;
        let end = self.end.unwrap_or(match self.flag.initialized() {
            true => End::Cancelled,
            false => End::Dropped,
        });
        let id = self.id.as_ref().map(IdRef::from);
        let stopwatch = Stopwatch::new(self.begun);
        let ended = Ended { method: &self.method, id, end, stopwatch };
        tell(&*self.observer, |observer| observer.ended(&ended));
    }
}

/// Runs the hooks of a message in front of a route; the answer if they refuse.
fn pass(
    hooks: Option<&HookRun<'_>>,
    params: &Params<'_>,
    host: &mut dyn Host,
) -> Result<(), Answered> {
    let Some(run) = hooks else { return Ok(()) };
    let failure = match panic_guard::catch(|| run.pass(params, host)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(failure)) => failure,
        Err(_) if run.can_go_on() => return pass(hooks, params, host),
        Err(panic) => panic.into(),
    };
    Err(host.answer(Answer::Failed(failure)))
}

/// The route of unknown methods.
pub(super) struct Unknown;

impl Route for Unknown {
    fn start(
        &self,
        _: bool,
        hooks: Option<&HookRun<'_>>,
        params: &Params<'_>,
        _: &mut Slot,
        host: &mut dyn Host,
    ) -> Started {
        let passed = pass(hooks, params, host);
        Started::Answered(match passed {
            Ok(()) => host.answer(Answer::UnknownMethod),
            Err(answered) => answered,
        })
    }
}

/// The route of a notification with subscriptions. The subscriptions stand behind the hooks, before the handler.
struct Subscribed<D> {
    deliver: D,
    /// `None` if the method is unknown.
    handler: Option<Arc<dyn Route>>,
}

impl<D: Fn(&str, &Params<'_>) + Send + Sync> Route for Subscribed<D> {
    fn start(
        &self,
        is_inline: bool,
        hooks: Option<&HookRun<'_>>,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Started {
        if let Err(answered) = pass(hooks, params, host) {
            return Started::Answered(answered);
        }
        (self.deliver)(host.method(), params);
        match &self.handler {
            Some(handler) => handler.start(is_inline, None, params, slot, host),
            // A notification has no answer, so nothing is written.
            None => Started::Answered(host.answer(Answer::Result(&mut |_| Ok(())))),
        }
    }
}

impl Router {
    /// The entry for a notification with subscriptions. Gives the function back that hands the notification to
    /// them, if nothing else sees it.
    pub(crate) fn find_subscribed<D>(&self, method: &str, deliver: D) -> Result<Arc<Entry>, D>
    where
        D: Fn(&str, &Params<'_>) + Send + Sync + 'static,
    {
        let routes = &self.routes;
        let known = routes.by_name.get(method).or_else(|| routes.find_fallback(method));
        let Some(entry) = known.or(routes.unknown.as_ref()) else { return Err(deliver) };
        let handler = known.map(|entry| Arc::clone(&entry.route));
        let route = Arc::new(Subscribed { deliver, handler });
        Ok(Arc::new(Entry { name: method.into(), route, ..Entry::clone(entry) }))
    }
}
