//! The exit of a started program, noticed before the program is reaped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::process::Child;
use tokio::sync::oneshot;

use super::tree::Tree;
use crate::threads;

/// Stack size of the thread that waits for the exit. A thread with a blocking call works on every system; a
/// pidfd, which needs no thread, does not.
const STACK: usize = 64 * 1024;

/// The exit of a program.
pub(crate) enum Exit {
    /// A thread waits for it, and does not reap it: until the program is reaped, no other process can get
    /// its pid, or its group's id.
    Awaited(oneshot::Receiver<()>),
    Seen,
}

impl Exit {
    pub(crate) fn watch(id: Option<u32>, tree: Option<Arc<Tree>>) -> io::Result<Self> {
        let id = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (Some(id), Some(tree)) = (id, tree) else { return Ok(Exit::Seen) };
        let (tell, told) = oneshot::channel();
        let wait = move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let waited = loop {
                match waitid(WaitId::Pid(id), options) {
                    Err(Errno::INTR) => {}
                    waited => break waited,
                }
            };
            if waited.is_err() {
                // Another part of the process reaped it, or the system did because SIGCHLD is ignored.
                tree.forget_group();
            }
            let _ = tell.send(());
        };
        threads::builder("duet-rpc child", STACK)?.spawn(wait)?;
        Ok(Exit::Awaited(told))
    }

    pub(crate) fn poll(&mut self, _: Option<&mut Child>, cx: &mut Context<'_>) -> Poll<()> {
        if let Exit::Awaited(told) = self {
            ready!(Pin::new(told).poll(cx)).ok();
            *self = Exit::Seen;
        }
        Poll::Ready(())
    }
}
