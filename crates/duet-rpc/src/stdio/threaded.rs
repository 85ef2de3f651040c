//! Threaded stdio: files, terminals and everything else that no runtime can wait for, with a plain thread
//! for each direction.
//!
//! These threads are not tasks of the runtime's blocking pool, which waits for its tasks when it ends: a
//! read from a terminal on which nobody types would keep the process alive (T4). Nothing waits for these
//! threads. A thread that is left behind in a call ends after that call, or with the process.

use std::io;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use crate::sync::lock;
use crate::sys::{Descriptor, Errno};
use crate::threads;
use crate::transport::{Inbox, Outbox, Received};

/// Maximum number of bytes of a chunk. The reading thread is at most two chunks ahead.
const CHUNK: usize = 64 * 1024;

// Same name: the interface of `polled::StdinReader`, on a thread.
pub(super) struct StdinReader {
    chunks: mpsc::Receiver<Result<Vec<u8>, Errno>>,
    /// The last chunk, and the number of its bytes that were taken.
    chunk: Vec<u8>,
    taken: usize,
    /// Set when the input has ended.
    end: Option<Result<(), Errno>>,
    on_end: Arc<Mutex<OnEnd>>,
}

/// Reports the end of the input, on the thread that finds it.
#[derive(Default)]
struct OnEnd {
    has_ended: bool,
    tell: Option<Box<dyn Fn() + Send + Sync>>,
}

impl OnEnd {
    fn tell_if_ended(&self) {
        if let Some(tell) = self.tell.as_ref().filter(|_| self.has_ended) {
            tell();
        }
    }
}

impl StdinReader {
    pub(super) fn start(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(1);
        let on_end = Arc::<Mutex<OnEnd>>::default();
        let of_thread = Arc::clone(&on_end);
        let read = move || {
            let end = read_on(&descriptor, &sender);
            let mut on_end = lock(&of_thread);
            on_end.has_ended = true;
            on_end.tell_if_ended();
            drop(on_end);
            if let Err(errno) = end {
                // The receiver may be gone.
                let _ = sender.blocking_send(Err(errno));
            }
        };
        threads::spawn("duet-rpc stdin", read)?;
        Ok(StdinReader { chunks, chunk: Vec::new(), taken: 0, end: None, on_end })
    }

    /// Calls this as soon as the thread finds the end, even if nothing receives.
    pub(super) fn on_end(&self, tell: Box<dyn Fn() + Send + Sync>) {
        let mut on_end = lock(&self.on_end);
        on_end.tell = Some(tell);
        on_end.tell_if_ended();
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        ready!(self.poll_chunk(cx));
        if let Some(end) = self.end {
            return Poll::Ready(end.map(|()| Received::Eof).map_err(Into::into));
        }
        let space = inbox.space()?;
        let rest = self.chunk.get(self.taken..).unwrap_or_default();
        let count = rest.len().min(space.capacity() - space.len());
        space.extend_from_slice(&rest[..count]);
        self.taken += count;
        Poll::Ready(Ok(Received::Data))
    }

    /// Ready when there are bytes to take, or the input has ended.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.end.is_none() && self.taken == self.chunk.len() {
            match ready!(self.chunks.poll_recv(cx)) {
                Some(Ok(chunk)) => (self.chunk, self.taken) = (chunk, 0),
                Some(Err(errno)) => self.end = Some(Err(errno)),
                None => self.end = Some(Ok(())),
            }
        }
        Poll::Ready(())
    }

    pub(super) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_chunk(cx));
        if self.end.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Reads until the input ends, or the receiver is gone.
fn read_on(
    descriptor: &Descriptor,
    chunks: &mpsc::Sender<Result<Vec<u8>, Errno>>,
) -> Result<(), Errno> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        match descriptor.wait_and_read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(errno) => return Err(errno),
        }
        if chunks.blocking_send(Ok(chunk)).is_err() {
            return Ok(());
        }
    }
}

// Same name: the interface of `polled::StdoutWriter`, on a thread.
pub(super) struct StdoutWriter {
    descriptor: Arc<Descriptor>,
    chunks: blocking::Sender<Vec<u8>>,
    written: mpsc::Receiver<Result<usize, Errno>>,
    /// `true` if the thread has bytes to write.
    is_writing: bool,
    failed: Option<Errno>,
}

impl StdoutWriter {
    pub(super) fn start(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let (chunks, given) = blocking::channel();
        let (sender, written) = mpsc::channel(1);
        let of_thread = Arc::clone(&descriptor);
        let write = move || write_on(&of_thread, &given, &sender);
        threads::spawn("duet-rpc stdout", write)?;
        Ok(StdoutWriter { descriptor, chunks, written, is_writing: false, failed: None })
    }

    /// Gives the thread a copy of the bytes for one write. The bytes leave the outbox only after they have
    /// been written, because the outbox measures progress (L5).
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        loop {
            if let Some(errno) = self.failed {
                return Poll::Ready(Err(errno.into()));
            }
            if self.is_writing {
                match ready!(self.written.poll_recv(cx)) {
                    Some(Ok(count)) => outbox.consume(count),
                    Some(Err(errno)) => self.failed = Some(errno),
                    None => self.failed = Some(Errno::PIPE),
                }
                self.is_writing = false;
            } else if outbox.is_empty() {
                return Poll::Ready(Ok(()));
            } else {
                let bytes = outbox.bytes();
                let chunk = self.descriptor.piece(bytes.get(..CHUNK).unwrap_or(bytes)).to_vec();
                // If the thread has ended, its last result shows that.
                let _ = self.chunks.send(chunk);
                self.is_writing = true;
            }
        }
    }
}

/// Writes the given bytes, until the sender is gone or a write fails. Each call may write only a part, and
/// each part counts as progress.
fn write_on(
    descriptor: &Descriptor,
    given: &blocking::Receiver<Vec<u8>>,
    written: &mpsc::Sender<Result<usize, Errno>>,
) {
    for bytes in given {
        let count = match descriptor.wait_and_write(&bytes) {
            Ok(0) => Err(Errno::IO),
            count => count,
        };
        if written.blocking_send(count).is_err() || count.is_err() {
            return;
        }
    }
}
