//! Which handler serves which method.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::LaneOf;

use crate::handler::{Handler, Route, Typed};
use crate::names::ByName;

/// The methods that a peer serves. It is cheap to clone, and many connections can share one.
///
/// A method is called by requests and by notifications alike; the result for a notification is
/// dropped.
///
/// ```
/// use duet_rpc::{Context, Failure, Router};
/// use serde::Deserialize;
/// use serde_json::value::RawValue;
///
/// #[derive(Deserialize)]
/// struct Range { from: u32, to: u32 }
///
/// async fn version() -> Result<&'static str, Failure> { Ok("1.0") }
///
/// let router = Router::new()
///     .method("version", version)
///     .method("add", async |(a, b): (i64, i64)| Ok::<_, Failure>(a + b))
///     .method("length", async |range: Range| Ok::<_, Failure>(range.to - range.from))
///     .method("echo", async |raw: Box<RawValue>| Ok::<_, Failure>(raw))
///     .method("whoami", async |cx: Context| Ok::<_, Failure>(cx.id().map(ToString::to_string)));
/// assert_eq!(router.methods().count(), 5);
/// ```
#[derive(Clone, Default)]
pub struct Router {
    routes: Arc<Routes>,
}

#[derive(Clone, Default)]
struct Routes {
    by_name: ByName<Arc<Entry>>,
    lane_of: Option<LaneOf>,
}

/// A method, and what is known of it.
pub(crate) struct Entry {
    pub(crate) name: Box<str>,
    /// Tells it from the others of its router: a number from 0 on.
    pub(crate) index: usize,
    pub(crate) route: Arc<dyn Route>,
    /// Whether its arrival closes the connection.
    pub(crate) closes: bool,
    pace: Mutex<()>,
    /// Rung when the pace becomes known.
    known: Condvar,
    /// The pace, to be read without the lock.
    pace_now: AtomicU8,
}

/// A handler's pace: whether it may run in place. A number from `SLOW` down to 1 says how many times in
/// a row it still has to be quick elsewhere before it may.
const UNKNOWN: u8 = 0;
const SLOW: u8 = 64;
const QUICK: u8 = SLOW + 1;
/// Whoever registered it says so.
const ALWAYS_QUICK: u8 = QUICK + 1;
const ALWAYS_SLOW: u8 = QUICK + 2;

impl Entry {
    fn new(name: &str, index: usize, route: Arc<dyn Route>, closes: bool, pace: u8) -> Self {
        let pace_now = AtomicU8::new(pace);
        let (pace, known) = (Mutex::new(()), Condvar::new());
        Entry { name: name.into(), index, route, closes, pace, known, pace_now }
    }

    /// Whether its handler may run in place. What is not known is not quick.
    pub(crate) fn is_quick(&self) -> bool {
        matches!(self.pace_now.load(Ordering::Relaxed), QUICK | ALWAYS_QUICK)
    }

    /// Whether its handler is known not to be quick.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.pace_now.load(Ordering::Relaxed), 1..=SLOW | ALWAYS_SLOW)
    }

    /// Whether its pace is to be found out, as nobody has said what it is.
    pub(crate) fn is_learning(&self) -> bool {
        !matches!(self.pace_now.load(Ordering::Relaxed), ALWAYS_QUICK | ALWAYS_SLOW)
    }

    /// How its handler did. One that was slow once is trusted again only after a while: it may well
    /// be slow for some params and quick for others.
    pub(crate) fn set_quick(&self, is_quick: bool) {
        let before = self.pace_now.load(Ordering::Relaxed);
        let pace = match (before, is_quick) {
            (ALWAYS_QUICK | ALWAYS_SLOW, _) | (QUICK, true) => return,
            (_, false) => SLOW,
            (UNKNOWN | 1, true) => QUICK,
            (left, true) => left - 1,
        };
        let _lock = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        self.pace_now.store(pace, Ordering::Relaxed);
        self.known.notify_all();
    }

    /// Waits, but not for longer than this, until the pace of a handler that runs elsewhere for the
    /// first time is known. Without that, all calls of a first burst would be sent there, and more
    /// than may be in flight would be refused although each is done in no time.
    pub(crate) fn learn(&self, at_most: Duration) {
        let lock = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unknown = |_: &mut ()| self.pace_now.load(Ordering::Relaxed) == UNKNOWN;
        // What became of it shows in the pace.
        let _ = self.known.wait_timeout_while(lock, at_most, is_unknown);
    }
}

