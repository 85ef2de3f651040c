//! Memory for answers: how much may wait to be sent, and how many large answers are made at a time.
//!
//! A part of the budget (`at_once`) is reserved for large answers while handlers make them.
//!
//! | the next handler's answers are | it starts when |
//! |---|---|
//! | small | the waiting bytes are below the limit |
//! | large: fewer than 32 fit into `at_once` | the large answers that are being made also fit into `at_once` |
//! | of unknown size | no other handler of the method is computing: its answer will show the size |
//!
//! The module `budget` lists all limits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::router::{AnswerSize, Beginning, wait_for};
use crate::sync::lock;

/// A budget of memory for answers, of one connection or of all connections of a server. It counts the bytes
/// that wait to be sent, and an estimate for each unfinished large answer.
pub(crate) struct Budget {
    limit: usize,
    /// The bytes of large answers that may be made at a time.
    at_once: usize,
    is_shared: bool,
    /// Bytes that wait to be sent.
    waiting: AtomicUsize,
    /// Bytes of answers that wait for the rest of their batches. They have a limit of their own. If they
    /// counted as bytes that wait to be sent, a slow batch would keep handlers waiting.
    batches: AtomicUsize,
    /// The estimates of the large answers that are being made.
    making: AtomicUsize,
    /// The last handler with a large answer that began. The lock makes such handlers begin one after the
    /// other.
    last_large: Mutex<Option<Beginning>>,
    /// The queue of handlers whose answers are not large. Only the first handler of a queue, which has its
    /// permit, checks for room. If a thousand handlers checked each time, they would keep the processors
    /// busy.
    small: Semaphore,
    /// The queue of handlers whose answers are large.
    large: Semaphore,
    /// Wakes the first of each queue.
    room: Notify,
    waiters: AtomicUsize,
}

/// An answer is large if fewer than this many of its size fit into [`Budget::at_once`].
const FEW: usize = 32;

/// This part of a shared budget is for unfinished large answers. Making more of them at a time would take
/// processor time from the threads that serve the connections.
const MAKING: usize = 8;

impl Budget {
    /// The budget of one connection.
    pub(crate) fn of_connection(limit: usize) -> Arc<Self> {
        Arc::new(Budget::new(limit, false))
    }

    /// A budget that connections share.
    pub(crate) fn shared(limit: usize) -> Arc<Self> {
        Arc::new(Budget::new(limit, true))
    }

    fn new(limit: usize, is_shared: bool) -> Self {
        Budget {
            limit: limit.max(1),
            at_once: if is_shared { limit / MAKING } else { limit },
            is_shared,
            waiting: AtomicUsize::new(0),
            batches: AtomicUsize::new(0),
            making: AtomicUsize::new(0),
            last_large: Mutex::default(),
            small: Semaphore::new(1),
            large: Semaphore::new(1),
            room: Notify::new(),
            waiters: AtomicUsize::new(0),
        }
    }

    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns `true` if connections share the budget, and the bytes that wait to be sent have used it up. Then no
    /// further answer may be made.
    #[inline]
    pub(crate) fn is_spent_by_many(&self) -> bool {
        self.is_shared && !self.has_room_for(0)
    }

    fn has_room_for(&self, making: usize) -> bool {
        self.waiting.load(Ordering::SeqCst).saturating_add(making) < self.limit
    }

    fn is_large(&self, bytes: usize) -> bool {
        bytes > self.at_once / FEW
    }

    /// Returns `true` if large answers of this size may be made at the same time.
    fn has_room_to_make(&self, bytes: usize) -> bool {
        bytes <= self.at_once && self.has_room_for(bytes)
    }

    /// Adds bytes that wait to be sent.
    pub(crate) fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Removes bytes that have left.
    pub(crate) fn remove(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting.fetch_sub(bytes, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Records a change in the number of answer bytes that the batches of a connection hold.
    pub(crate) fn count_batches(&self, before: usize, now: usize) {
        match before < now {
            true => self.batches.fetch_add(now - before, Ordering::Relaxed),
            false => self.batches.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    /// Returns `true` if connections share the budget, and the answers in their batches have reached its limit. Then
    /// no further request of a batch may begin.
    #[inline]
    pub(crate) fn is_full_of_batches(&self) -> bool {
        self.is_shared && self.batches.load(Ordering::Relaxed) >= self.limit
    }

    /// The queue for handlers whose answers are of this size.
    fn queue_of<'a>(&'a self, size: &'a AnswerSize) -> &'a Semaphore {
        match size.is_known() {
            true if self.is_large(size.estimate()) => &self.large,
            true => &self.small,
            false => &size.queue,
        }
    }

    /// Lets a handler with answers of this size begin, unless it has to wait.
    pub(crate) fn try_reserve(self: &Arc<Self>, size: &Arc<AnswerSize>) -> Option<Reservation> {
        let is_empty = self.queue_of(size).available_permits() > 0;
        is_empty.then(|| self.reserve_now(size).ok()).flatten()
    }

    /// Waits until a handler with answers of this size may begin.
    pub(crate) async fn reserve(self: &Arc<Self>, size: &Arc<AnswerSize>) -> Reservation {
        if let Some(reservation) = self.try_reserve(size) {
            return reservation;
        }
        // The semaphore is never closed.
        let _first = self.queue_of(size).acquire().await.ok();
        // Register the waiter before the next check, so that room which comes in between is noticed.
        let _waiter = Waiter::take(&self.waiters);
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            match self.reserve_now(size) {
                Ok(reservation) => return reservation,
                Err(None) => room.await,
                Err(Some(step)) => {
                    let _ = timeout_at(step, room).await;
                }
            }
        }
    }

    /// Lets a handler begin, or fails. The error has the time of the next attempt if only unfinished answers
    /// are in the way.
    fn reserve_now(
        self: &Arc<Self>,
        size: &Arc<AnswerSize>,
    ) -> Result<Reservation, Option<Instant>> {
        if self.is_spent_by_many() {
            return Err(None);
        }
        let (now, budget) = (Instant::now(), Arc::clone(self));
        if !size.is_known() {
            size.claim(now)?;
            return Ok(Reservation { budget, estimate: 0, size: Some(Arc::clone(size)) });
        }
        let estimate = match size.estimate().min(self.limit) {
            small if !self.is_large(small) => 0,
            large => self.claim_large(large, now).map(|()| large)?,
        };
        Ok(Reservation { budget, estimate, size: None })
    }

    /// Counts a large answer whose handler begins now. Fails with the time of the next attempt.
    fn claim_large(&self, estimate: usize, now: Instant) -> Result<(), Option<Instant>> {
        let mut last = lock(&self.last_large);
        let making = self.making.load(Ordering::SeqCst);
        if making > 0 && !self.has_room_to_make(making + estimate) {
            wait_for(last.as_ref(), now)?;
        }
        *last = Some(Beginning::here(now));
        self.making.fetch_add(estimate, Ordering::SeqCst);
        Ok(())
    }

    /// Wakes the first of each queue, if there is room. Each checks its own bounds again.
    fn wake(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 && !self.is_spent_by_many() {
            self.room.notify_waiters();
        }
    }
}

/// Counts one waiter until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn take(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::SeqCst);
        Waiter(waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The part of the budget that a running handler takes.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    estimate: usize,
    /// Set if the handler was to show the size of its method's answers.
    size: Option<Arc<AnswerSize>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(size) = &self.size {
            size.release();
        }
        self.budget.making.fetch_sub(self.estimate, Ordering::SeqCst);
        self.budget.wake();
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
