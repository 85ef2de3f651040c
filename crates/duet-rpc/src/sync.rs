//! Locks that ignore poisoning: application code never runs while one is held, and state that another thread
//! left behind in a panic is still consistent.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
