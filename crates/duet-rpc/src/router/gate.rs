//! Gate: the guards and observers that a message passes before its handler.
//!
//! ```text
//!  arrived ──▶ guards ──▶ handler ──▶ ended: result, failure, panic, cancelled, dropped
//!                 └─────────────────▶ ended: refused
//! ```
//!
//! Every message that arrived ends exactly once, even if its connection is gone. A handler that is ready
//! immediately passes without an allocation.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use duet_rpc_proto::message::{Code, Id, IdRef, Params};
use tokio::time::Instant;

use super::Router;
use crate::context::Flag;
use crate::error::Failure;
use crate::handler::{Answer, Answered, Host, Outcome, Route, Slot, Waiting};
use crate::panic_guard;
use crate::peer::Peer;

/// A function that may refuse a message.
pub(super) type Guard = dyn Fn(&Arrival<'_>) -> Result<(), Failure> + Send + Sync;

/// A message that has arrived, as guards and observers see it.
pub struct Arrival<'a> {
    method: &'a str,
    params: &'a Params<'a>,
    host: RefCell<&'a mut dyn Host>,
}

impl Arrival<'_> {
    /// The method that is called.
    pub fn method(&self) -> &str {
        self.method
    }

    /// The params, not read yet.
    pub fn params(&self) -> &Params<'_> {
        self.params
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.host.borrow().id().map(IdRef::to_id)
    }

    /// Whether it is a request, which is answered, and not a notification.
    pub fn is_request(&self) -> bool {
        self.host.borrow().id().is_some()
    }

    /// The connection that the message came on, with the values that handlers
    /// [keep](Peer::extension) there.
    pub fn peer(&self) -> Peer {
        self.host.borrow_mut().peer()
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("method", &self.method).finish_non_exhaustive()
    }
}

/// How the handling of a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The handler returned a result.
    Result,
    /// The handler failed, or could not be called: the code of the error.
    Failure(i64),
    /// The handler panicked.
    Panic,
    /// The request was cancelled, and its handler dropped.
    Cancelled,
    /// A guard refused the message: the code of the error.
    Refused(i64),
    /// The handler was dropped because its connection or its runtime ended, or because there was no room for
    /// its answer.
    Dropped,
}

/// A message whose handling has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    method: &'a str,
    id: Option<IdRef<'a>>,
    end: End,
    begun: Instant,
}

impl Ended<'_> {
    /// The method that was called.
    pub fn method(&self) -> &str {
        self.method
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.id.map(IdRef::to_id)
    }

    /// How it ended.
    pub fn end(&self) -> End {
        self.end
    }

    /// The time since it began: after it has waited for its turn, and before its guards.
    pub fn took(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Observes messages: for metrics and audit. See [`Router::observe`].
///
/// The methods run on the thread that reads and writes, or where the handler ran, so they should return
/// quickly. A panic in them is ignored.
pub trait Observer: Send + Sync + 'static {
    /// A message is about to pass the guards and to be handled.
    fn arrived(&self, message: &Arrival<'_>) {
        let _ = message;
    }

    /// The handling of a message has ended; called exactly once for each that arrived.
    fn ended(&self, message: &Ended<'_>) {
        let _ = message;
    }
}

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
    #[must_use]
    pub fn guard<F>(mut self, guard: F) -> Self
    where
        F: Fn(&Arrival<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.guards.push(Arc::new(guard)));
        self
    }

    /// Tells an observer of each message that arrives, and how it ended.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use duet_rpc::{End, Ended, Observer, Router};
    ///
    /// #[derive(Default)]
    /// struct Failures(AtomicU64);
    ///
    /// impl Observer for Failures {
    ///     fn ended(&self, message: &Ended<'_>) {
    ///         if message.end() != End::Result {
    ///             self.0.fetch_add(1, Ordering::Relaxed);
    ///         }
    ///     }
    /// }
    ///
    /// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b).observe(Failures::default());
    /// ```
    ///
    /// It applies to everything in this router, registered before or after, even to unknown methods. Messages
    /// that never begin are not observed: those that are refused because the connection is busy, and those
    /// that are cancelled while they wait. A handler that is ready immediately costs no allocation for it, one
    /// that waits costs two.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer) -> Self {
        let observer = Arc::new(observer);
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.observers.push(observer));
        self
    }
}

