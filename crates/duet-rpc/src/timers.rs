//! Timers of connections.
//!
//! A runtime with a timer waits for input with a timeout. The system sets up that timeout for each wait, which costs
//! half a microsecond, 5 % of a small round trip over HTTP. So the timers of a connection thread are kept by the
//! runtime of another thread, which waits rarely.

use std::cell::OnceCell;
use std::pin::Pin;

use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

thread_local! {
    static KEEPER: OnceCell<Handle> = const { OnceCell::new() };
}

/// Lets this runtime keep the timers that this thread makes from now on. It must outlive the connections of the
/// thread.
#[cfg(unix)]
pub(crate) fn keep_on(runtime: Handle) {
    KEEPER.with(|keeper| {
        let _ = keeper.set(runtime);
    });
}

/// A timer for this time.
pub(crate) fn sleep_until(at: Instant) -> Pin<Box<Sleep>> {
    KEEPER.with(|keeper| {
        let _inside = keeper.get().map(Handle::enter);
        Box::pin(tokio::time::sleep_until(at))
    })
}
