//! A thread that reads and serves, as long as nothing needs the runtime.
//!
//! A runtime asks the system what is ready, and reads then. That is one call more than a round trip
//! needs, and a walk through the runtime besides; together they cost about as much as all the rest.
//! So while handlers are ready at once, a thread of its own waits in `read` and drives the connection
//! from there: it reads, handles and writes, with no other thread woken. The runtime's thread drives
//! it too, whenever anything else happens: a post from another thread, a timer, the end.
//!
//! A handler that has to wait needs the runtime at every step. Then the input goes back to it, until
//! things have been calm for a while.

use std::pin::Pin;
use std::sync::atomic::{self, AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread;

use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use super::STACK;
use crate::connection::Disconnect;
use crate::connection::Driver;
use crate::error::Error;
use crate::panic_guard;
use crate::sync::lock;
use crate::transport::{Borrower, Lender};

/// How often in a row all must have been calm, after messages, before the input is lent; twice as
/// often each time that it did not last, up to the second number. In tests it changes hands at almost
/// every chance.
const CALM: u32 = if cfg!(debug_assertions) { 1 } else { 32 };
const MOST_CALM: u32 = if cfg!(debug_assertions) { 2 } else { 4096 };

/// A driver that is polled by the runtime's thread and by the one that reads, whichever has a reason
/// to; as a future it is the runtime's side.
pub(super) struct Served(Arc<Desk>);

struct Desk {
    state: Mutex<State>,
    /// The runtime's thread has found the state locked, and wants to be woken for it. So whoever
    /// locks it on another thread must look here behind it.
    is_wanted: AtomicBool,
    /// What the thread that reads waits for. It has a lock of its own, to be held for a moment.
    turn: Mutex<Turn>,
    news: Condvar,
}

/// What the thread that reads is to do.
enum Turn {
    /// To wait.
    Idle,
    /// To read; and this wakes the runtime's thread.
    Read(Waker),
    /// To end.
    Over,
}

struct State {
    /// `None` when all is over.
    driver: Option<Driver>,
    /// How it ended, if the thread that reads has seen it.
    ended: Option<Result<Disconnect, Error>>,
    reader: Reader,
    is_lent: bool,
    /// How often in a row all was calm, and how often it must be.
    calm: u32,
    enough: u32,
    messages: u64,
}

/// The thread that reads.
enum Reader {
    /// It has not been needed yet.
    ToStart(Borrower),
    Started(Lender),
    /// There can be none: this input cannot be waited for.
    Impossible,
}

impl Served {
    pub(super) fn new(driver: Driver, borrower: Option<Borrower>) -> Self {
        let state = State {
            driver: Some(driver),
            ended: None,
            reader: borrower.map_or(Reader::Impossible, Reader::ToStart),
            is_lent: false,
            calm: 0,
            enough: CALM,
            messages: 0,
        };
        Served(Arc::new(Desk {
            state: Mutex::new(state),
            is_wanted: AtomicBool::new(false),
            turn: Mutex::new(Turn::Idle),
            news: Condvar::new(),
        }))
    }
}

impl Future for Served {
    type Output = Result<Disconnect, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Not to be waited for: other tasks have their turn meanwhile.
        let Some(mut state) = self.0.try_enter() else { return Poll::Pending };
        let mut polled = state.poll(cx);
        if polled.is_pending() && state.is_time_to_lend() && self.0.lend(&mut state) {
            // Now the runtime forgets the input.
            polled = state.poll(cx);
            drop(state);
            self.0.tell(Turn::Read(cx.waker().clone()));
        }
        polled
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.enter().driver = None;
        self.0.tell(Turn::Over);
    }
}

impl State {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Disconnect, Error>> {
        match (self.ended.take(), &mut self.driver) {
            (Some(ended), _) => Poll::Ready(ended),
            (None, Some(driver)) => Pin::new(driver).poll(cx).map(Ok),
            (None, None) => Poll::Pending,
        }
    }

    /// Whether the runtime has not been needed for long enough.
    fn is_time_to_lend(&mut self) -> bool {
        let Some(driver) = self.driver.as_ref().filter(|_| !self.is_lent) else { return false };
        let has_served = std::mem::replace(&mut self.messages, driver.messages()) != self.messages;
        self.calm = match self.is_calm() {
            true => self.calm + u32::from(has_served),
            false => 0,
        };
        self.calm >= self.enough
    }

