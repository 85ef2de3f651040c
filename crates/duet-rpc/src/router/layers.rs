//! Layers: the middleware of a router, put around its methods.
//!
//! This happens when a router is built. A message only runs the result: the hooks and the route of its
//! method.

use std::sync::Arc;

use super::hooks::{Hooks, SharedGuard, Unknown};
use super::observer::SharedObserver;
use super::wrap::WrapFn;
use super::{Entry, Pace, Routes};
use crate::handler::{Inner, Route};

/// The middleware of a router, in the order in which a message passes it.
#[derive(Clone, Default)]
pub(super) struct Layers {
    pub(super) observers: Vec<SharedObserver>,
    pub(super) guards: Vec<SharedGuard>,
    pub(super) wrappers: Vec<Arc<WrapFn>>,
}

impl Layers {
    /// These layers around the layers of an inner router.
    pub(super) fn around(&self, inside: &Layers) -> Layers {
        let mut all = self.clone();
        all.observers.extend_from_slice(&inside.observers);
        all.guards.extend_from_slice(&inside.guards);
        all.wrappers.extend_from_slice(&inside.wrappers);
        all
    }

    fn wrap(&self, core: &Arc<dyn Inner>) -> Arc<dyn Route> {
        let mut route = Arc::clone(core);
        for wrapper in self.wrappers.iter().rev() {
            route = wrapper(&route);
        }
        route
    }

    fn hooks(&self) -> Option<Arc<Hooks>> {
        Hooks::new(&self.observers, &self.guards).map(Arc::new)
    }
}

impl Entry {
    /// Wraps the handler in this middleware, around the middleware of inner routers.
    pub(super) fn set_layers(&mut self, layers: &Layers) {
        if let Some(core) = &self.core {
            let layers = layers.around(&self.inside);
            (self.hooks, self.route) = (layers.hooks(), layers.wrap(core));
        }
    }
}

impl Routes {
    /// Changes the middleware, and applies it to all registered methods.
    pub(super) fn change_layers(&mut self, change: impl FnOnce(&mut Layers)) {
        change(&mut self.layers);
        let Routes { by_name, fallbacks, layers, .. } = self;
        let fallbacks = fallbacks.iter_mut().map(|fallback| &mut fallback.entry);
        for entry in by_name.values_mut().chain(fallbacks) {
            // The entry may be shared with other routers.
            Arc::make_mut(entry).set_layers(layers);
        }
        let index = match &self.unknown {
            Some(before) => before.index,
            None => self.take_index(),
        };
        self.unknown = Some(Arc::new(Entry {
            name: "".into(),
            index,
            hooks: self.layers.hooks(),
            route: Arc::new(Unknown),
            closes: false,
            pace: Arc::new(Pace::always_quick()),
            answer_size: Arc::default(),
            core: None,
            inside: Layers::default(),
            lane_of: None,
        }));
    }
}