/// A handler behind observers and guards.
pub(super) struct Gate {
    observers: Arc<[Arc<dyn Observer>]>,
    guards: Box<[Arc<Guard>]>,
    inner: Arc<dyn Route>,
}

impl Gate {
    pub(super) fn new(
        observers: &[Arc<dyn Observer>],
        guards: &[Arc<Guard>],
        inner: Arc<dyn Route>,
    ) -> Self {
        Gate { observers: observers.into(), guards: guards.into(), inner }
    }

    /// Tells the observers, and asks the guards. One panic guard serves all of them, because entering it costs
    /// more than most of them do.
    #[inline]
    fn pass(&self, arrival: &Arrival<'_>) -> Result<(), Failure> {
        let mut observers = self.observers.iter();
        loop {
            let mut is_asking = false;
            let passed = panic_guard::catch(|| {
                observers.by_ref().for_each(|observer| observer.arrived(arrival));
                is_asking = true;
                self.guards.iter().try_for_each(|guard| guard(arrival))
            });
            match passed {
                Ok(passed) => return passed,
                Err(panic) if is_asking => return Err(panic.into()),
                // An observer that panics keeps no other from its work.
                Err(_) => {}
            }
        }
    }
}

impl Route for Gate {
    fn start(
        &self,
        is_inline: bool,
        params: &Params<'_>,
        slot: &mut Slot,
        host: &mut dyn Host,
    ) -> Option<Waiting> {
        let method = Arc::clone(host.method());
        let begun = (!self.observers.is_empty()).then(Instant::now);
        let arrival = Arrival { method: &method, params, host: RefCell::new(host) };
        let passed = self.pass(&arrival);
        let host = arrival.host.into_inner();
        let is_refused = passed.is_err();
        let waiting = match passed {
            Ok(()) => self.inner.start(is_inline, params, slot, host),
            Err(failure) => {
                host.answer(Answer::Failed(failure));
                None
            }
        };
        let Some(begun) = begun else { return waiting };
        match waiting {
            None => {
                let end = match host.answered() {
                    None => End::Dropped,
                    Some(Answered::Result) => End::Result,
                    Some(Answered::Error(code)) if is_refused => End::Refused(code.0),
                    Some(Answered::Error(code)) => End::Failure(code.0),
                    Some(Answered::Panic) => match is_refused {
                        true => End::Refused(Code::INTERNAL_ERROR.0),
                        false => End::Panic,
                    },
                };
                tell(&self.observers, &method, host.id(), end, begun);
                None
            }
            Some(handler) => Some(Box::pin(Watched {
                id: host.id().map(IdRef::to_id),
                flag: host.flag(),
                observers: Arc::clone(&self.observers),
                handler: Some(handler),
                end: None,
                method,
                begun,
            })),
        }
    }
}

#[inline]
fn tell(
    observers: &[Arc<dyn Observer>],
    method: &str,
    id: Option<IdRef<'_>>,
    end: End,
    begun: Instant,
) {
    let ended = Ended { method, id, end, begun };
    let mut observers = observers.iter();
    // An observer that panics keeps no other from its work.
    while panic_guard::catch(|| observers.by_ref().for_each(|it| it.ended(&ended))).is_err() {}
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
    observers: Arc<[Arc<dyn Observer>]>,
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
        tell(&self.observers, &self.method, id, end, self.begun);
    }
}

/// The route of unknown methods.
pub(super) struct Unknown;

impl Route for Unknown {
    fn start(&self, _: bool, _: &Params<'_>, _: &mut Slot, host: &mut dyn Host) -> Option<Waiting> {
        host.answer(Answer::UnknownMethod);
        None
    }
}
