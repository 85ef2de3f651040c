//! Composition of routers: `merge`, `nest`, and fallbacks for unregistered methods.

use std::collections::HashSet;
use std::sync::Arc;

use duet_rpc_proto::message::Params;
use duet_rpc_proto::session::LaneOf;

use super::{Entry, Layers, Router};
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
        let names: HashSet<Box<str>> = other.methods().map(Into::into).collect();
        self.absorb("", other, move |method| names.contains(method).then_some(method))
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
    /// Handlers, middleware and the fallback of the other router see the whole name, with the prefix. Only the key
    /// function of [`ordered_by`](Router::ordered_by) sees the name without the prefix.
    ///
    /// # Panics
    ///
    /// If this router already has a method with the prefixed name.
    #[must_use]
    #[track_caller]
    pub fn nest(self, prefix: &str, other: Router) -> Self {
        let lane_prefix: Box<str> = prefix.into();
        self.absorb(prefix, other, move |method| method.strip_prefix(&*lane_prefix))
    }

    /// Adds another router. `name_inside` returns the name of a method in the other router.
    #[track_caller]
    #[expect(clippy::panic, reason = "only a mistake in the application's source causes it")]
    fn absorb(
        mut self,
        prefix: &str,
        other: Router,
        name_inside: impl for<'a> Fn(&'a str) -> Option<&'a str> + Send + Sync + 'static,
    ) -> Self {
        let routes = Arc::make_mut(&mut self.routes);
        for entry in other.routes.by_name.values() {
            let name = format!("{prefix}{}", entry.name);
            if routes.by_name.contains_key(&*name) {
                panic!("cannot combine two routers: both have the method {name:?}");
            }
            routes.insert(entry.moved(&name, &other.routes.layers));
        }
        for fallback in &other.routes.fallbacks {
            let prefix = format!("{prefix}{}", fallback.prefix);
            let entry = fallback.entry.moved("", &other.routes.layers);
            if !routes.add_fallback(&prefix, entry) {
                panic!("cannot combine two routers: both have a fallback for {prefix:?}");
            }
        }
        if let Some(theirs) = &other.routes.lane_of {
            let (theirs, ours) = (Arc::clone(theirs), routes.lane_of.take());
            let lane_of = move |method: &str, params: &Params<'_>| match name_inside(method) {
                Some(name) => theirs(name, params),
                None => ours.as_ref().and_then(|ours| ours(method, params)),
            };
            routes.lane_of = Some(Arc::new(lane_of) as LaneOf);
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
        let entry = self.bind("", handler);
        let routes = Arc::make_mut(&mut self.routes);
        routes.fallbacks.retain(|fallback| !fallback.prefix.is_empty());
        routes.add_fallback("", entry);
        self
    }

    /// The entry for an unregistered method: a fallback, or the middleware for unknown methods. `None` if there is
    /// neither.
    #[cold]
    pub(crate) fn find_unregistered(&self, method: &str) -> Option<Arc<Entry>> {
        let routes = &self.routes;
        let fallback =
            routes.fallbacks.iter().find(|fallback| method.starts_with(&*fallback.prefix));
        let entry = fallback.map(|fallback| &fallback.entry).or(routes.unknown.as_ref())?;
        Some(Arc::new(Entry { name: method.into(), ..Entry::clone(entry) }))
    }
}

impl super::Routes {
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
    /// The entry under a new name in another router. It keeps the middleware of its own router.
    fn moved(&self, name: &str, layers: &Layers) -> Entry {
        Entry { name: name.into(), inside: layers.around(&self.inside), ..self.clone() }
    }
}
