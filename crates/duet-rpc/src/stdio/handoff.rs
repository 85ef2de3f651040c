//! Hand-off of stdin between the runtime and a thread that waits in `read` itself.
//!
//! A runtime asks the system what is ready, and reads then. That is one call more than a round trip needs,
//! and a walk through the runtime besides; together they cost about as much as all the rest. So while
//! handlers are ready immediately, a thread waits in `read` and polls the driver from there: it reads,
//! handles and writes, with no other thread woken.
//!
//! ```text
//!                     idle after messages, often enough in a row
//!   Owner::Runtime ─────────────────────────────────────────────▶ Owner::Thread
//!         ▲                                                            │
//!         └── a handler waits, something cannot be sent, or the end ───┘
//! ```
//!
//! The runtime's thread polls the driver too, whenever anything else happens: a command from another thread,
//! a timer, the end. `DriverCell::state` says which of the two threads polls, and is held while handlers run
//! inline; [`Handoff`] holds the bytes that the thread has read until the driver takes them, which costs a
//! lock and a copy into the decoder's buffer. The thread does not read into that buffer, because the driver
//! may need it while the thread waits.
//!
//! A handler that has to wait needs the runtime at every step, so then the input goes back, and must be idle
//! for longer the next time. In debug builds the owner changes at almost every chance, so that all tests of
//! the daemon test this too.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread;

use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::descriptor::Descriptor;
use crate::connection::Driver;
use crate::error::Disconnect;
use crate::error::Error;
use crate::panic_guard;
use crate::sync::lock;
use crate::transport::{Inbox, Received};

/// The number of polls in a row, each with messages, that must leave the driver idle before the thread reads;
/// twice as many each time that it did not last, up to the second number.
const IDLE_POLLS: u32 = if cfg!(debug_assertions) { 1 } else { 32 };
const MOST_IDLE_POLLS: u32 = if cfg!(debug_assertions) { 2 } else { 4096 };

/// The bytes of one read.
const READ: usize = 64 * 1024;

/// Handlers run on this thread as on the main one, so its stack is as large as that of a main thread.
pub(crate) const STACK: usize = 8 * 1024 * 1024;

/// The reader of stdin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Runtime,
    Thread,
}

// ---- the bytes

/// The input, as the transport and the thread share it.
#[derive(Debug, Default)]
pub(super) struct Handoff {
    thread_reads: AtomicBool,
    has_bytes: AtomicBool,
    handed: Mutex<Handed>,
}

/// What the thread has read and the driver has not taken.
#[derive(Debug, Default)]
struct Handed {
    bytes: Vec<u8>,
    taken: usize,
    /// The end of the input, or the error that ended it.
    end: Option<io::Result<()>>,
    /// Whether there may be more in the pipe, because the read took all that it had room for.
    may_have_more: bool,
}

impl Handoff {
    /// Whether the runtime is to forget the input.
    pub(super) fn thread_reads(&self) -> bool {
        self.thread_reads.load(Ordering::Relaxed)
    }

    /// Changes the owner. The driver is to be polled after that.
    fn set_owner(&self, owner: Owner) {
        self.thread_reads.store(owner == Owner::Thread, Ordering::Relaxed);
    }

    /// Moves what was read to the inbox; `None` if there is nothing.
    pub(super) fn take(
        &self,
        descriptor: &Descriptor,
        inbox: &mut Inbox,
    ) -> Option<io::Result<Received>> {
        if !self.has_bytes.load(Ordering::Relaxed) {
            return None;
        }
        let taken = lock(&self.handed).take(descriptor, inbox).transpose();
        if taken.is_none() {
            self.has_bytes.store(false, Ordering::Relaxed);
        }
        taken
    }

    /// Hands in what the thread has read. All of the read before it has been taken.
    fn hand_in(&self, bytes: &mut Vec<u8>, read: rustix::io::Result<usize>) {
        let mut handed = lock(&self.handed);
        debug_assert!(handed.taken == handed.bytes.len() && handed.end.is_none());
        std::mem::swap(&mut handed.bytes, bytes);
        handed.taken = 0;
        (handed.end, handed.may_have_more) = match read {
            Ok(0) => (Some(Ok(())), false),
            Ok(count) => (None, count >= READ),
            Err(errno) => (Some(Err(errno.into())), false),
        };
        self.has_bytes.store(true, Ordering::Relaxed);
    }

    /// Whether the driver has taken everything.
    fn is_empty(&self) -> bool {
        !self.has_bytes.load(Ordering::Relaxed)
    }
}

