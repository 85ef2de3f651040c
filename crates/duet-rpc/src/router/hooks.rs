//! Hooks: the guards and observers that see a message before its handler.
//!
//! ```text
//!  arrived ──▶ guards ──▶ handler ──▶ ended: result, failure, panic, cancelled, dropped
//!                 └─────────────────▶ ended: refused
//! ```
//!
//! Every message that arrived ends exactly once, even if its connection is gone. For a handler that is ready
//! immediately, the hooks allocate nothing.
//!
//! The hooks run inside the panic guard of the handler's start. A separate panic guard around each handler would
//! cost several times as much as most observers.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use duet_rpc_proto::message::{Id, IdRef, Params};

use super::observer::{Arrival, End, Ended, SharedObserver, Stopwatch, join, notify};
use super::{Entry, Router};
use crate::context::Flag;
use crate::error::Failure;
use crate::handler::{Answer, Host, IntoFailure, Outcome, Route, Slot, Waiting};
use crate::panic_guard;

/// A function that may refuse a message.
type GuardFn = dyn Fn(&Arrival<'_>) -> Result<(), Failure> + Send + Sync;

/// A guard that several methods share, boxed for the same reason as a [`SharedObserver`].
pub(super) type SharedGuard = Arc<Box<GuardFn>>;

impl Router {
    /// Adds a guard: a function that lets each message pass to its handler, or refuses it. The failure of the guard
    /// is the answer. A guard that panics refuses with an internal error (-32603).
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
    /// Guards run in the order in which they were added, the guards of an outer router first. They run
    /// directly before the handler starts, on the thread that reads and writes. They apply to every method of
    /// this router, registered before or after, and to unknown methods. A guard costs no allocation.
    ///
    /// A guard sees only messages from clients, not messages to them: a
    /// [`broadcast`](crate::Peers::broadcast) reaches even clients whose calls are all refused, unless
    /// [`Peers::filter`](crate::Peers::filter) leaves them out.
    ///
    /// The error may be any type that converts into a [`Failure`], such as an enum with
    /// [`#[derive(RpcError)]`](derive@crate::RpcError). A closure that uses `?` or never fails needs a return type:
    /// `|message| -> Result<(), Failure> { … }`.
    #[must_use]
    pub fn guard<F, E, M>(mut self, guard: F) -> Self
    where
        F: Fn(&Arrival<'_>) -> Result<(), E> + Send + Sync + 'static,
        E: IntoFailure<M>,
    {
        let guard = move |message: &Arrival<'_>| guard(message).map_err(Into::into);
        Arc::make_mut(&mut self.routes).change_layers(|layers| {
            layers.guards.push(Arc::new(Box::new(guard)));
        });
        self
    }
}

/// The observers and guards of a handler. All observers are joined into one, and all guards into one, because most
/// handlers have at most one of each.
pub(crate) struct Hooks {
    observer: Option<SharedObserver>,
    guard: Option<SharedGuard>,
    /// Set once the observer has asked for the duration of a message. Without it, the clock is not read.
    is_timed: AtomicBool,
}

impl Hooks {
    /// Joins observers and guards; `None` if there are none.
    pub(super) fn new(observers: &[SharedObserver], guards: &[SharedGuard]) -> Option<Self> {
        let all = |first: SharedGuard, second: SharedGuard| -> SharedGuard {
            Arc::new(Box::new(move |message| first(message).and_then(|()| second(message))))
        };
        let guard = guards.iter().cloned().reduce(all);
        let hooks = Hooks { observer: join(observers), guard, is_timed: AtomicBool::new(false) };
        (hooks.observer.is_some() || hooks.guard.is_some()).then_some(hooks)
    }

    /// Starts the hooks for one message.
    #[inline]
    pub(crate) fn begin(&self, stopwatch: &mut Stopwatch) -> HookRun<'_> {
        match self.is_timed.load(Ordering::Relaxed) {
            true => stopwatch.start(),
            false => stopwatch.skip(),
        }
        HookRun { hooks: self, step: Cell::new(HookStep::New) }
    }

    /// Wraps a pending handler, so that the observers learn of its end.
    pub(crate) fn watch(
        self: &Arc<Self>,
        handler: Waiting,
        method: &Arc<str>,
        id: Option<Id>,
        begun: Instant,
        flag: impl FnOnce() -> Arc<Flag>,
    ) -> Waiting {
        if self.observer.is_none() {
            return handler;
        }
        Box::pin(ObservedHandler {
            hooks: Arc::clone(self),
            method: Arc::clone(method),
            id,
            begun,
            handler: Some(handler),
            end: None,
            flag: flag(),
        })
    }
}

/// The hooks of one message, and their progress.
pub(crate) struct HookRun<'g> {
    hooks: &'g Hooks,
    step: Cell<HookStep>,
}

