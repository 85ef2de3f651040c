//! Memory transport: two peers in one process.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

use crate::sync::lock;

/// Maximum number of unread bytes in each direction. Beyond it, the sender waits.
const ROOM: usize = 64 * 1024;

/// Two ends of a connection in memory: each receives the messages of the other, without framing. For
/// tests, and for two parts of one program.
///
/// ```
/// let (here, there) = duet_rpc::transport::memory::pair();
/// # drop((here, there));
/// ```
pub fn pair() -> (Memory, Memory) {
    let (one, two) = (Arc::<Mutex<Way>>::default(), Arc::<Mutex<Way>>::default());
    let here = Memory { incoming: Arc::clone(&one), outgoing: Arc::clone(&two) };
    (here, Memory { incoming: two, outgoing: one })
}

/// One end of a connection in memory; see [`pair`].
pub struct Memory {
    incoming: Arc<Mutex<Way>>,
    outgoing: Arc<Mutex<Way>>,
}

/// One direction.
#[derive(Default)]
struct Way {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    is_closed: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Transport for Memory {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let mut way = lock(&self.incoming);
        let Some(message) = way.messages.pop_front() else {
            if way.is_closed {
                return Poll::Ready(Ok(Received::Eof));
            }
            way.receiver = Some(cx.waker().clone());
            return Poll::Pending;
        };
        way.bytes -= message.len();
        let sender = way.sender.take();
        drop(way);
        wake(sender);
        inbox.push(&message)?;
        Poll::Ready(Ok(Received::Data))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        if outbox.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut way = lock(&self.outgoing);
        while let Some(message) = outbox.message() {
            if way.is_closed {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if way.bytes >= ROOM {
                way.sender = Some(cx.waker().clone());
                break;
            }
            way.bytes += message.len();
            way.messages.push_back(message.to_vec());
            outbox.pop();
        }
        let receiver = way.receiver.take();
        drop(way);
        wake(receiver);
        if outbox.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut way = lock(&self.incoming);
        if way.is_closed {
            return Poll::Ready(());
        }
        way.receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<ExitReport> {
        self.hang_up();
        Poll::Ready(ExitReport::default())
    }
}

impl Memory {
    /// Closes both directions. The other end receives all messages that were sent, and then the end. Its own
    /// unread messages are lost.
    fn hang_up(&mut self) {
        for way in [&self.incoming, &self.outgoing] {
            let mut way = lock(way);
            way.is_closed = true;
            let wakers = [way.receiver.take(), way.sender.take()];
            drop(way);
            wakers.into_iter().for_each(wake);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
