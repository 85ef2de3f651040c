//! Observers: report the start and end of received messages and of sent calls.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Code, Id, IdRef, Params};

use super::Router;
use crate::error::Failure;
use crate::handler::Host;
use crate::panic_guard;
use crate::peer::Peer;
use crate::remote::Identity;

/// A received message before its handler runs, as guards and observers see it.
pub struct Arrival<'a> {
    pub(super) params: &'a Params<'a>,
    pub(super) host: &'a dyn Host,
}

impl Arrival<'_> {
    /// The called method.
    pub fn method(&self) -> &str {
        self.host.method()
    }

    /// The params, not deserialised yet.
    pub fn params(&self) -> &Params<'_> {
        self.params
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.host.id().map(IdRef::to_id)
    }

    /// Returns `true` for a request, and `false` for a notification.
    pub fn is_request(&self) -> bool {
        self.host.id().is_some()
    }

    /// The authenticated identity of the sender; see [`Peer::identity`].
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new().method("stop", || {}).guard(|message| match message.identity() {
    ///     Some(user) if user.is_own_user() => Ok(()),
    ///     _ => Err(Failure::new(-32001, "Not allowed")),
    /// });
    /// ```
    pub fn identity(&self) -> Option<&Identity> {
        self.host.remote().identity()
    }

    /// The address of the remote; see [`Peer::remote_addr`].
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.host.remote().addr()
    }

    /// The headers of the HTTP request; see [`Remote::headers`](crate::Remote::headers).
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new().method("stop", || {}).guard(|message| {
    ///     match message.headers().and_then(|headers| headers.get("x-tenant")) {
    ///         Some(tenant) if tenant == "acme" => Ok(()),
    ///         _ => Err(Failure::new(-32001, "Not allowed")),
    ///     }
    /// });
    /// ```
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        self.host.remote().headers()
    }

    /// The connection on which the message arrived, with its [extensions](Peer::extension).
    pub fn peer(&self) -> Peer {
        self.host.peer()
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("method", &self.method()).finish_non_exhaustive()
    }
}

/// The outcome of a received message, or of a call that this peer sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The handler returned a result, or the remote answered the call with a result.
    Result,
    /// The handler failed or could not be called, or the remote answered the call with an error. The number is the
    /// code of the error.
    Failure(i64),
    /// The handler panicked.
    Panic,
    /// The request was cancelled and its handler dropped, or the caller dropped the call.
    Cancelled,
    /// A guard refused the message. The number is the code of the error.
    Refused(i64),
    /// The handler was dropped because its connection or runtime ended, or because its answer did not fit into the
    /// send queue. For a call: its connection ended before the answer came.
    Dropped,
    /// No answer to the call came in time.
    Timeout,
    /// The transport could not deliver the answer to the call, or the answer is invalid.
    Unusable,
}

impl End {
    /// The end of a handler that failed.
    pub(crate) fn from_failure(failure: &Failure) -> Self {
        match failure.is_panic() {
            true => End::Panic,
            false => End::Failure(failure.object().code().0),
        }
    }

    /// The code of the error that the remote gets.
    pub(crate) fn code(self) -> Option<i64> {
        match self {
            End::Failure(code) | End::Refused(code) => Some(code),
            End::Panic => Some(Code::INTERNAL_ERROR.0),
            _ => None,
        }
    }
}

/// A received message, or a sent call, that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    pub(super) method: &'a str,
    pub(super) id: Option<IdRef<'a>>,
    pub(super) end: End,
    pub(super) stopwatch: &'a Stopwatch,
}

impl Ended<'_> {
    /// The called method.
    pub fn method(&self) -> &str {
        self.method
    }

    /// The id of the request or call; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.id.map(IdRef::to_id)
    }

    /// The outcome.
    pub fn end(&self) -> End {
        self.end
    }

    /// The duration. For a received message it counts from the message's turn, before its guards. For a call it
    /// counts from the sending.
    ///
    /// The clock is read for a method only after an observer has called this function for it once. So the first duration
    /// of a method may include handlers that ran before it for messages that arrived together.
    pub fn took(&self) -> Duration {
        self.stopwatch.took()
    }
}

/// A call or a notification that this peer sent.
#[derive(Debug)]
pub struct SentMessage<'a> {
    pub(super) method: &'a str,
    pub(super) id: Option<&'a Id>,
}

impl SentMessage<'_> {
    /// The method of the remote.
    pub fn method(&self) -> &str {
        self.method
    }

    /// The id of the call; `None` for a notification.
    pub fn id(&self) -> Option<&Id> {
        self.id
    }
}

/// The observers of the messages that a peer sends, joined into one.
pub(crate) struct SendObserver(SharedObserver);

impl SendObserver {
    /// Reports a sent call, or a notification, which has no id.
    pub(crate) fn sent(&self, method: &str, id: Option<&Id>) {
        let sent = SentMessage { method, id };
        notify(&**self.0, |observer| observer.sent(&sent));
    }

    /// Watches a call, to report its end.
    pub(crate) fn watch(&self, method: &str, id: &Id, begun: Instant) -> CallWatch {
        let (observer, method) = (Some(Arc::clone(&self.0)), method.into());
        CallWatch { observer, method, id: id.clone(), begun, end: End::Dropped }
    }
}

