//! State: the value that all handlers of a router share.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The state of a router, as an argument of a handler: the value that
/// [`Router::with_state`](crate::Router::with_state) was given. It derefs to the value and is cheap to clone.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use duet_rpc::{Router, State};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// let router = Router::with_state(Counter::default())
///     .method("count", async |counter: State<Counter>| counter.0.fetch_add(1, Ordering::Relaxed));
/// ```
pub struct State<S>(pub(super) Arc<S>);

impl<S> State<S> {
    /// The value as it is shared.
    pub fn into_inner(self) -> Arc<S> {
        self.0
    }
}

impl<S> Deref for State<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        State(Arc::clone(&self.0))
    }
}

impl<S: fmt::Debug> fmt::Debug for State<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}
