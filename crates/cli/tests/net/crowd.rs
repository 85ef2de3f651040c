//! Room for very many connections, in this process and in the daemon.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that everything else needs.
const OTHERS: u64 = 2000;

/// Crowds come one after the other, as all of them need the same descriptors.
pub(crate) struct Turn(#[expect(dead_code, reason = "it is held")] MutexGuard<'static, ()>);

impl Turn {
    pub(crate) fn take() -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        Turn(ONE.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Raises the limit of descriptors, which the daemon inherits, and returns how many connections there
/// can be: as many as are wanted, or fewer.
pub(crate) fn make_room(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(most.saturating_sub(OTHERS)).unwrap_or(usize::MAX))
}
