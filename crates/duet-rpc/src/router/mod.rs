//! Router: the handler of each method.

mod answer_size;
mod pace;

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::LaneOf;
use rustc_hash::FxBuildHasher;

use crate::handler::{Handler, Route, Typed};
use crate::panic_guard;

pub(crate) use self::answer_size::{AnswerSize, Beginning, wait_for};
#[cfg(test)]
pub(crate) use self::answer_size::{LONGEST, STEP};
pub(crate) use self::pace::{Pace, QUICK_POLL};

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
    /// A remote looks names up, but cannot add any, so it cannot make them collide. A hasher that is proof
    /// against that would cost more than the rest of the look-up.
    by_name: HashMap<Box<str>, Arc<Entry>, FxBuildHasher>,
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
    pub(crate) pace: Pace,
    /// How large its answers are.
    pub(crate) answer_size: Arc<AnswerSize>,
}

impl Router {
    /// No methods yet.
    pub fn new() -> Self {
        Router::default()
    }

    /// Serves a method. A second handler of the same name takes the place of the first.
    #[must_use]
    pub fn method<M: 'static>(self, name: &str, handler: impl Handler<M>) -> Self {
        self.insert(name, Arc::new(Typed::new(handler)), false, Pace::new())
    }

    /// Serves a method whose arrival closes the connection gracefully, and so ends a server on stdio.
    /// The time for that counts from the arrival of the message, even if others have to be finished
    /// before it. What comes after it is not begun.
    ///
    /// Register the method that ends the process in your protocol. For a language server that is
    /// `exit`; its `shutdown` is a plain method, because the client expects the server to live on until
    /// `exit` comes:
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let language_server = Router::new()
    ///     .method("shutdown", async || Ok::<_, Failure>(()))
    ///     .shutdown_method("exit", async || {});
    /// ```
    #[must_use]
    pub fn shutdown_method<M: 'static>(self, name: &str, handler: impl Handler<M>) -> Self {
        self.insert(name, Arc::new(Typed::new(handler)), true, Pace::new())
    }

    fn insert(mut self, name: &str, route: Arc<dyn Route>, closes: bool, pace: Pace) -> Self {
        let by_name = &mut Arc::make_mut(&mut self.routes).by_name;
        let index = by_name.get(name).map_or(by_name.len(), |before| before.index);
        let entry =
            Entry { name: name.into(), index, route, closes, pace, answer_size: Arc::default() };
        by_name.insert(name.into(), Arc::new(entry));
        self
    }

    /// Marks a method as quick: its handler never holds its thread for long, so it always runs on the
    /// thread that reads and writes. Without a mark the pace is measured, and [`serve`](crate::serve)
    /// runs the first call of a method on a worker thread. The next message is handled when the handler
    /// has returned, or waits for the first time.
    ///
    /// # Panics
    ///
    /// If no method of this name is registered: register it first.
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new()
    ///     .method("version", async || Ok::<_, Failure>("1.0"))
    ///     .quick("version");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quick(self, name: &str) -> Self {
        self.set_pace("quick", name, Pace::always_quick())
    }

    /// Marks a method as slow: its handler may hold its thread, because it blocks or computes for long.
    /// Under [`serve`](crate::serve()) and [`Server`](crate::Server) it runs on a worker thread. On a
    /// multi-thread runtime of yours it runs on one of up to 32 worker threads that all such connections
    /// share. On a current-thread runtime it holds its thread: use `tokio::task::spawn_blocking` in it.
    ///
    /// Without a mark the pace is measured; a handler that was quick so far and then blocks keeps all
    /// messages of its connection waiting, even a shutdown.
    ///
    /// # Panics
    ///
    /// If no method of this name is registered: register it first.
    ///
    /// ```
    /// use duet_rpc::{Failure, Router};
    ///
    /// let router = Router::new()
    ///     .method("index", async || { /* reads all files */ Ok::<_, Failure>(()) })
    ///     .slow("index");
    /// ```
    #[must_use]
    #[track_caller]
    pub fn slow(self, name: &str) -> Self {
        self.set_pace("slow", name, Pace::always_slow())
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "only the source of the application can cause it")]
    fn set_pace(self, mark: &str, name: &str, pace: Pace) -> Self {
        let Some(entry) = self.find(name).map(Arc::clone) else {
            panic!(
                "cannot mark the method {name:?} as {mark}: it is not registered; \
                 call `.method({name:?}, ...)` before `.{mark}({name:?})`"
            )
        };
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
            let lane = panic_guard::catch(|| {
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
