//! Watches for the end of the remote's output, or of its input, with a registration of its own. The registration for reading reports
//! only that there is something to read, and while nobody reads, it reports nothing more.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use super::register;

// Same name: the interface of `windows/tcp.rs`.
pub(crate) struct HangUpWatch {
    fd: AsyncFd<OwnedFd>,
    /// Watches for the end of the remote's input.
    is_for_input: bool,
}

impl HangUpWatch {
    pub(crate) fn new(stream: &impl AsFd) -> io::Result<Self> {
        let fd = register(stream.as_fd().try_clone_to_owned()?, Interest::READABLE)?;
        Ok(HangUpWatch { fd, is_for_input: false })
    }

    pub(crate) fn of_reader(stream: &impl AsFd) -> io::Result<Self> {
        let fd = register(stream.as_fd().try_clone_to_owned()?, Interest::WRITABLE)?;
        Ok(HangUpWatch { fd, is_for_input: true })
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let polled = match self.is_for_input {
                true => self.fd.poll_write_ready(cx),
                false => self.fd.poll_read_ready(cx),
            };
            match polled {
                Poll::Ready(Ok(ready)) if self.is_over(ready.ready()) => return Poll::Ready(()),
                // Bytes, which wait for the next read, or room for a write.
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                // The runtime ends.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_over(&self, ready: Ready) -> bool {
        if self.is_for_input { ready.is_write_closed() } else { ready.is_read_closed() }
    }
}
