//! Observers: told when messages begin and end, and when messages of ours are sent and answered.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duet_rpc_proto::message::{Id, IdRef, Params};

use super::Router;
use crate::handler::Host;
use crate::panic_guard;
use crate::peer::Peer;
use crate::remote::Identity;

/// A message that has arrived, as guards and observers see it.
pub struct Arrival<'a> {
    pub(super) params: &'a Params<'a>,
    pub(super) host: &'a dyn Host,
}

impl Arrival<'_> {
    /// The method that is called.
    pub fn method(&self) -> &str {
        self.host.method()
    }

    /// The params, not read yet.
    pub fn params(&self) -> &Params<'_> {
        self.params
    }

    /// The id of the request; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.host.id().map(IdRef::to_id)
    }

    /// Returns `true` for a request, which is answered, and `false` for a notification.
    pub fn is_request(&self) -> bool {
        self.host.id().is_some()
    }

    /// The identity that the sender of this message has proved; see [`Peer::identity`].
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
        self.host.identity()
    }

    /// The address of the remote; see [`Peer::remote_addr`].
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.host.remote_addr()
    }

    /// The connection that the message came on, with the values that handlers
    /// [keep](Peer::extension) there.
    pub fn peer(&self) -> Peer {
        self.host.peer()
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("method", &self.method()).finish_non_exhaustive()
    }
}

/// The end of a message that was handled, or of a call of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The handler, or the remote that we called, returned a result.
    Result,
    /// The handler failed, or could not be called, or the remote that we called answered with an error: the code
    /// of the error.
    Failure(i64),
    /// The handler panicked.
    Panic,
    /// The request was cancelled, and its handler dropped; or our caller dropped the call.
    Cancelled,
    /// A guard refused the message: the code of the error.
    Refused(i64),
    /// The handler was dropped because its connection or its runtime ended, or because there was no room for
    /// its answer; or the connection of our call ended before the answer came.
    Dropped,
    /// No answer to our call came in time.
    Timeout,
    /// The transport could not bring the answer to our call, or the answer is not valid.
    Unusable,
}

/// A message whose handling has ended, or a call of ours that has ended.
#[derive(Debug)]
pub struct Ended<'a> {
    pub(super) method: &'a str,
    pub(super) id: Option<IdRef<'a>>,
    pub(super) end: End,
    pub(super) stopwatch: Stopwatch,
}

impl Ended<'_> {
    /// The method that was called, here or at the remote.
    pub fn method(&self) -> &str {
        self.method
    }

    /// The id of the request or of our call; `None` for a notification.
    pub fn id(&self) -> Option<Id> {
        self.id.map(IdRef::to_id)
    }

    /// The kind of its end.
    pub fn end(&self) -> End {
        self.end
    }

    /// The time since its turn came, before its guards; for a call of ours since it was sent. The clock is read only if an observer asks: of messages
    /// that arrived together, the first counts from their arrival, and the next from the end of the last one
    /// before it whose time an observer has asked for.
    pub fn took(&self) -> Duration {
        self.stopwatch.took()
    }
}

/// A call or a notification of ours that was sent.
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

/// The observers of the messages that a peer sends, as one.
pub(crate) struct SendObserver(Arc<dyn Observer>);

impl SendObserver {
    /// Tells of a call, or of a notification, which has no id.
    pub(crate) fn sent(&self, method: &str, id: Option<&Id>) {
        let sent = SentMessage { method, id };
        tell(&*self.0, |observer| observer.sent(&sent));
    }

    /// Watches a call, to tell of its end.
    pub(crate) fn watch(&self, method: &str, id: &Id, begun: Instant) -> CallWatch {
        let (observer, method) = (Some(Arc::clone(&self.0)), method.into());
        CallWatch { observer, method, id: id.clone(), begun, end: End::Dropped }
    }
}

/// Tells of the end of a call when it is dropped. A call that nobody ends has lost its connection.
pub(crate) struct CallWatch {
    observer: Option<Arc<dyn Observer>>,
    method: Box<str>,
    id: Id,
    begun: Instant,
    end: End,
}

impl CallWatch {
    pub(crate) fn end(mut self, end: End) {
        self.end = end;
    }

    /// Tells nobody, because the call was never sent.
    pub(crate) fn forget(mut self) {
        self.observer = None;
    }
}

impl Drop for CallWatch {
    fn drop(&mut self) {
        let Some(observer) = &self.observer else { return };
        let (method, id, end) = (&*self.method, Some(IdRef::from(&self.id)), self.end);
        let ended = Ended { method, id, end, stopwatch: Stopwatch::new(self.begun) };
        tell(&**observer, |observer| observer.answered(&ended));
    }
}

/// A time that is read once, by whoever asks first: a clock costs as much as a whole observer.
#[derive(Debug)]
pub(super) struct Stopwatch {
    begun: Instant,
    ended: Cell<Option<Instant>>,
}

impl Stopwatch {
    pub(super) fn new(begun: Instant) -> Self {
        Stopwatch { begun, ended: Cell::new(None) }
    }

    /// The time of the end, if somebody has asked for it.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended.get()
    }

    fn took(&self) -> Duration {
        let ended = self.ended.get().unwrap_or_else(now);
        self.ended.set(Some(ended));
        ended.saturating_duration_since(self.begun)
    }
}

/// The time, by tokio's clock, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
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

    /// A call or a notification of ours was sent. A call may still wait for room in the connection.
    fn sent(&self, message: &SentMessage<'_>) {
        let _ = message;
    }

    /// A call of ours has ended; called exactly once for each that was sent.
    fn answered(&self, call: &Ended<'_>) {
        let _ = call;
    }
}

/// Two observers as one. If the first panics, the second is told all the same.
struct Both(Arc<dyn Observer>, Arc<dyn Observer>);

impl Observer for Both {
    fn arrived(&self, message: &Arrival<'_>) {
        tell(&*self.0, |first| first.arrived(message));
        self.1.arrived(message);
    }

    fn ended(&self, message: &Ended<'_>) {
        tell(&*self.0, |first| first.ended(message));
        self.1.ended(message);
    }

    fn sent(&self, message: &SentMessage<'_>) {
        tell(&*self.0, |first| first.sent(message));
        self.1.sent(message);
    }

    fn answered(&self, call: &Ended<'_>) {
        tell(&*self.0, |first| first.answered(call));
        self.1.answered(call);
    }
}

/// All observers as one.
pub(super) fn join(observers: &[Arc<dyn Observer>]) -> Option<Arc<dyn Observer>> {
    observers.iter().cloned().reduce(|first, second| Arc::new(Both(first, second)))
}

/// Calls a method of an observer. A panic in it is ignored.
#[inline]
pub(super) fn tell(observer: &dyn Observer, told: impl FnOnce(&dyn Observer)) {
    let _ = panic_guard::catch(|| told(observer));
}

impl Router {
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
    /// that are cancelled while they wait. The observers of a peer's own router, and not those of routers that
    /// were merged or nested into it, see the calls and notifications that the peer sends, too. A handler that is ready immediately costs no allocation for it, one
    /// that waits costs two.
    #[must_use]
    pub fn observe(mut self, observer: impl Observer) -> Self {
        let observer = Arc::new(observer);
        Arc::make_mut(&mut self.routes).change_layers(|layers| layers.observers.push(observer));
        self
    }

    /// The observers of the messages that a peer with this router sends.
    pub(crate) fn send_observer(&self) -> Option<SendObserver> {
        join(&self.routes.layers.observers).map(SendObserver)
    }
}
