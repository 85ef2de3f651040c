//! Hand-off of stdin between the runtime and a thread that waits in `read` itself.
//!
//! A runtime asks the system which descriptors are ready, and then reads. That is one system call more than a
//! round trip needs, plus the overhead of the runtime. Together they cost about as much as everything else.
//! So while handlers are ready immediately, a thread waits in `read` and polls the driver from there: it
//! reads, handles and writes messages without waking another thread.
//!
//! ```text
//!                     idle after messages, often enough in a row
//!   Owner::Runtime ─────────────────────────────────────────────▶ Owner::Thread
//!         ▲                                                            │
//!         └── a handler waits, something cannot be sent, or the end ───┘
//! ```
//!
//! The runtime's thread polls the driver too, for everything else: a command from another thread, a
//! timer, the end. The lock of [`Cell`] decides which of the two threads polls, and is held while
//! handlers run inline. [`Handoff`] holds the bytes that the thread has read until the driver takes them,
//! which costs a lock and a copy into the decoder's buffer. The thread does not read into that buffer,
//! because the driver may need it while the thread waits.
//!
//! A handler that has to wait needs the runtime at every step. So the input then goes back to the runtime,
//! and must be idle for longer the next time. In debug builds the input changes hands as often as possible,
//! so that all tests of the daemon test the hand-off too.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use crate::connection::Driver;
use crate::error::Disconnect;
use crate::error::Error;
use crate::panic_guard;
use crate::sync::lock;
use crate::sys::{Descriptor, Errno, IoResult, Owned, blocking_read};
use crate::threads;
use crate::transport::{Inbox, Received};

/// The number of polls in a row, each with messages, that must leave the driver idle before the thread reads.
/// It doubles each time that the thread has to give the input back, up to the second number.
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

/// The input, as the transport and the two threads share it.
#[derive(Debug, Default)]
pub(crate) struct Handoff {
    thread_reads: AtomicBool,
    has_bytes: AtomicBool,
    handed: Mutex<Handed>,
    /// Set by the runtime's thread if it finds the cell locked. The thread that unlocks the cell then wakes
    /// it.
    is_wanted: AtomicBool,
}

/// Bytes that the thread has read and the driver has not taken.
#[derive(Debug, Default)]
struct Handed {
    bytes: Vec<u8>,
    taken: usize,
    /// The end of the input, or the error that ended it.
    end: Option<io::Result<()>>,
    /// `true` if the pipe may hold more bytes, because the read filled its buffer.
    may_have_more: bool,
}

impl Handoff {
    /// Returns `true` if the runtime must not watch the input.
    pub(crate) fn thread_reads(&self) -> bool {
        self.thread_reads.load(Ordering::Relaxed)
    }

