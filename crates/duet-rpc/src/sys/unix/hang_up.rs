//! Watches for the end of the remote's output, with a registration of its own. The registration for reading reports
//! only that there is something to read, and while nobody reads, it reports nothing more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::register;

// Same name: the interface of `windows/tcp.rs`.
pub(crate) struct HangUpWatch(AsyncFd<OwnedFd>);

impl HangUpWatch {
    pub(crate) fn new(stream: &impl AsFd) -> io::Result<Self> {
        register(stream.as_fd().try_clone_to_owned()?, Interest::READABLE).map(HangUpWatch)
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.0.poll_read_ready(cx) {
                Poll::Ready(Ok(ready)) if ready.ready().is_read_closed() => {
                    return Poll::Ready(());
                }
                // Bytes, which wait for the next read.
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                // The runtime ends.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
