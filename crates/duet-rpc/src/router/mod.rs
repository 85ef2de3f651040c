//! Router: maps method names to handlers, and adds middleware.
//!
//! | file | contents |
//! |---|---|
//! | `compose` | `merge`, `nest`, `fallback` |
//! | `layers` | the middleware of a router, put around its methods |
//! | `hooks`, `observer` | guards and observers |
//! | `wrap`, `tower` | wrappers, and `tower` layers as wrappers |
//! | `one_shot` | `handle`: one message without a connection |
//! | `pace`, `answer_size` | speed and answer size of a method |

mod answer_size;
mod compose;
mod hooks;
mod layers;
mod observer;
mod one_shot;
mod pace;
#[cfg(feature = "tower")]
mod tower;
mod wrap;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::LaneOf;
use rustc_hash::FxBuildHasher;

use crate::handler::{
    Arguments, AtMostOneParams, Handler, Inner, IntoFailure, Output, Returns, Route, Scope, Typed,
    Writable,
};
use crate::panic_guard;

pub(crate) use self::answer_size::{AnswerSize, Beginning, wait_for};
#[cfg(test)]
pub(crate) use self::answer_size::{LONGEST, STEP};
use self::compose::Fallback;
pub(crate) use self::hooks::{HookRun, Hooks};
use self::layers::Layers;
pub use self::observer::{Arrival, End, Ended, Observer, SentMessage};
pub(crate) use self::observer::{CallWatch, SendObserver, Stopwatch};
pub(crate) use self::pace::{Pace, QUICK_POLL};
#[cfg(feature = "tower")]
pub use self::tower::{HandlerError, HandlerService};
pub(crate) use self::wrap::to_params;
pub use self::wrap::{Next, Request};

/// The methods that a peer serves. Cloning is cheap, and many connections can share one router.
///
/// Requests and notifications both call a method. The library drops the result for a notification. See
/// [`Handler`] for the functions that can be registered.
///
/// ```
/// use duet_rpc::{Context, Router, State};
/// use serde::Deserialize;
/// use serde_json::value::RawValue;
///
/// #[derive(Deserialize)]
/// struct Range { from: u32, to: u32 }
///
/// struct App { version: String }
///
/// let router = Router::with_state(App { version: "1.0".to_owned() })
///     .method("version", async |app: State<App>| app.version.clone())
///     .method("add", async |(a, b): (i64, i64)| a + b)
///     .method("length", |range: Range| range.to - range.from)
///     .method("echo", |raw: Box<RawValue>| raw)
///     .method("whoami", async |cx: Context| cx.id().map(ToString::to_string));
/// assert_eq!(router.methods().count(), 5);
/// ```
///
/// # Middleware
///
/// | form | sees | use it for |
/// |---|---|---|
/// | [`observe`](Router::observe) | beginning and end of each message | metrics, audit |
/// | [`guard`](Router::guard) | each message before its handler | authentication, rate limits, maintenance |
/// | [`wrap`](Router::wrap) | params and result | deadlines, retries, changes |
///
/// A message passes all observers, then all guards, then all wrappers. Middleware applies to every method of its
/// router, registered before or after it, and to routers that are [merged](Router::merge) or
/// [nested](Router::nest) into it. An inner router keeps its own middleware, inside the middleware of the outer
/// router. Middleware cannot
/// answer twice. It changes neither the order of messages nor their cancellation, as long as each wrapper awaits
/// [`next.run`](Next::run) itself and does not spawn it on another task.
#[derive(Clone, Default)]
pub struct Router {
    routes: Arc<Routes>,
}

