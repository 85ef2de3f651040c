//! Files, terminals and whatever else no runtime can wait for: one plain thread for each
//! direction.
//!
//! They are not tasks of the runtime's blocking pool, which waits for its tasks when it ends: a
//! read from a terminal on which nobody types would keep the process alive (T4). Nobody waits for
//! these threads. One that is left behind in a call ends after it, or with the process.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use rustix::io::Errno;

use super::Descriptor;
use crate::sync::lock;
use crate::transport::{Inbox, Outbox, Received};

/// How many bytes are handed over at once. The thread is never further ahead than this.
const CHUNK: usize = 64 * 1024;

/// What the thread and the driver hand to each other.
struct Desk<T> {
    state: Mutex<State<T>>,
    /// Tells the thread that there is something to do.
    bell: Condvar,
}

struct State<T> {
    /// Belongs to one of the two at a time; each variant says to whom.
    work: T,
    /// Whom to wake when the thread has done its part.
    waker: Option<Waker>,
    /// The driver's side is gone.
    is_abandoned: bool,
}

impl<T: Send + 'static> Desk<T> {
    fn start(
        name: &str,
        work: T,
        run: impl FnOnce(&Self) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let state = State { work, waker: None, is_abandoned: false };
        let desk = Arc::new(Desk { state: Mutex::new(state), bell: Condvar::new() });
        let of_thread = Arc::clone(&desk);
        thread::Builder::new().name(name.to_owned()).spawn(move || run(&of_thread))?;
        Ok(desk)
    }

    /// Nothing in here panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        lock(&self.state)
    }

    /// Waits on the thread until there is work; `None` if there never will be.
    fn wait_for<W>(&self, mut pick: impl FnMut(&mut T) -> Option<W>) -> Option<W> {
        let mut state = self.lock();
        loop {
            if state.is_abandoned {
                return None;
            }
            if let Some(work) = pick(&mut state.work) {
                return Some(work);
            }
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Hands work back from the thread to the driver.
    fn hand_back(&self, work: T) {
        let mut state = self.lock();
        state.work = work;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn abandon(&self) {
        self.lock().is_abandoned = true;
        self.bell.notify_one();
    }
}

impl<T> State<T> {
    fn leave_waker(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }
}

pub(super) struct Input {
    desk: Arc<Desk<Reading>>,
    on_end: OnEnd,
}

/// Called on the thread when it meets the end of the input.
type OnEnd = Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>;

enum Reading {
    /// The thread's: an empty buffer to fill.
    Wanted(Vec<u8>),
    /// The thread's: it has the buffer, and reads.
    UnderWay,
    /// The driver's: bytes, and how many of them it has taken.
    Come(Vec<u8>, usize),
    /// The driver's: there will be no more.
    Ended(Result<(), Errno>),
}

impl Input {
    pub(super) fn start(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let first = Reading::Wanted(Vec::with_capacity(CHUNK));
        let on_end = OnEnd::default();
        let of_thread = Arc::clone(&on_end);
        let desk = Desk::start("duet-rpc stdin", first, move |desk| {
            read_on(desk, &descriptor);
            if let Some(on_end) = of_thread.get() {
                on_end();
            }
        })?;
        Ok(Input { desk, on_end })
    }

    /// Calls this as soon as the thread meets the end, whether or not anybody receives; perhaps
    /// twice.
    pub(super) fn on_end(&self, tell: Box<dyn Fn() + Send + Sync>) {
        // Only the first one counts.
        let _ = self.on_end.set(tell);
        if let (Reading::Ended(_), Some(on_end)) = (&self.desk.lock().work, self.on_end.get()) {
            on_end();
        }
    }

    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let mut state = self.desk.lock();
        match &mut state.work {
            Reading::Wanted(_) | Reading::UnderWay => {
                state.leave_waker(cx);
                Poll::Pending
            }
            Reading::Come(chunk, taken) => {
                let space = inbox.space()?;
                let room = space.capacity() - space.len();
                let waiting = chunk.get(*taken..).unwrap_or_default();
                let (now, later) = waiting.split_at(room.min(waiting.len()));
                space.extend_from_slice(now);
                *taken += now.len();
                if later.is_empty() {
                    let mut emptied = std::mem::take(chunk);
                    emptied.clear();
                    state.work = Reading::Wanted(emptied);
                    self.desk.bell.notify_one();
                }
                Poll::Ready(Ok(Received::Data))
            }
            Reading::Ended(Ok(())) => Poll::Ready(Ok(Received::Eof)),
            Reading::Ended(Err(errno)) => Poll::Ready(Err((*errno).into())),
        }
    }

    pub(super) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.desk.lock();
        if let Reading::Ended(_) = state.work {
            return Poll::Ready(());
        }
        state.leave_waker(cx);
        Poll::Pending
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.desk.abandon();
    }
}