/// Reports the end of a call when it is dropped. A call without an explicit end lost its connection.
pub(crate) struct CallWatch {
    observer: Option<SharedObserver>,
    method: Box<str>,
    id: Id,
    begun: Instant,
    end: End,
}

impl CallWatch {
    pub(crate) fn end(mut self, end: End) {
        self.end = end;
    }

    /// Reports nothing, because the call was never sent.
    pub(crate) fn forget(mut self) {
        self.observer = None;
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        let Some(observer) = &self.observer else { return };
        let (method, id, end) = (&*self.method, Some(IdRef::from(&self.id)), self.end);
        let stopwatch = &Stopwatch::new(self.begun);
        let ended = Ended { method, id, end, stopwatch };
        notify(&***observer, |observer| observer.answered(&ended));
    }
}

/// The duration of a message. Only the first request reads the clock, because that costs as much as an observer.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    begun: Instant,
    ended: Cell<Option<Instant>>,
    /// `true` if a handler has run since `begun`.
    is_stale: bool,
}

impl Stopwatch {
    pub(crate) fn new(begun: Instant) -> Self {
        Stopwatch { begun, ended: Cell::new(None), is_stale: false }
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// Starts a message whose duration somebody may ask for. Reads the clock only if a handler has run since it was
    /// read.
    #[inline]
    pub(super) fn start(&mut self) {
        if std::mem::replace(&mut self.is_stale, true) {
            self.begun = now();
        }
    }

    /// Notes that a message begins whose duration nobody asks for.
    #[inline(always)]
    pub(crate) fn skip(&mut self) {
        self.is_stale = true;
    }

    /// Starts the next message at the end of this one, if an observer has asked for the duration. Returns `true` if so.
    #[inline(always)]
    pub(super) fn restart(&mut self) -> bool {
        let Some(ended) = self.ended.take() else { return false };
        (self.begun, self.is_stale) = (ended, false);
        true
    }

    fn took(&self) -> Duration {
        let ended = self.ended.get().unwrap_or_else(now);
        self.ended.set(Some(ended));
        ended.saturating_duration_since(self.begun)
    }
}

/// The current time of tokio's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Observes messages, for metrics and audit logs. See [`Router::observe`].
///
/// The methods run on the thread that reads and writes, or on the thread of the handler, so they should return
/// quickly. The library ignores panics in them.
pub trait Observer: Send + Sync + 'static {
    /// Called before a message passes the guards.
    fn arrived(&self, message: &Arrival<'_>) {
        let _ = message;
    }

    /// Called when a message has ended, exactly once for each message that arrived.
    fn ended(&self, message: &Ended<'_>) {
        let _ = message;
    }

    /// Called when this peer sends a call or a notification. A call may still wait in the send queue.
    fn sent(&self, message: &SentMessage<'_>) {
        let _ = message;
    }

    /// Called when a sent call has ended, exactly once for each call.
    fn answered(&self, call: &Ended<'_>) {
        let _ = call;
    }
}

/// An observer that several methods share. The box saves instructions: a call through `Arc<dyn Observer>` computes
/// the place of the value from its alignment each time.
pub(super) type SharedObserver = Arc<Box<dyn Observer>>;

/// Two observers joined into one. If the first panics, the second is still called.
struct Both(SharedObserver, SharedObserver);

impl Observer for Both {
    fn arrived(&self, message: &Arrival<'_>) {
        notify(&**self.0, |first| first.arrived(message));
        self.1.arrived(message);
    }

    fn ended(&self, message: &Ended<'_>) {
        notify(&**self.0, |first| first.ended(message));
        self.1.ended(message);
    }

    fn sent(&self, message: &SentMessage<'_>) {
        notify(&**self.0, |first| first.sent(message));
        self.1.sent(message);
    }

    fn answered(&self, call: &Ended<'_>) {
        notify(&**self.0, |first| first.answered(call));
        self.1.answered(call);
    }
}

/// Joins all observers into one.
pub(super) fn join(observers: &[SharedObserver]) -> Option<SharedObserver> {
    observers.iter().cloned().reduce(|first, second| Arc::new(Box::new(Both(first, second))))
}

/// Calls a method of an observer, and ignores a panic.
#[inline]
pub(super) fn notify(observer: &dyn Observer, call: impl FnOnce(&dyn Observer)) {
    let _ = panic_guard::catch(|| call(observer));
}

impl Router {
    /// Adds an observer, which sees the arrival and the end of each message.
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
    /// It observes every method of this router, registered before or after, and unknown methods. It does not see
    /// messages that never begin: those refused because the connection is busy, and those cancelled while they
    /// wait.
    ///
    /// It also sees the calls and notifications that the peer sends, if it belongs to the peer's own router.
    /// Observers of merged and nested routers do not see them.
    ///
    /// Observers cost no allocation for a handler that is ready immediately, and two for any other handler.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer) -> Self {
        let observer: SharedObserver = Arc::new(Box::new(observer));
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.observers.push(observer));
        self
    }

    /// The observers of the messages that a peer with this router sends.
    pub(crate) fn send_observer(&self) -> Option<SendObserver> {
        join(&self.routes.layers.observers).map(SendObserver)
    }
}