#[derive(Clone, Default)]
struct Routes {
    /// A fast hasher without protection against collisions is enough, because a remote cannot add names. A
    /// protected hasher would cost more than the rest of the look-up.
    by_name: HashMap<Box<str>, Arc<Entry>, FxBuildHasher>,
    fallbacks: Vec<Fallback>,
    /// The entry for unknown methods, if the router has middleware.
    unknown: Option<Arc<Entry>>,
    lane_of: Option<LaneOf>,
    state: Option<Arc<dyn Any + Send + Sync>>,
    layers: Layers,
    /// The index of the next entry.
    next_index: usize,
    /// `true` if the arrival of some method closes the connection.
    has_closing: bool,
}

/// A method: its handler, its middleware, and its measured pace and answer size.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    /// The number of the entry in its router, from 0.
    pub(crate) index: usize,
    /// The observers and guards before the handler.
    pub(crate) hooks: Option<Arc<Hooks>>,
    /// The handler inside all wrappers.
    pub(crate) route: Arc<dyn Route>,
    /// `true` if the arrival of the message closes the connection.
    pub(crate) closes: bool,
    pub(crate) pace: Arc<Pace>,
    /// The measured size of its answers.
    pub(crate) answer_size: Arc<AnswerSize>,
    /// The handler without wrappers; `None` for unknown methods.
    core: Option<Arc<dyn Inner>>,
    /// The middleware of routers that were merged or nested.
    inside: Layers,
    /// The key of such a router; `None` if the key of the router itself applies.
    lane_of: Option<LaneOf>,
}

impl Entry {
    fn new(name: &str, core: Arc<dyn Inner>, pace: Pace) -> Self {
        Entry {
            name: name.into(),
            index: 0,
            hooks: None,
            route: Arc::clone(&core) as Arc<dyn Route>,
            closes: false,
            pace: Arc::new(pace),
            answer_size: Arc::default(),
            core: Some(core),
            inside: Layers::default(),
            lane_of: None,
        }
    }
}

impl Routes {
    fn take_index(&mut self) -> usize {
        self.next_index += 1;
        self.next_index - 1
    }

    fn insert(&mut self, mut entry: Entry) {
        entry.index = match self.by_name.get(&*entry.name) {
            Some(before) => before.index,
            None => self.take_index(),
        };
        entry.set_layers(&self.layers);
        self.has_closing |= entry.closes;
        self.by_name.insert((&*entry.name).into(), Arc::new(entry));
    }
}

impl Router {
    /// A router without methods.
    pub fn new() -> Self {
        Router::default()
    }