impl Router {
    /// No methods yet.
    pub fn new() -> Self {
        Router::default()
    }

    /// Serves a method. A second handler of the same name takes the place of the first.
    #[must_use]
    pub fn method<M: 'static>(self, name: &str, handler: impl Handler<M>) -> Self {
        self.insert(name, Arc::new(Typed::new(handler)), false, UNKNOWN)
    }

    /// Serves a method that closes the connection gracefully, and so ends a server on stdio. The
    /// time for that counts from the arrival of the message, also if others have to be finished
    /// before it; what comes after it is not begun.
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new().shutdown("shutdown", async || Ok::<_, Failure>("goodbye"));
    /// ```
    #[must_use]
    pub fn shutdown<M: 'static>(self, name: &str, handler: impl Handler<M>) -> Self {
        self.insert(name, Arc::new(Typed::new(handler)), true, UNKNOWN)
    }

    fn insert(mut self, name: &str, route: Arc<dyn Route>, closes: bool, pace: u8) -> Self {
        let by_name = &mut Arc::make_mut(&mut self.routes).by_name;
        let index = by_name.get(name).map_or(by_name.len(), |before| before.index);
        let entry = Entry::new(name, index, route, closes, pace);
        by_name.insert(name.into(), Arc::new(entry));
        self
    }

    /// Says that the handler of this method, which is registered already, never holds its thread for
    /// long. Without that, time has
    /// to show it, and the first call of a method on a server's stdio may run on another thread. What
    /// such a handler does before it waits is done before the next message is looked at.
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new()
    ///     .method("version", async || Ok::<_, Failure>("1.0"))
    ///     .quick("version");
    /// ```
    #[must_use]
    pub fn quick(self, name: &str) -> Self {
        self.set_pace(name, ALWAYS_QUICK)
    }

    /// Says that the handler of this method, which is registered already, may hold its thread: it
    /// blocks, or computes for long. It never runs on the thread that reads and writes, where there is another. Without that, time has
    /// to show it; and a handler that was quick so far and then blocks keeps all messages waiting, a
    /// shutdown among them.
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new()
    ///     .method("index", async || { /* reads all files */ Ok::<_, Failure>(()) })
    ///     .slow("index");
    /// ```
    #[must_use]
    pub fn slow(self, name: &str) -> Self {
        self.set_pace(name, ALWAYS_SLOW)
    }

    fn set_pace(self, name: &str, pace: u8) -> Self {
        let Some(entry) = self.find(name).map(Arc::clone) else { return self };
        // The entry may be shared with other routers, of which nothing was said.
        self.insert(name, Arc::clone(&entry.route), entry.closes, pace)
    }

    /// Keeps messages of the same key in order, where the profile's order is
    /// [`ByKey`](duet_rpc_proto::policy::Order::ByKey). Those without a key run side by side.
    ///
    /// ```
    /// use duet_rpc::Router;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Document { uri: String }
    ///
    /// let router = Router::new().ordered_by(|_method, params| {
    ///     params.parse::<Document>().ok().map(|document| document.uri)
    /// });
    /// ```
    #[must_use]
    pub fn ordered_by<K: Hash>(
        mut self,
        key: impl Fn(&str, &Params<'_>) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        // Two keys of the same hash share a lane: they are kept in order without need, and
        // nothing worse.
        let lane_of = move |method: &str, params: &Params<'_>| {
            let lane = crate::fence::call(|| {
                let mut hasher = DefaultHasher::new();
                key(method, params)?.hash(&mut hasher);
                Some(hasher.finish())
            });
            lane.ok().flatten()
        };
        Arc::make_mut(&mut self.routes).lane_of = Some(Arc::new(lane_of));
        self
    }

    /// The names of the methods, in no order.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.routes.by_name.keys().map(|name| &**name)
    }

    #[inline]
    pub(crate) fn find(&self, method: &str) -> Option<&Arc<Entry>> {
        self.routes.by_name.get(method)
    }

    /// Whether a method's arrival closes the connection.
    pub(crate) fn closes(&self, method: &str) -> bool {
        self.find(method).is_some_and(|entry| entry.closes)
    }

    pub(crate) fn lane_of(&self) -> Option<LaneOf> {
        self.routes.lane_of.clone()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.methods().collect();
        names.sort_unstable();
        f.debug_struct("Router").field("methods", &names).finish_non_exhaustive()
    }
}