#[derive(Clone, Copy)]
enum HookStep {
    New,
    /// The observer was called. It may have panicked.
    Observed,
    /// The guard was called, and has not returned yet.
    Asking,
    Passed,
}

impl HookRun<'_> {
    /// Calls the observers, then the guards. They may panic, so the caller runs this inside the panic guard of the
    /// handler.
    #[inline]
    pub(crate) fn pass(&self, params: &Params<'_>, host: &dyn Host) -> Result<(), Failure> {
        let arrival = Arrival { params, host };
        if let (HookStep::New, Some(observer)) =
            (self.step.replace(HookStep::Observed), &self.hooks.observer)
        {
            observer.arrived(&arrival);
        }
        self.step.set(HookStep::Asking);
        if let Some(guard) = &self.hooks.guard {
            guard(&arrival)?;
        }
        self.step.set(HookStep::Passed);
        Ok(())
    }

    /// Returns `true` if the panic came from the observer. Then the message continues from that step. If the guard
    /// panicked, the message is refused.
    pub(crate) fn can_go_on(&self) -> bool {
        matches!(self.step.get(), HookStep::Observed)
    }

    /// Reports the end of a message whose handler was ready immediately. The stopwatch is then ready for the next
    /// message.
    #[inline(always)]
    pub(crate) fn end(
        &self,
        method: &str,
        id: Option<IdRef<'_>>,
        mut end: End,
        stopwatch: &mut Stopwatch,
    ) {
        let Some(observer) = &self.hooks.observer else { return };
        if !matches!(self.step.get(), HookStep::Passed) {
            end = end.code().map_or(end, End::Refused);
        }
        let ended = Ended { method, id, end, stopwatch };
        notify(&***observer, |observer| observer.ended(&ended));
        if stopwatch.restart() {
            self.hooks.is_timed.store(true, Ordering::Relaxed);
        }
    }
}

/// A pending handler. Its drop reports the end to the observers, whether it completed or not.
struct ObservedHandler {
    hooks: Arc<Hooks>,
    method: Arc<str>,
    id: Option<Id>,
    begun: Instant,
    /// `None` once the handler is dropped.
    handler: Option<Waiting>,
    end: Option<End>,
    flag: Arc<Flag>,
}

impl Future for ObservedHandler {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Outcome> {
        let Some(handler) = &mut self.handler else { return Poll::Pending };
        let polled = handler.as_mut().poll(cx);
        if let Poll::Ready(outcome) = &polled {
            self.end = Some(outcome.as_ref().map_or_else(End::from_failure, |_| End::Result));
        }
        polled
    }
}

impl Drop for ObservedHandler {
    fn drop(&mut self) {
        // The handler's destructors run before its end is reported.
        self.handler = None;
        let end = self.end.unwrap_or(match self.flag.initialized() {
            true => End::Cancelled,
            false => End::Dropped,
        });
        let id = self.id.as_ref().map(IdRef::from);
        let mut stopwatch = Stopwatch::new(self.begun);
        let ended = Ended { method: &self.method, id, end, stopwatch: &stopwatch };
        if let Some(observer) = &self.hooks.observer {
            notify(&***observer, |observer| observer.ended(&ended));
        }
        if stopwatch.restart() {
            self.hooks.is_timed.store(true, Ordering::Relaxed);
        }
    }
}

/// Runs the hooks of a message in front of a route; `false` if they have refused the message.
fn pass(hooks: Option<&HookRun<'_>>, params: &Params<'_>, host: &mut dyn Host) -> bool {
    let Some(run) = hooks else { return true };
    let failure = match panic_guard::catch(|| run.pass(params, host)) {
        Ok(Ok(())) => return true,
        Ok(Err(failure)) => failure,
        Err(_) if run.can_go_on() => return pass(hooks, params, host),
        Err(panic) => panic.into(),
    };
    host.answer(Answer::Failed(failure));
    false
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
    ) -> Option<Waiting> {
        if pass(hooks, params, host) {
            host.answer(Answer::UnknownMethod);
        }
        None
    }
}

/// The route of a notification with subscriptions. The subscriptions get the notification after the hooks and
/// before the handler.
struct Subscribed<D> {
    deliver: D,
    /// The route of the method; `None` if the method is unknown.
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
    ) -> Option<Waiting> {
        if !pass(hooks, params, host) {
            return None;
        }
        (self.deliver)(host.method(), params);
        if let Some(handler) = &self.handler {
            return handler.start(is_inline, None, params, slot, host);
        }
        // A notification has no answer, so nothing is written.
        host.answer(Answer::Result(&mut |_| Ok(())));
        None
    }
}

impl Router {
    /// Makes the entry for a notification with subscriptions. If there are no hooks and no handler, it
    /// returns the function that hands out the notification instead.
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
