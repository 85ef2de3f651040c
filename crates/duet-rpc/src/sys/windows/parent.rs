//! The parent process, whose end also ends the server (L10).

use std::os::windows::io::{AsHandle, OwnedHandle};

use super::calls;

/// A process whose end ends this one. It is held by its handle, so that a process that reuses its id is never taken for
/// it.
#[derive(Debug)]
// Same name: the interface of `unix/parent.rs`.
pub struct Parent {
    /// `None` if it had ended before it could be opened.
    handle: Option<OwnedHandle>,
}

impl Parent {
    /// The process that started this one; `None` if this user may not watch it, or if it is not a Windows process (under
    /// wine, whose id for it is 0).
    pub(crate) fn find() -> Option<Parent> {
        let parent = Parent::with_id(calls::parent_id().filter(|id| *id > 0)?)?;
        // A process that started later has reused the id.
        let started = |handle: &OwnedHandle| calls::start_time(handle.as_handle());
        let own = calls::start_time(calls::this_process());
        match parent.handle.as_ref().and_then(started).zip(own) {
            Some((parent, own)) if parent > own => Some(Parent { handle: None }),
            _ => Some(parent),
        }
    }

    /// The process with this id: our parent, or a process that started us through another process.
    pub fn with_id(pid: u32) -> Option<Parent> {
        match calls::open_process(pid) {
            Ok(handle) => Some(Parent { handle: Some(handle) }),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(Parent { handle: None }),
        }
    }

    /// Returns `true` if it has ended.
    pub fn is_gone(&self) -> bool {
        self.handle.as_ref().is_none_or(|it| calls::wait_for(it.as_handle(), 0))
    }

    /// Waits until it has ended.
    pub(super) fn wait(&self) {
        if let Some(handle) = &self.handle {
            calls::wait_for(handle.as_handle(), calls::FOR_EVER);
        }
    }
}