impl Handed {
    fn take(&mut self, descriptor: &Descriptor, inbox: &mut Inbox) -> io::Result<Option<Received>> {
        let rest = &self.bytes[self.taken..];
        if !rest.is_empty() {
            let space = inbox.space()?;
            let count = rest.len().min(space.capacity() - space.len());
            space.extend_from_slice(&rest[..count]);
            self.taken += count;
            return Ok(Some(Received::Data));
        }
        if let Some(end) = self.end.take() {
            return end.map(|()| Some(Received::Eof));
        }
        if !self.may_have_more {
            return Ok(None);
        }
        // A long message: the rest of it goes straight to the decoder.
        let space = inbox.space()?;
        let room = space.capacity() - space.len();
        let read = descriptor.read(space);
        self.may_have_more = read == Ok(room);
        match read {
            Ok(0) => Ok(Some(Received::Eof)),
            Ok(_) => Ok(Some(Received::Data)),
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A descriptor of the input to wait in, with the buffer for it.
#[derive(Debug)]
pub(crate) struct BlockingReader {
    handoff: Arc<Handoff>,
    input: OwnedFd,
    bytes: Vec<u8>,
}

impl BlockingReader {
    /// `None` if this input cannot be waited for.
    pub(super) fn new(handoff: Arc<Handoff>, descriptor: &Descriptor) -> Option<Self> {
        let input = descriptor.to_wait_in()?;
        Some(BlockingReader { handoff, input, bytes: Vec::new() })
    }

    /// Waits for input.
    fn read(&mut self) -> rustix::io::Result<usize> {
        self.bytes.clear();
        self.bytes.reserve_exact(READ);
        rustix::io::retry_on_intr(|| {
            rustix::io::read(&self.input, rustix::buffer::spare_capacity(&mut self.bytes))
        })
    }
}

// ---- the threads

/// A driver that the runtime's thread and the reading thread poll, whichever has a reason to. As a future it
/// is the runtime's side.
pub(crate) struct HandedOver(Arc<DriverCell>);

struct DriverCell {
    state: Mutex<CellState>,
    /// Set by the runtime's thread if it found the state locked: whoever unlocks it wakes that thread.
    is_wanted: AtomicBool,
}

struct CellState {
    /// `None` when everything is over.
    driver: Option<Driver>,
    /// How it ended, if the reading thread has seen it.
    ended: Option<Result<Disconnect, Error>>,
    owner: Owner,
    handoff: Option<Arc<Handoff>>,
    thread: ReaderThread,
    idle_polls: u32,
    needed_polls: u32,
    messages: u64,
}

/// The thread that reads.
enum ReaderThread {
    /// It has not been needed yet.
    NotStarted(BlockingReader),
    /// It reads after it has got the waker of the runtime's thread, and ends when the sender is dropped.
    Started(Sender<Waker>),
    /// This input cannot be waited for.
    Impossible,
}

impl HandedOver {
    pub(crate) fn new(driver: Driver, reader: Option<BlockingReader>) -> Self {
        let state = CellState {
            driver: Some(driver),
            ended: None,
            owner: Owner::Runtime,
            handoff: reader.as_ref().map(|reader| Arc::clone(&reader.handoff)),
            thread: reader.map_or(ReaderThread::Impossible, ReaderThread::NotStarted),
            idle_polls: 0,
            needed_polls: IDLE_POLLS,
            messages: 0,
        };
        let is_wanted = AtomicBool::new(false);
        HandedOver(Arc::new(DriverCell { state: Mutex::new(state), is_wanted }))
    }
}

impl Future for HandedOver {
    type Output = Result<Disconnect, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // This does not wait for the other thread: other tasks run meanwhile.
        let Some(mut state) = self.0.try_enter() else { return Poll::Pending };
        let mut polled = state.poll(cx);
        if polled.is_pending()
            && state.is_time_to_hand_over()
            && let Some(thread) = self.0.find_thread(&mut state)
        {
            state.set_owner(Owner::Thread);
            // Now the runtime forgets the input.
            polled = state.poll(cx);
            drop(state);
            if polled.is_pending() {
                // The thread ends only with this future.
                let _ = thread.send(cx.waker().clone());
            }
        }
        polled
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.driver = None;
        state.thread = ReaderThread::Impossible;
    }
}

impl CellState {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Disconnect, Error>> {
        match (self.ended.take(), &mut self.driver) {
            (Some(ended), _) => Poll::Ready(ended),
            (None, Some(driver)) => Pin::new(driver).poll(cx).map(Ok),
            (None, None) => Poll::Pending,
        }
    }

    /// Whether the runtime has not been needed for long enough.
    fn is_time_to_hand_over(&mut self) -> bool {
        if self.owner == Owner::Thread {
            return false;
        }
        let Some(driver) = &self.driver else { return false };
        let has_served = std::mem::replace(&mut self.messages, driver.messages()) != self.messages;
        self.idle_polls = match self.is_idle() {
            true => self.idle_polls + u32::from(has_served),
            false => 0,
        };
        self.idle_polls >= self.needed_polls
    }

    /// Whether the runtime is not needed, and everything that was handed in is taken: the next read would
    /// take its place.
    fn is_idle(&self) -> bool {
        self.handoff.as_ref().is_none_or(|handoff| handoff.is_empty())
            && self.driver.as_ref().is_some_and(Driver::is_idle)
    }

    /// Changes the owner of the input.
    fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
        self.idle_polls = 0;
        if let Some(handoff) = &self.handoff {
            handoff.set_owner(owner);
        }
        // A method that runs for the first time needs the runtime only this once.
        let is_trial = self.driver.as_ref().is_some_and(Driver::is_on_trial);
        if owner == Owner::Runtime && !is_trial {
            self.needed_polls = (self.needed_polls * 2).min(MOST_IDLE_POLLS);
        }
    }
}

impl DriverCell {
    /// For the runtime's thread. If the other one is inside, it wakes this one when it leaves.
    fn try_enter(&self) -> Option<MutexGuard<'_, CellState>> {
        for is_last in [false, true] {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if !is_last => {
                    // The other thread may have left before it could see this, so it is tried once more.
                    self.is_wanted.store(true, Ordering::SeqCst);
                    atomic::fence(Ordering::SeqCst);
                }
                Err(TryLockError::WouldBlock) => {}
            }
        }
        None
    }

    /// Leaves; whether the runtime's thread has to be woken.
    fn leave(&self, state: MutexGuard<'_, CellState>) -> bool {
        drop(state);
        atomic::fence(Ordering::SeqCst);
        self.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// The thread that reads, which is started if there is none yet.
    fn find_thread(self: &Arc<Self>, state: &mut CellState) -> Option<Sender<Waker>> {
        if let ReaderThread::NotStarted(_) = state.thread
            && let ReaderThread::NotStarted(reader) =
                std::mem::replace(&mut state.thread, ReaderThread::Impossible)
        {
            let (shared, runtime) = (Arc::clone(self), Handle::current());
            let (sender, turns) = channel();
            let thread = thread::Builder::new().name("duet-rpc reader".to_owned());
            // Handlers find themselves inside the runtime, as on its own thread, with all that is forbidden
            // there.
            let read = async move { shared.read_and_serve(reader, &turns) };
            let read = move || runtime.block_on(unconstrained(read));
            thread.stack_size(STACK).spawn(read).ok()?;
            state.thread = ReaderThread::Started(sender);
        }
        match &state.thread {
            ReaderThread::Started(sender) => Some(sender.clone()),
            ReaderThread::NotStarted(_) | ReaderThread::Impossible => None,
        }
    }

    /// The thread that reads: one turn for each hand-over.
    fn read_and_serve(&self, mut reader: BlockingReader, turns: &Receiver<Waker>) {
        while let Ok(waker) = turns.recv() {
            let mut cx = Context::from_waker(&waker);
            let mut owner = Owner::Thread;
            while owner == Owner::Thread {
                let read = reader.read();
                let mut state = lock(&self.state);
                if state.driver.is_none() {
                    return;
                }
                if read == Err(Errno::AGAIN) {
                    state.thread = ReaderThread::Impossible;
                    owner = Owner::Runtime;
                } else {
                    reader.handoff.hand_in(&mut reader.bytes, read);
                    let polled = panic_guard::catch(|| state.poll(&mut cx));
                    let polled = polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)));
                    if polled.is_ready() || !state.is_idle() {
                        owner = Owner::Runtime;
                    }
                    if let Poll::Ready(ended) = polled {
                        state.ended = Some(ended);
                    }
                }
                if owner == Owner::Runtime {
                    state.set_owner(owner);
                }
                if self.leave(state) || owner == Owner::Runtime {
                    waker.wake_by_ref();
                }
            }
        }
    }
}
