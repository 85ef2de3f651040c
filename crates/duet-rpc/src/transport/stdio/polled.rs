//! Pipes and sockets, driven by the runtime with no thread between.
//!
//! The runtime is told of each change once. So the order counts: readiness is asked for first,
//! which also leaves the waker, and only then is the call made; readiness that is cleared after
//! the call is the one from before it, and news that came in between stays. That the other end
//! is closed is never cleared.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use super::Descriptor;
use crate::transport::{Inbox, Outbox, Received};

type Ready<'a> = Option<AsyncFdReadyGuard<'a, Arc<Descriptor>>>;

pub(super) struct Input {
    fd: AsyncFd<Arc<Descriptor>>,
    /// There may be bytes of which the runtime will not tell (again), so a read is tried without
    /// its word: in the beginning, which spares a turn, and after `poll_gone` took its word away.
    untold: bool,
}

impl Input {
    pub(super) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(descriptor, Interest::READABLE)?;
        Ok(Input { fd, untold: true })
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        loop {
            let mut ready: Ready<'_> = match self.fd.poll_read_ready(cx) {
                Poll::Ready(ready) => Some(ready?),
                Poll::Pending if self.untold => None,
                Poll::Pending => return Poll::Pending,
            };
            let descriptor = self.fd.get_ref();
            let space = inbox.space()?;
            let room = space.capacity() - space.len();
            match descriptor.read(space) {
                Ok(0) => return Poll::Ready(Ok(Received::End)),
                Ok(count) if count < room && descriptor.short_means_done() => {
                    clear(&mut ready);
                    self.untold = false;
                    return Poll::Ready(Ok(Received::All));
                }
                Ok(_) => return Poll::Ready(Ok(Received::Some)),
                Err(Errno::AGAIN) => {
                    self.untold = false;
                    match &mut ready {
                        // A named pipe that was closed, and that somebody else has opened since.
                        // Whom we served is gone, and what is never cleared would spin here.
                        Some(ready) if ready.ready().is_read_closed() => {
                            return Poll::Ready(Ok(Received::End));
                        }
                        Some(ready) => ready.clear_ready(),
                        None => return Poll::Pending,
                    }
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
    }

    /// A descriptor of the same input, for one who watches for its end.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.fd.get_ref().as_fd().try_clone_to_owned()
    }

    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut ready = match self.fd.poll_read_ready(cx) {
                Poll::Ready(Ok(ready)) => ready,
                // Only the end of the runtime gets here, and then nobody will be told.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            };
            if ready.ready().is_read_closed() {
                return Poll::Ready(());
            }
            // Bytes wait, and as long as the runtime says so it does not tell of the end. They
            // are remembered here instead.
            self.untold = true;
            ready.clear_ready();
        }
    }
}

pub(super) struct Output {
    fd: AsyncFd<Arc<Descriptor>>,
    /// There may be room of which the runtime has not told yet: in the beginning there is.
    untold: bool,
}

impl Output {
    pub(super) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(descriptor, Interest::WRITABLE)?;
        Ok(Output { fd, untold: true })
    }

    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        while !outbox.is_empty() {
            let mut ready: Ready<'_> = match self.fd.poll_write_ready(cx) {
                Poll::Ready(ready) => Some(ready?),
                Poll::Pending if self.untold => None,
                Poll::Pending => return Poll::Pending,
            };
            let descriptor = self.fd.get_ref();
            match descriptor.write(outbox.bytes()) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    outbox.consume(count);
                    if !outbox.is_empty() && descriptor.short_means_done() {
                        clear(&mut ready);
                        self.untold = false;
                    }
                }
                Err(Errno::AGAIN) => {
                    self.untold = false;
                    match &mut ready {
                        // As for reading: a named pipe that its reader closed, and that is full.
                        Some(ready) if ready.ready().is_write_closed() => {
                            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                        }
                        Some(ready) => ready.clear_ready(),
                        None => return Poll::Pending,
                    }
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The runtime's newer function for this is `unsafe`, because a descriptor might be closed or
/// replaced while it is registered. A [`Descriptor`] owns its own and never changes it, so the
/// older one is as good, and needs no `unsafe` here.
#[allow(deprecated)]
fn register(
    descriptor: Arc<Descriptor>,
    interest: Interest,
) -> io::Result<AsyncFd<Arc<Descriptor>>> {
    AsyncFd::with_interest(descriptor, interest)
}

fn clear(ready: &mut Ready<'_>) {
    if let Some(ready) = ready {
        ready.clear_ready();
    }
}
