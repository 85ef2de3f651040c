//! Room for many connections, in this process and in the daemon.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for everything else.
const OTHERS: u64 = 2000;

/// Tests with many connections run one after the other, because they need the same descriptors.
pub(crate) struct Turn(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl Turn {
    pub(crate) fn take() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        Turn(ONE.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Raises the limit of descriptors, which the daemon inherits. Returns the number of possible connections,
/// `wanted` at most.
pub(crate) fn make_room(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(most.saturating_sub(OTHERS)).unwrap_or(usize::MAX))
}
