//! Polled stdio: pipes and sockets, driven by the runtime without a thread in between.
//!
//! The runtime reports each change once, so the order matters. First ask for readiness, which also registers
//! the waker, and only then make the call. Clearing readiness after the call clears only the report from
//! before the call; a later report stays. The report of a closed remote end is never cleared.

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

use super::{Descriptor, register};
use crate::stdio::handoff::Handoff;
use crate::transport::{Inbox, Outbox, Received};

type Ready<'a> = Option<AsyncFdReadyGuard<'a, Arc<Descriptor>>>;

// Same name: `threaded.rs` has the same interface, on a thread.
pub(crate) struct StdinReader {
    descriptor: Arc<Descriptor>,
    /// `None` while the thread reads.
    fd: Option<AsyncFd<Arc<Descriptor>>>,
    handoff: Arc<Handoff>,
    /// `true` if there may be bytes that the runtime will not report (again), so the next poll reads without
    /// a report. That is so at the start, which saves a turn, and after `poll_remote_closed` has cleared the
    /// report.
    untold: bool,
}

impl StdinReader {
    pub(crate) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(Arc::clone(&descriptor), Interest::READABLE)?;
        Ok(StdinReader { descriptor, fd: Some(fd), handoff: Arc::default(), untold: true })
    }

    /// The hand-off, and a descriptor on which a thread can wait for this input; `None` if no thread can.
    pub(crate) fn handoff(&self) -> Option<(Arc<Handoff>, OwnedFd)> {
        Some((Arc::clone(&self.handoff), self.descriptor.to_wait_in()?))
    }

    /// Deregisters an input that the thread reads, and registers it again when the runtime reads.
    fn follow_owner(&mut self) -> io::Result<()> {
        if self.handoff.thread_reads() {
            self.fd = None;
        } else if self.fd.is_none() {
            self.fd = Some(register(Arc::clone(&self.descriptor), Interest::READABLE)?);
            self.untold = true;
        }
        Ok(())
    }

    pub(crate) fn poll_receive(
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
                        // Our client has closed a named pipe, and another process has opened it since. The
                        // flag that is never cleared would make this spin.
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

    /// A duplicate of the input's descriptor, to watch for its end.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.descriptor.as_fd().try_clone_to_owned()
    }

    pub(crate) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // It fails only while the runtime shuts down, and then no report will come.
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
            // Bytes wait to be read. The runtime does not report the end until this readiness is cleared, so it is
            // cleared, and `untold` remembers it.
            self.untold = true;
            ready.clear_ready();
        }
    }
}

/// The interval of checks for progress of a slow reader. The system reports room in a socket only when most
/// of its buffer is free, and in a pipe when a page is free. For a slow reader that may take longer than the
/// timeout for a remote that reads nothing (L5).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Maximum number of bytes of one write to a slow reader. A socket frees the room of one write only when all
/// of it has been read, so the progress of a larger write would not show.
const SLOW_BYTES: usize = 4 * 1024;

// Same name: `threaded.rs` has the same interface, on a thread.
pub(crate) struct StdoutWriter {
    fd: AsyncFd<Arc<Descriptor>>,
    /// `true` if there may be room that the runtime has not reported yet, as at the start.
    untold: bool,
    looks: Looks,
}

impl StdoutWriter {
    pub(crate) fn new(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let fd = register(descriptor, Interest::WRITABLE)?;
        Ok(StdoutWriter { fd, untold: true, looks: Looks::default() })
    }

    pub(crate) fn poll_send(
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
                        // As for reading: the reader has closed a named pipe, which is full.
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

    pub(crate) fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.fd.poll_write_ready(cx) {
                Poll::Ready(Ok(ready)) if ready.ready().is_write_closed() => {
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(mut ready)) => {
                    ready.clear_ready();
                    self.untold = true;
                }
                // The runtime ends.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// Checks periodically whether the reader has taken bytes.
#[derive(Default)]
struct Looks {
    /// The time of the next check; made on demand.
    next: Option<Pin<Box<Sleep>>>,
    /// The number of bytes that the reader had not taken at the last check.
    unread: Option<u64>,
    /// `true` if anything was written since the last check.
    has_moved: bool,
    /// `true` if nothing was written between two checks, and not everything has left since.
    is_slow: bool,
}

impl Looks {
    /// The part of these bytes for the next write.
    fn piece<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(..SLOW_BYTES).filter(|_| self.is_slow).unwrap_or(bytes)
    }

    fn note_written(&mut self) {
        self.has_moved = true;
        // New bytes were written, so a comparison would mean nothing.
        self.unread = None;
    }

    /// Called when the runtime reports no room. Returns `true` if a write should be tried anyway;
    /// otherwise it registers a waker for the next check.
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