fn read_on(desk: &Desk<Reading>, descriptor: &Descriptor) {
    let wanted = |work: &mut Reading| match work {
        Reading::Wanted(buffer) => {
            let buffer = std::mem::take(buffer);
            *work = Reading::UnderWay;
            Some(buffer)
        }
        _ => None,
    };
    while let Some(mut chunk) = desk.wait_for(wanted) {
        match descriptor.wait_and_read(&mut chunk) {
            Ok(0) => return desk.hand_back(Reading::Ended(Ok(()))),
            // That is how the end of a terminal looks whose other side is gone.
            Err(Errno::IO) if descriptor.is_terminal() => {
                return desk.hand_back(Reading::Ended(Ok(())));
            }
            Ok(_) => desk.hand_back(Reading::Come(chunk, 0)),
            Err(errno) => return desk.hand_back(Reading::Ended(Err(errno))),
        }
    }
}

pub(super) struct Output(Arc<Desk<Writing>>);

enum Writing {
    /// The driver's: there is nothing to write, and here is a buffer for it.
    Idle(Vec<u8>),
    /// The thread's: bytes to write.
    Given(Vec<u8>),
    /// The thread's: it has the bytes, and writes.
    UnderWay,
    /// The driver's: this many of them have been written.
    Written(Vec<u8>, usize),
    /// The driver's: no more can be written.
    Failed(Errno),
}

impl Output {
    pub(super) fn start(descriptor: Arc<Descriptor>) -> io::Result<Self> {
        let first = Writing::Idle(Vec::new());
        Desk::start("duet-rpc stdout", first, move |desk| write_on(desk, &descriptor)).map(Output)
    }

    /// The thread gets a copy; the bytes leave the outbox when they have really been written,
    /// since that is how progress is measured (L5).
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &mut Outbox,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        loop {
            match &mut state.work {
                Writing::Idle(_) if outbox.is_empty() => return Poll::Ready(Ok(())),
                Writing::Idle(buffer) => {
                    let mut buffer = std::mem::take(buffer);
                    buffer.clear();
                    buffer.extend(outbox.bytes().iter().take(CHUNK));
                    state.work = Writing::Given(buffer);
                    self.0.bell.notify_one();
                }
                Writing::Given(_) | Writing::UnderWay => {
                    state.leave_waker(cx);
                    return Poll::Pending;
                }
                Writing::Written(buffer, count) => {
                    outbox.consume(*count);
                    state.work = Writing::Idle(std::mem::take(buffer));
                }
                Writing::Failed(errno) => return Poll::Ready(Err((*errno).into())),
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn write_on(desk: &Desk<Writing>, descriptor: &Descriptor) {
    let given = |work: &mut Writing| match work {
        Writing::Given(bytes) => {
            let bytes = std::mem::take(bytes);
            *work = Writing::UnderWay;
            Some(bytes)
        }
        _ => None,
    };
    while let Some(bytes) = desk.wait_for(given) {
        // One call at a time, though it may write only a part: each part is progress.
        match descriptor.wait_and_write(descriptor.piece(&bytes)) {
            Ok(0) => return desk.hand_back(Writing::Failed(Errno::IO)),
            Ok(count) => desk.hand_back(Writing::Written(bytes, count)),
            Err(errno) => return desk.hand_back(Writing::Failed(errno)),
        }
    }
}