    /// Whether the runtime is not needed, and all that was handed in has been taken: what is read next
    /// would take its place.
    fn is_calm(&self) -> bool {
        let has_all = match &self.reader {
            Reader::Started(lender) => lender.has_all(),
            Reader::ToStart(_) | Reader::Impossible => true,
        };
        has_all && self.driver.as_ref().is_some_and(Driver::is_idle)
    }

    fn end_loan(&mut self, lender: &Lender) {
        lender.set_lent(false);
        self.is_lent = false;
        self.calm = 0;
        // A method that runs for the first time needs the runtime only this once.
        if !self.driver.as_ref().is_some_and(Driver::is_on_trial) {
            self.enough = (self.enough * 2).min(MOST_CALM);
        }
    }
}

impl Desk {
    fn enter(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// For the runtime's thread; if the other one is inside, it will wake it when it leaves.
    fn try_enter(&self) -> Option<MutexGuard<'_, State>> {
        for is_last in [false, true] {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if !is_last => {
                    // It may have left before it could know of this, so it is tried once more.
                    self.is_wanted.store(true, Ordering::SeqCst);
                    atomic::fence(Ordering::SeqCst);
                }
                Err(TryLockError::WouldBlock) => {}
            }
        }
        None
    }

    /// Leaves; whether the runtime's thread has to be woken.
    fn leave(&self, state: MutexGuard<'_, State>) -> bool {
        drop(state);
        atomic::fence(Ordering::SeqCst);
        self.is_wanted.swap(false, Ordering::SeqCst)
    }

    /// Lends the input to the thread that reads, which is started if there is none yet.
    fn lend(self: &Arc<Self>, state: &mut State) -> bool {
        let lender = match std::mem::replace(&mut state.reader, Reader::Impossible) {
            Reader::Started(lender) => lender,
            Reader::ToStart(borrower) => {
                let lender = borrower.lender();
                let (desk, runtime) = (Arc::clone(self), Handle::current());
                let thread = thread::Builder::new().name("duet-rpc reader".to_owned());
                // Handlers find themselves in the runtime, as they do on its own thread, with all
                // that is forbidden there.
                let read = async move { desk.read_and_serve(borrower) };
                let read = move || runtime.block_on(unconstrained(read));
                if thread.stack_size(STACK).spawn(read).is_err() {
                    return false;
                }
                lender
            }
            Reader::Impossible => return false,
        };
        lender.set_lent(true);
        state.reader = Reader::Started(lender);
        state.is_lent = true;
        true
    }

    /// The thread that reads.
    fn read_and_serve(&self, mut borrower: Borrower) {
        let lender = borrower.lender();
        while let Some(waker) = self.wait_for_turn() {
            let mut cx = Context::from_waker(&waker);
            let mut stays_lent = true;
            while stays_lent {
                let read = borrower.read();
                let mut state = self.enter();
                if state.driver.is_none() {
                    return;
                }
                if read == Err(Errno::AGAIN) {
                    state.reader = Reader::Impossible;
                    stays_lent = false;
                } else {
                    borrower.hand_in(read);
                    let polled = panic_guard::catch(|| state.poll(&mut cx));
                    let polled = polled.unwrap_or_else(|panic| Poll::Ready(Err(panic)));
                    stays_lent = polled.is_pending() && state.is_calm();
                    if let Poll::Ready(ended) = polled {
                        state.ended = Some(ended);
                    }
                }
                if !stays_lent {
                    state.end_loan(&lender);
                }
                if self.leave(state) || !stays_lent {
                    waker.wake_by_ref();
                }
            }
        }
    }

    fn tell(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.news.notify_all();
    }

    /// Waits until there is something to read, and returns what wakes the runtime's thread; `None`
    /// when all is over.
    fn wait_for_turn(&self) -> Option<Waker> {
        let turn = lock(&self.turn);
        let turn = self.news.wait_while(turn, |turn| matches!(turn, Turn::Idle));
        let mut turn = turn.unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *turn, Turn::Idle) {
            Turn::Read(waker) => Some(waker),
            Turn::Idle | Turn::Over => None,
        }
    }
}
