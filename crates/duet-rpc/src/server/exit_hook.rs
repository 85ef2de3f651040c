//! Exit hook: runs before the exit, in a bounded time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::panic_guard;
use crate::threads;

pub(super) type ExitHook = Arc<dyn Fn() + Send + Sync>;

/// Wraps a hook so that it runs only once. The watchdog may fire while the hook runs.
pub(super) fn once(act: ExitHook) -> ExitHook {
    let is_done = AtomicBool::new(false);
    Arc::new(move || {
        if !is_done.swap(true, Ordering::AcqRel) {
            act();
        }
    })
}

/// Runs a hook on a thread of its own, and waits until it is done or the time is over. If no thread can
/// start, the time cannot be bounded, so this returns `false` and runs nothing.
pub(super) fn run_within(time: Duration, act: ExitHook) -> bool {
    let (done, is_done) = mpsc::channel();
    let run = move || {
        let _ = panic_guard::catch(|| act());
        let _ = done.send(());
    };
    let has_begun = threads::spawn("duet-rpc exit", run).is_ok();
    if has_begun {
        let _ = is_done.recv_timeout(time);
    }
    has_begun
}
