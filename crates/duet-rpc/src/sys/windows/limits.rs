//! Limits. Windows has none that matters here: a process may have millions of handles.

use tokio::process::Child;

/// The number of handles that this process may have.
pub(crate) fn raise() -> usize {
    usize::MAX
}

/// Programs inherit no limit.
pub(crate) fn restore(_: &Child) {}

/// `None`: the memory of a process is not limited, or not known.
pub(crate) fn memory_left() -> Option<usize> {
    None
}