    /// Moves bytes to the inbox; `None` if there are none.
    pub(crate) fn take(
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

    /// Stores the bytes of a read. The driver has taken all bytes of the previous read.
    fn hand_in(&self, bytes: &mut Vec<u8>, read: IoResult<usize>) {
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

    /// Returns `true` if the driver has taken everything.
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
        // For a long message, the rest goes directly to the decoder.
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

// ---- the threads

/// A driver that both the runtime's thread and the reading thread can poll. As a future it is the runtime's
/// side.
pub(crate) struct HandedOver {
    cell: Arc<Mutex<Cell>>,
    handoff: Arc<Handoff>,
    /// A descriptor for the thread to wait on, until the thread takes it.
    input: Option<Owned>,
}

struct Cell {
    /// `None` after the end of the driver.
    driver: Option<Driver>,
    /// The outcome of the driver, if the reading thread has seen its end.
    ended: Option<Result<Disconnect, Error>>,
    owner: Owner,
    /// The channel to the reading thread, if there is one. The thread reads when it receives the waker of the
    /// runtime's thread, and ends when this is dropped.
    thread: Option<Sender<Waker>>,
    idle_polls: u32,
    needed_polls: u32,
    messages: u64,
}

impl HandedOver {
    /// A driver whose input the thread may read from this descriptor.
    pub(crate) fn new(driver: Driver, handoff: Arc<Handoff>, input: Owned) -> Self {
        let cell = Cell {
            driver: Some(driver),
            ended: None,
            owner: Owner::Runtime,
            thread: None,
            idle_polls: 0,
            needed_polls: IDLE_POLLS,
            messages: 0,
        };
        HandedOver { cell: Arc::new(Mutex::new(cell)), handoff, input: Some(input) }
    }

    /// Returns the reading thread, and starts it on demand; `None` if a thread cannot read this input.
    fn find_thread(&mut self) -> Option<Sender<Waker>> {
        if let Some(input) = self.input.take() {
            let (cell, handoff) = (Arc::clone(&self.cell), Arc::clone(&self.handoff));
            let (runtime, (sender, turns)) = (Handle::current(), channel());
            // Handlers run inside the runtime, as on its own thread, with the same restrictions.
            let read = async move { read_and_serve(&cell, &handoff, &input, &turns) };
            let read = move || runtime.block_on(unconstrained(read));
            threads::builder("duet-rpc reader", STACK).ok()?.spawn(read).ok()?;
            lock(&self.cell).thread = Some(sender);
        }
        lock(&self.cell).thread.clone()
    }
}

impl Future for HandedOver {
    type Output = Result<Disconnect, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Do not wait for the other thread, so that other tasks run meanwhile.
        let Some(mut cell) = try_enter(&this.cell, &this.handoff) else { return Poll::Pending };
        let polled = cell.poll(cx);
        if polled.is_ready() || !cell.is_time_to_hand_over(&this.handoff) {
            return polled;
        }
        drop(cell);
        // The other thread is not inside the cell: it reads only after a hand-off.
        let Some(thread) = this.find_thread() else { return Poll::Pending };
        let mut cell = lock(&this.cell);
        cell.set_owner(Owner::Thread, &this.handoff);
        // Now the runtime deregisters the input.
        let polled = cell.poll(cx);
        drop(cell);
        if polled.is_pending() {
            // The thread ends only with this future.
            let _ = thread.send(cx.waker().clone());
        }
        polled
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        let mut cell = lock(&self.cell);
        cell.driver = None;
        cell.thread = None;
    }
}

impl Cell {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Disconnect, Error>> {
        match (self.ended.take(), &mut self.driver) {
            (Some(ended), _) => Poll::Ready(ended),
            (None, Some(driver)) => Pin::new(driver).poll(cx).map(Ok),
            (None, None) => Poll::Pending,
        }
    }

    /// Returns `true` if the driver has been idle for long enough.
    fn is_time_to_hand_over(&mut self, handoff: &Handoff) -> bool {
        if self.owner == Owner::Thread {
            return false;
        }
        let Some(driver) = &self.driver else { return false };
        let has_served = std::mem::replace(&mut self.messages, driver.messages()) != self.messages;
        self.idle_polls = match self.is_idle(handoff) {
            true => self.idle_polls + u32::from(has_served),
            false => 0,
        };
        self.idle_polls >= self.needed_polls
    }

    /// Returns `true` if the driver does not need the runtime and has taken all bytes of the last read, which
    /// the next read would replace.
    fn is_idle(&self, handoff: &Handoff) -> bool {
        handoff.is_empty() && self.driver.as_ref().is_some_and(Driver::is_idle)
    }

    /// Changes the reader of the input. The driver must be polled after that.
    fn set_owner(&mut self, owner: Owner, handoff: &Handoff) {
        self.owner = owner;
        self.idle_polls = 0;
        handoff.thread_reads.store(owner == Owner::Thread, Ordering::Relaxed);
        // A method that runs for the first time needs the runtime only this once.
        let is_trial = self.driver.as_ref().is_some_and(Driver::is_on_trial);
        if owner == Owner::Runtime && !is_trial {
            self.needed_polls = (self.needed_polls * 2).min(MOST_IDLE_POLLS);
        }
    }
}

/// Enters the cell, for the runtime's thread. If the reading thread is inside, it wakes the runtime's thread
/// when it leaves.
fn try_enter<'a>(cell: &'a Mutex<Cell>, handoff: &Handoff) -> Option<MutexGuard<'a, Cell>> {
    for is_last in [false, true] {
        match cell.try_lock() {
            Ok(cell) => return Some(cell),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if !is_last => {
                // The other thread may have left before it could see the flag, so this tries once more.
                handoff.is_wanted.store(true, Ordering::SeqCst);
                atomic::fence(Ordering::SeqCst);
            }
            Err(TryLockError::WouldBlock) => {}
        }
    }
    None
}

/// Leaves the cell, for the reading thread; returns `true` if the runtime's thread has to be woken.
fn leave(cell: MutexGuard<'_, Cell>, handoff: &Handoff) -> bool {
    drop(cell);
    atomic::fence(Ordering::SeqCst);
    handoff.is_wanted.swap(false, Ordering::SeqCst)
}

/// The reading thread: one turn for each hand-off.
fn read_and_serve(cell: &Mutex<Cell>, handoff: &Handoff, input: &Owned, turns: &Receiver<Waker>) {
    let mut bytes = Vec::new();
    while let Ok(waker) = turns.recv() {
        let mut cx = Context::from_waker(&waker);
        let mut owner = Owner::Thread;
        while owner == Owner::Thread {
            let read = read(input, &mut bytes);
            let mut cell = lock(cell);
            if cell.driver.is_none() {
                return;
            }
            if read == Err(Errno::AGAIN) {
                // A thread cannot wait for this input.
                cell.thread = None;
                owner = Owner::Runtime;
            } else {
                handoff.hand_in(&mut bytes, read);
                let polled = panic_guard::catch(|| cell.poll(&mut cx));
                let polled = polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)));
                if polled.is_ready() || !cell.is_idle(handoff) {
                    owner = Owner::Runtime;
                }
                if let Poll::Ready(ended) = polled {
                    cell.ended = Some(ended);
                }
            }
            if owner == Owner::Runtime {
                cell.set_owner(owner, handoff);
            }
            if leave(cell, handoff) || owner == Owner::Runtime {
                waker.wake_by_ref();
            }
        }
    }
}

/// Waits for input.
fn read(input: &Owned, bytes: &mut Vec<u8>) -> IoResult<usize> {
    bytes.clear();
    bytes.reserve_exact(READ);
    blocking_read(input, bytes)
}
