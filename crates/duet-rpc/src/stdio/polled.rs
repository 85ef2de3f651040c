//! Polled stdio: pipes and sockets, driven by the runtime with no thread between.
//!
//! The runtime is told of each change once. So the order counts: readiness is asked for first,
//! which also leaves the waker, and only then is the call made; readiness that is cleared after
//! the call is the one from before it, and news that came in between stays. That the other end
//! is closed is never cleared.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::time::{Instant, Sleep, sleep};

use super::Descriptor;
use super::handoff::Handoff;
use crate::transport::{Inbox, Outbox, Received, register};

type Ready<'a> = Option<AsyncFdReadyGuard<'a, Arc<Descriptor>>>;

pub(super) struct StdinReader {
    descriptor: Arc<Descriptor>,
    /// `None` while the thread reads.
    fd: Option<AsyncFd<Arc<Descriptor>>>,
    handoff: Arc<Handoff>,
    /// There may be bytes of which the runtime will not tell (again), so a read is tried without
    /// its word: in the beginning, which spares a turn, and after `poll_remote_closed` took its word away.
    untold: bool,
}

impl StdinReader {
    pub(super) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(Arc::clone(&descriptor), Interest::READABLE)?;
        Ok(StdinReader { descriptor, fd: Some(fd), handoff: Arc::default(), untold: true })
    }

    /// The hand-off, and a descriptor in which a thread can wait for this input; `None` if it cannot.
    pub(super) fn handoff(&self) -> Option<(Arc<Handoff>, OwnedFd)> {
        Some((Arc::clone(&self.handoff), self.descriptor.to_wait_in()?))
    }

    /// Has the runtime forget an input that the thread reads, or know one that has come back.
    fn follow_owner(&mut self) -> io::Result<()> {
        if self.handoff.thread_reads() {
            self.fd = None;
        } else if self.fd.is_none() {
            self.fd = Some(register(Arc::clone(&self.descriptor), Interest::READABLE)?);
            self.untold = true;
        }
        Ok(())
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        self.descriptor.note_waiting(inbox.size());
        if let Some(received) = self.handoff.take(&self.descriptor, inbox) {
            return Poll::Ready(received);
        }
        self.follow_owner()?;
        let Some(fd) = &self.fd else { return Poll::Pending };
        let descriptor = &self.descriptor;
        loop {
            let mut ready: Ready<'_> = match fd.poll_read_ready(cx) {
                Poll::Ready(ready) => Some(ready?),
                Poll::Pending if self.untold => None,
                Poll::Pending => return Poll::Pending,
            };
            let space = inbox.space()?;
            let room = space.capacity() - space.len();
            match descriptor.read(space) {
                Ok(0) => return Poll::Ready(Ok(Received::Eof)),
                Ok(count) if count < room && descriptor.short_means_done() => {
                    clear(&mut ready);
                    self.untold = false;
                    return Poll::Ready(Ok(Received::Drained));
                }
                Ok(_) => return Poll::Ready(Ok(Received::Data)),
                Err(Errno::AGAIN) => {
                    self.untold = false;
                    match &mut ready {
                        // A named pipe that was closed, and that somebody else has opened since.
                        // Whom we served is gone, and what is never cleared would spin here.
                        Some(ready) if ready.ready().is_read_closed() => {
                            return Poll::Ready(Ok(Received::Eof));
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
        self.descriptor.as_fd().try_clone_to_owned()
    }

    pub(super) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Only the end of the runtime fails, and then nobody will be told.
        if self.follow_owner().is_err() {
            return Poll::Ready(());
        }
        let Some(fd) = &self.fd else { return Poll::Pending };
        loop {
            let mut ready = match fd.poll_read_ready(cx) {
                Poll::Ready(Ok(ready)) => ready,
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

/// How often one looks whether a slow reader has taken something. The system tells of room in a
/// socket only when most of it is free, and in a pipe when a page is; a reader may take longer for
/// that than the patience with one who reads nothing (L5).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much is written at once to a reader that is slow. What one write gave to a socket makes room
/// only when all of it has been read, so with more its progress would not show.
const SLOW_BYTES: usize = 4 * 1024;

pub(super) struct StdoutWriter {
    fd: AsyncFd<Arc<Descriptor>>,
    /// There may be room of which the runtime has not told yet: in the beginning there is.
    untold: bool,
    looks: Looks,
}

impl StdoutWriter {
    pub(super) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(descriptor, Interest::WRITABLE)?;
        Ok(StdoutWriter { fd, untold: true, looks: Looks::default() })
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
                Poll::Pending if self.looks.is_due(cx, self.fd.get_ref(), outbox) => None,
                Poll::Pending => return Poll::Pending,
            };
            let descriptor = self.fd.get_ref();
            let piece = self.looks.piece(descriptor.piece(outbox.bytes()));
            let given = piece.len();
            match descriptor.write(piece) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    outbox.consume(count);
                    self.looks.note_written();
                    if count < given && descriptor.short_means_done() {
                        clear(&mut ready);
                        self.untold = descriptor.note_waiting(outbox.len());
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
                        None => {}
                    }
                }
                Err(errno) => return Poll::Ready(Err(errno.into())),
            }
        }
        self.looks.is_slow = false;
        Poll::Ready(Ok(()))
    }
}

/// Looks from time to time whether the reader has taken something.
#[derive(Default)]
struct Looks {
    /// When to look next; made when it is first needed.
    next: Option<Pin<Box<Sleep>>>,
    /// How many bytes the reader had not taken at the last look.
    unread: Option<u64>,
    /// Whether anything was written since the last look.
    has_moved: bool,
    /// Whether nothing was, from one look to the next, and not all has left since.
    is_slow: bool,
}

impl Looks {
    /// The beginning of these bytes that is to be written at once.
    fn piece<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(..SLOW_BYTES).filter(|_| self.is_slow).unwrap_or(bytes)
    }

    fn note_written(&mut self) {
        self.has_moved = true;
        // It is more now, so it can no longer be compared.
        self.unread = None;
    }

    /// There is no room, as far as the runtime knows. If this says `true`, it is to be tried all
    /// the same; else it leaves a waker for then.
    fn is_due(
        &mut self,
        cx: &mut Context<'_>,
        descriptor: &Descriptor,
        outbox: &mut Outbox,
    ) -> bool {
        let next = self.next.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
        if next.as_mut().poll(cx).is_pending() {
            return false;
        }
        next.as_mut().reset(Instant::now() + LOOK_EVERY);
        let unread = descriptor.unread();
        if self.unread.zip(unread).is_some_and(|(before, now)| now < before) {
            outbox.note_reading();
        }
        self.unread = unread;
        self.is_slow |= !std::mem::take(&mut self.has_moved);
        true
    }
}

fn clear(ready: &mut Ready<'_>) {
    if let Some(ready) = ready {
        ready.clear_ready();
    }
}
