//! The exit of a started program. A handle keeps the id of a process from being reused, so it can be noticed by the wait
//! of the runtime.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::process::Child;

use super::tree::Tree;

// Same name: the interface of `unix/exit.rs`.
pub(crate) enum Exit {
    Awaited,
    Seen,
}

impl Exit {
    pub(crate) fn watch(_: Option<u32>, _: Option<Arc<Tree>>) -> io::Result<Self> {
        Ok(Exit::Awaited)
    }

    pub(crate) fn poll(&mut self, child: Option<&mut Child>, cx: &mut Context<'_>) -> Poll<()> {
        if let (Exit::Awaited, Some(child)) = (&*self, child) {
            let _ = ready!(pin!(child.wait()).poll(cx));
            *self = Exit::Seen;
        }
        Poll::Ready(())
    }
}
