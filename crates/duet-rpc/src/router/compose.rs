//! Composition of routers: `merge`, `nest`, and fallbacks for unregistered methods.

use std::sync::Arc;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::{Closes, LaneOf};

use super::{Entry, Router, Routes};
use crate::handler::{Arguments, AtMostOneParams, Handler, IntoFailure, Output, Returns, Writable};

/// The handler of all unregistered methods whose names begin with a prefix.
#[derive(Clone)]
pub(super) struct Fallback {
    prefix: Box<str>,
    /// The entry, without a name.
    pub(super) entry: Arc<Entry>,
}

impl Router {
    /// Adds the methods of another router. They keep the state and the middleware of that router. The middleware of
    /// this router applies to them, too.
    ///
    /// ```
    /// use duet_rpc::Router;
    ///
    /// let math = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
    /// let text = Router::new().method("upper", async |(text,): (String,)| text.to_uppercase());
    /// assert_eq!(math.merge(text).methods().count(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// If both routers have a method with the same name, or both have a [`fallback`](Router::fallback).
    #[must_use]
    #[track_caller]
    pub fn merge(self, other: Router) -> Self {
        self.absorb("", other)
    }

    /// Adds the methods of another router with a prefix before each name. Otherwise the same as
    /// [`merge`](Router::merge).
    ///
    /// ```
    /// use duet_rpc::Router;
    ///
    /// let db = Router::new().method("get", async |(key,): (String,)| key);
    /// let router = Router::new().nest("db/", db);
    /// assert_eq!(router.methods().collect::<Vec<_>>(), ["db/get"]);
    /// ```
    ///
    /// The typed client of a [service](mod@crate::service) does not know this prefix. For a service, write
    /// `#[service(prefix = "db/")]` instead, and [`merge`](Router::merge) its router.
    ///
    /// Handlers, middleware and the fallback of the other router see the whole name, with the prefix. Only the key
    /// function of [`ordered_by`](Router::ordered_by) sees the name without the prefix.
    ///
    /// # Panics
    ///
    /// If this router already has a method with the prefixed name.
    #[must_use]
    #[track_caller]
    pub fn nest(self, prefix: &str, other: Router) -> Self {
        self.absorb(prefix, other)
    }

    /// Adds another router, with a prefix before each name.
    #[track_caller]
    #[expect(clippy::panic, reason = "only a mistake in the application's source causes it")]
    fn absorb(mut self, prefix: &str, other: Router) -> Self {
        let routes = Arc::make_mut(&mut self.routes);
        for entry in other.routes.by_name.values() {
            let name = format!("{prefix}{}", entry.name);
            if routes.by_name.contains_key(&*name) {
                panic!("cannot combine two routers: both have the method {name:?}");
            }
            routes.insert(entry.moved(&name, prefix, &other.routes));
        }
        for fallback in &other.routes.fallbacks {
            let entry = fallback.entry.moved("", prefix, &other.routes);
            let prefix = format!("{prefix}{}", fallback.prefix);
            if !routes.add_fallback(&prefix, entry) {
                panic!("cannot combine two routers: both have a fallback for {prefix:?}");
            }
        }
        self
    }