    /// A router without methods, and with a state. Its handlers can take the state as an argument of type
    /// [`State`](crate::State).
    ///
    /// ```
    /// use duet_rpc::{Router, State};
    ///
    /// struct App { name: &'static str }
    ///
    /// let router = Router::with_state(App { name: "app" })
    ///     .method("name", async |app: State<App>| app.name);
    /// ```
    ///
    /// To use several states, [`merge`](Router::merge) routers: each handler keeps the state of the router in which
    /// it was registered.
    pub fn with_state<S: Send + Sync + 'static>(state: S) -> Self {
        let routes = Routes { state: Some(Arc::new(state)), ..Routes::default() };
        Router { routes: Arc::new(routes) }
    }

    /// Registers the handler of a method. A second handler with the same name replaces the first.
    ///
    /// # Panics
    ///
    /// If the handler takes a [`State`](crate::State) that the router does not have.
    #[must_use]
    #[track_caller]
    pub fn method<H, S, A, R, O, E>(self, name: &str, handler: H) -> Self
    where
        S: 'static,
        R: 'static,
        A: AtMostOneParams + 'static,
        O: 'static,
        E: 'static,
        H: Handler<S> + Send + Sync + 'static,
        H::Arguments: Arguments<A> + Send + 'static,
        H::Return: Returns<R>,
        <H::Return as Returns<R>>::Future: Send + 'static,
        <H::Return as Returns<R>>::Output: Output<O>,
        <<H::Return as Returns<R>>::Output as Output<O>>::Value: Writable,
        <<H::Return as Returns<R>>::Output as Output<O>>::Error: IntoFailure<E>,
    {
        let entry = self.bind(name, format_args!("the handler of {name:?}"), handler);
        self.insert(entry)
    }

    /// Registers a method whose arrival closes the connection gracefully. A server on stdio then exits.
    ///
    /// The drain timeout counts from the arrival of the message, even if earlier messages must finish first.
    /// Messages after it are not handled. The connection closes even if a guard refuses the message.
    ///
    /// Register the method that ends the process in your protocol. For a language server that is `exit`; its
    /// `shutdown` is a plain method, because the client expects the server to run until `exit` arrives:
    ///
    /// ```
    /// use duet_rpc::Router;
    ///
    /// let language_server =
    ///     Router::new().method("shutdown", async || {}).shutdown_method("exit", async || {});
    /// ```
    ///
    /// # Panics
    ///
    /// If the handler takes a [`State`](crate::State) that the router does not have.
    #[must_use]
    #[track_caller]
    pub fn shutdown_method<H, S, A, R, O, E>(self, name: &str, handler: H) -> Self
    where
        S: 'static,
        R: 'static,
        A: AtMostOneParams + 'static,
        O: 'static,
        E: 'static,
        H: Handler<S> + Send + Sync + 'static,
        H::Arguments: Arguments<A> + Send + 'static,
        H::Return: Returns<R>,
        <H::Return as Returns<R>>::Future: Send + 'static,
        <H::Return as Returns<R>>::Output: Output<O>,
        <<H::Return as Returns<R>>::Output as Output<O>>::Value: Writable,
        <<H::Return as Returns<R>>::Output as Output<O>>::Error: IntoFailure<E>,
    {
        let entry = self.bind(name, format_args!("the handler of {name:?}"), handler);
        self.insert(Entry { closes: true, ..entry })
    }

    fn insert(mut self, entry: Entry) -> Self {
        Arc::make_mut(&mut self.routes).insert(entry);
        self
    }

    /// Binds a handler to the state of this router. `what` names the handler in the panic if the state is missing.
    #[track_caller]
    #[expect(clippy::panic, reason = "only a mistake in the application's source causes it")]
    fn bind<H, S, A, R, O, E>(&self, name: &str, what: impl fmt::Display, handler: H) -> Entry
    where
        H: Handler<S, Arguments: Arguments<A>>,
        Typed<H, S, A, R, O, E>: Inner + 'static,
    {
        let pace = handler.pace().to_pace();
        let scope = Scope { state: self.routes.state.as_ref(), next: None };
        match Typed::<H, S, A, R, O, E>::bind(Arc::new(handler), &scope) {
            Ok(typed) => Entry::new(name, Arc::new(typed), pace),
            Err(missing) => panic!("cannot register {what}: {missing}"),
        }
    }

    /// Sets the function that returns the key of a message, for profiles with the order
    /// [`ByKey`](duet_rpc_proto::policy::Order::ByKey). Messages with the same key run in order. Messages without a
    /// key run concurrently.
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
    ///
    /// The key applies to all methods and the fallback of this router, registered before or after. A router
    /// that is [merged](Router::merge) or [nested](Router::nest) keeps its own key; without one, it gets this
    /// key. A second key replaces the first.
    #[must_use]
    pub fn ordered_by<K: Hash>(
        mut self,
        key: impl Fn(&str, &Params<'_>) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        // Two keys with the same hash share a lane. Their messages then run in order without need, which does no
        // harm.
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

    /// The names of the methods, in no particular order.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.routes.by_name.keys().map(|name| &**name)
    }

    #[inline]
    pub(crate) fn find(&self, method: &str) -> Option<&Arc<Entry>> {
        self.routes.by_name.get(method)
    }

    /// Returns `true` if the arrival of a method closes the connection.
    pub(crate) fn closes(&self, method: &str) -> bool {
        self.find(method).is_some_and(|entry| entry.closes)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.methods().collect();
        names.sort_unstable();
        f.debug_struct("Router").field("methods", &names).finish_non_exhaustive()
    }
}