    /// Sets the handler of all unregistered methods, for example for a proxy. The handler can take the name as
    /// [`Method`](crate::Method), and raw params.
    ///
    /// ```
    /// use duet_rpc::{Context, Error, Method, Peer, Router};
    /// use serde_json::value::RawValue;
    ///
    /// fn proxy(backend: Peer) -> Router {
    ///     Router::new().fallback(move |method: Method, params: Box<RawValue>| {
    ///         let call = backend.call(&method, params);
    ///         async move { call.await as Result<Box<RawValue>, Error> }
    ///     })
    /// }
    /// ```
    ///
    /// Each such message costs a copy of its method's name. The fallback of a [nested](Router::nest) router serves the
    /// names that begin with the prefix. A second fallback replaces the first.
    ///
    /// # Panics
    ///
    /// If the handler takes a [`State`](crate::State) that the router does not have.
    #[must_use]
    #[track_caller]
    pub fn fallback<H, S, A, R, O, E>(mut self, handler: H) -> Self
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
        let entry = self.bind("", "the fallback", handler);
        let routes = Arc::make_mut(&mut self.routes);
        routes.fallbacks.retain(|fallback| !fallback.prefix.is_empty());
        routes.add_fallback("", entry);
        self
    }

    /// The entry for an unregistered method: a fallback, or the middleware for unknown methods. `None` if there is
    /// neither.
    #[cold]
    pub(crate) fn find_unregistered(&self, method: &str) -> Option<Arc<Entry>> {
        let entry = self.routes.find_fallback(method).or(self.routes.unknown.as_ref())?;
        Some(Arc::new(Entry { name: method.into(), ..Entry::clone(entry) }))
    }

    /// The lane of each message. A method of an inner router has the key of that router, if it has one.
    pub(crate) fn lane_of(&self) -> Option<LaneOf> {
        let fallbacks = self.routes.fallbacks.iter().map(|fallback| &fallback.entry);
        let mut entries = self.routes.by_name.values().chain(fallbacks);
        if entries.all(|entry| entry.lane_of.is_none()) {
            return self.routes.lane_of.clone();
        }
        let routes = Arc::clone(&self.routes);
        Some(Arc::new(move |method: &str, params: &Params<'_>| {
            let entry = routes.by_name.get(method).or_else(|| routes.find_fallback(method));
            let lane_of = entry.and_then(|entry| entry.lane_of.as_ref());
            lane_of.or(routes.lane_of.as_ref())?(method, params)
        }))
    }

    /// A function that knows the methods whose arrival closes the connection; `None` if there are none.
    pub(crate) fn closing(&self) -> Option<Closes> {
        if !self.routes.has_closing {
            return None;
        }
        let routes = self.clone();
        Some(Arc::new(move |method| routes.closes(method)))
    }
}

impl Routes {
    pub(super) fn find_fallback(&self, method: &str) -> Option<&Arc<Entry>> {
        let fits = |fallback: &&Fallback| method.starts_with(&*fallback.prefix);
        self.fallbacks.iter().find(fits).map(|fallback| &fallback.entry)
    }

    /// Adds a fallback, unless there is one for the same prefix.
    fn add_fallback(&mut self, prefix: &str, mut entry: Entry) -> bool {
        if self.fallbacks.iter().any(|fallback| *fallback.prefix == *prefix) {
            return false;
        }
        entry.index = self.take_index();
        entry.set_layers(&self.layers);
        self.fallbacks.push(Fallback { prefix: prefix.into(), entry: Arc::new(entry) });
        // The longest prefix comes first, so the first match is the most specific.
        self.fallbacks.sort_by_key(|fallback| std::cmp::Reverse(fallback.prefix.len()));
        true
    }
}

impl Entry {
    /// The entry under a new name in another router, inside the middleware of the router that it comes from,
    /// and with its key.
    fn moved(&self, name: &str, prefix: &str, from: &Routes) -> Entry {
        let lane_of = self.lane_of.as_ref().or(from.lane_of.as_ref());
        Entry {
            name: name.into(),
            inside: from.layers.around(&self.inside),
            lane_of: lane_of.map(|lane_of| without_prefix(prefix, lane_of)),
            ..self.clone()
        }
    }
}

/// A key function that gets the name without the prefix.
fn without_prefix(prefix: &str, lane_of: &LaneOf) -> LaneOf {
    let lane_of = Arc::clone(lane_of);
    if prefix.is_empty() {
        return lane_of;
    }
    let prefix: Box<str> = prefix.into();
    Arc::new(move |method: &str, params: &Params<'_>| {
        lane_of(method.strip_prefix(&*prefix).unwrap_or(method), params)
    })
}
