//! Memory budget of answers: when a handler on another thread may begin, so that a remote which reads
//! nothing costs bounded memory (L8, P9).
//!
//! A budget belongs to one connection, or to all connections of a server. It counts the bytes that wait
//! to be sent, and an estimate for every large answer that is being made right now. The size of an answer
//! is known only when it is there; so each method remembers how large its answers were.
//!
//! | who waits | until |
//! |---|---|
//! | a handler in place | less than `outgoing_bytes` wait to be sent on its connection |
//! | the same, while a shared budget is spent | nothing waits to be sent on its connection |
//! | a handler on another thread | the first of these holds for its connection, or held when it was woken, and a shared budget is not spent |
//! | the same, of a method with large answers | what is being made stays within its part too, or the last such handler [blocks](Beginning) its thread |
//! | the same, of a method that never answered | the last handler of this method has ended, awaits or [blocks](Beginning) its thread |
//! | a request of a batch, while the batches of all connections hold the limit | it is answered busy |
//! | a remote that reads nothing while a shared budget is spent | it is disconnected after [`STALLED`] |
//!
//! A handler that awaits or blocks keeps no other from its beginning: it may be waiting for the handlers
//! behind it, and may answer little. So handlers that do not await make at most as many large answers at the
//! same time as there are threads, and usually one. Handlers that await are bounded by the number of requests in
//! flight.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long a handler waits before it looks whether the one before it blocks its thread.
const STEP: Duration = Duration::from_millis(50);

/// How long a handler waits at most for one that computes. On other systems than Linux, which do not tell
/// whether a thread computes, it waits for [`STEP`].
const LONGEST: Duration = Duration::from_secs(2);

/// How long a remote may read nothing while the budget that it shares with others is spent.
pub(crate) const STALLED: Duration = Duration::from_secs(5);

/// How many bytes may wait to be sent, or are being made, and who waits for some of them.
pub(crate) struct Budget {
    limit: usize,
    /// How many bytes of large answers may be made at a time.
    at_once: usize,
    is_shared: bool,
    /// Bytes that wait to be sent.
    waiting: AtomicUsize,
    /// Bytes of answers that wait for the rest of their batches. They have a limit of their own: were they
    /// counted among those that wait to be sent, a batch that takes long would keep handlers waiting.
    batches: AtomicUsize,
    /// The estimates of the answers that are being made.
    making: Mutex<Making>,
    /// Where handlers wait whose answers are not large.
    small: Queue,
    /// Where those wait whose answers are large.
    large: Queue,
    /// Wakes the first of each queue.
    room: Notify,
    waiters: AtomicUsize,
}

/// A queue in front of the budget. Only the first handler looks for room: if each of a thousand did
/// whenever there is some, they would keep the processors busy.
#[derive(Default)]
struct Queue {
    /// Held by the first.
    first: tokio::sync::Mutex<()>,
    length: AtomicUsize,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }

    /// Waits to be the first in the queue, and stays it until the result is dropped.
    async fn stand(&self) -> (Place<'_>, tokio::sync::MutexGuard<'_, ()>) {
        self.length.fetch_add(1, Ordering::Relaxed);
        let place = Place(&self.length);
        (place, self.first.lock().await)
    }
}

#[derive(Default)]
struct Making {
    bytes: usize,
    /// The last of them that began.
    last: Option<Beginning>,
}

/// An answer is large if fewer than this many of its size fit into [`Budget::at_once`].
const FEW: usize = 32;

/// This part of a shared budget is for large answers that are being made: to make more of them at a time
/// would take the processors from the threads that serve the connections.
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
            making: Mutex::default(),
            small: Queue::default(),
            large: Queue::default(),
            room: Notify::new(),
            waiters: AtomicUsize::new(0),
        }
    }

    fn making(&self) -> MutexGuard<'_, Making> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections share it.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Whether connections share it, and so much waits to be sent that none should make more.
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

    /// Whether large answers of this size may be made at the same time.
    fn has_room_to_make(&self, bytes: usize) -> bool {
        bytes <= self.at_once && self.has_room_for(bytes)
    }

    /// So many bytes more wait to be sent.
    pub(crate) fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::SeqCst);
    }

    /// So many bytes do not wait any more.
    pub(crate) fn remove(&self, bytes: usize) {
        if bytes > 0 {
            self.waiting.fetch_sub(bytes, Ordering::SeqCst);
            self.wake();
        }
    }

    /// The batches of a connection hold so many bytes of answers now.
    pub(crate) fn count_batches(&self, before: usize, now: usize) {
        match before < now {
            true => self.batches.fetch_add(now - before, Ordering::Relaxed),
            false => self.batches.fetch_sub(before - now, Ordering::Relaxed),
        };
    }

    /// Whether connections share it, and their batches hold so much that no more of their requests should
    /// begin.
    #[inline]
    pub(crate) fn is_full_of_batches(&self) -> bool {
        self.is_shared && self.batches.load(Ordering::Relaxed) >= self.limit
    }

    /// Where handlers wait whose answers are of this size.
    fn queue_of<'a>(&'a self, size: &'a AnswerSize) -> &'a Queue {
        match size.is_known() {
            true if self.is_large(size.estimate()) => &self.large,
            true => &self.small,
            false => &size.queue,
        }
    }

    /// Lets a handler begin whose answers are of this size, unless it has to wait.
    pub(crate) fn try_reserve(self: &Arc<Self>, size: &Arc<AnswerSize>) -> Option<Reservation> {
        self.queue_of(size).is_empty().then(|| self.reserve_now(size).ok()).flatten()
    }

    /// Waits until a handler may begin whose answers are of this size.
    pub(crate) async fn reserve(self: &Arc<Self>, size: &Arc<AnswerSize>) -> Reservation {
        if let Some(reservation) = self.try_reserve(size) {
            return reservation;
        }
        let _first = self.queue_of(size).stand().await;
        // Counted before it looks again, so that room which comes meanwhile is noticed here or there.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let _waiter = Place(&self.waiters);
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

    /// Lets a handler begin, or says when to try again if only answers that are being made are in the way.
    fn reserve_now(
        self: &Arc<Self>,
        size: &Arc<AnswerSize>,
    ) -> Result<Reservation, Option<Instant>> {
        let mut making = self.making();
        if self.is_spent_by_many() {
            return Err(None);
        }
        let (now, estimate) = (Instant::now(), size.estimate().min(self.limit));
        let is_large = size.is_known() && self.is_large(estimate);
        if is_large {
            if making.bytes > 0 && !self.has_room_to_make(making.bytes + estimate) {
                wait_for(making.last.as_ref(), now)?;
            }
            making.last = Some(Beginning::here(now));
        } else if !size.is_known() {
            size.claim(now)?;
        }
        let estimate = if is_large { estimate } else { 0 };
        making.bytes += estimate;
        let size = (!size.is_known()).then(|| Arc::clone(size));
        Ok(Reservation { budget: Arc::clone(self), estimate, size })
    }

    /// Wakes those who look for room, if there is some. Each looks again for itself: what keeps one may
    /// not keep another.
    fn wake(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 && !self.is_spent_by_many() {
            self.room.notify_waiters();
        }
    }
}

/// Counts one waiter until it is dropped.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A handler that has begun. Drop it when the answer is counted among the bytes that wait, or when the
/// handler awaits.
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    estimate: usize,
    /// There if the handler was to show how large the answers of its method are.
    size: Option<Arc<AnswerSize>>,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(size) = &self.size {
            size.release();
        }
        self.budget.making().bytes -= self.estimate;
        self.budget.wake();
    }
}

/// How large the answers of a method are: the largest of late. It forgets one that was unusually large
/// an eighth at a time.
#[derive(Default)]
pub(crate) struct AnswerSize {
    /// One more than the size; 0 if nothing is known.
    plus_one: AtomicUsize,
    /// Where handlers of the method wait until it is known.
    queue: Queue,
    /// The last handler that began and is to show it.
    last: Mutex<Option<Beginning>>,
}

impl AnswerSize {
    /// Whether an answer of the method is known.
    pub(crate) fn is_known(&self) -> bool {
        self.plus_one.load(Ordering::Relaxed) > 0
    }

    /// The size to expect.
    fn estimate(&self) -> usize {
        self.plus_one.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// An answer was so large.
    pub(crate) fn record(&self, bytes: usize) {
        let before = self.estimate();
        let after = bytes.max(before - before / 8);
        if after != before || !self.is_known() {
            self.plus_one.store(after.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Lets one handler at a time show the size; says when the next may try.
    fn claim(&self, now: Instant) -> Result<(), Option<Instant>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        wait_for(last.as_ref(), now)?;
        *last = Some(Beginning::here(now));
        Ok(())
    }

    fn release(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The beginning of a handler, on a thread that it may hold: because it computes a large answer, or
/// because it blocks.
struct Beginning {
    at: Instant,
    /// Where the system tells what the thread does.
    state: Option<PathBuf>,
}

impl Beginning {
    /// A handler that begins now, on this thread.
    fn here(now: Instant) -> Self {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        let state = thread.map(|thread| Path::new("/proc").join(thread).join("stat"));
        Beginning { at: now, state }
    }

    /// Whether the thread computes, or waits for memory.
    fn computes(&self) -> bool {
        let stat = self.state.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        // The state stands behind the name of the thread, which is in brackets.
        let state =
            stat.as_ref().and_then(|stat| stat.rsplit(')').next()?.trim_start().chars().next());
        matches!(state, Some('R' | 'D'))
    }
}

/// Waits for a handler that began before, unless it blocks; says when to look again.
fn wait_for(last: Option<&Beginning>, now: Instant) -> Result<(), Option<Instant>> {
    let Some(last) = last else { return Ok(()) };
    match now.saturating_duration_since(last.at) {
        young if young < STEP => Err(Some(last.at + STEP)),
        old if old < LONGEST && last.computes() => Err(Some(now + STEP)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{AnswerSize, Beginning, Budget, LONGEST, STEP, wait_for};

    const SOON: Duration = Duration::from_millis(1);

    fn known(bytes: usize) -> Arc<AnswerSize> {
        let size = Arc::<AnswerSize>::default();
        size.record(bytes);
        size
    }

    fn unknown() -> Arc<AnswerSize> {
        Arc::default()
    }

    #[tokio::test(start_paused = true)]
    async fn p9_a_large_answer_is_counted_before_the_next_begins() {
        for size in [unknown(), known(500)] {
            let budget = Budget::shared(400);
            let first = budget.reserve(&size).await;
            assert!(timeout(SOON, budget.reserve(&size)).await.is_err(), "it is being made");
            budget.add(500);
            size.record(500);
            drop(first);
            assert!(timeout(100 * STEP, budget.reserve(&size)).await.is_err(), "it was not sent");
            budget.remove(101);
            let _second = timeout(SOON, budget.reserve(&size)).await.expect("there is room again");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p9_small_answers_are_made_side_by_side_and_beside_a_large_one() {
        let budget = Budget::of_connection(100);
        let mut kept = vec![budget.reserve(&known(500)).await];
        for _ in 0..40 {
            kept.push(timeout(SOON, budget.reserve(&known(3))).await.expect("it is small"));
            kept.push(timeout(SOON, budget.reserve(&unknown())).await.expect("another method"));
        }
        drop(kept);
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.push(timeout(SOON, budget.reserve(&known(30))).await.expect("it fits"));
        }
        assert!(timeout(SOON, budget.reserve(&known(30))).await.is_err());
        kept.pop();
        let _last = timeout(SOON, budget.reserve(&known(30))).await.expect("there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn p9_large_answers_that_many_connections_make_leave_processors_for_others() {
        let budget = Budget::shared(6400);
        let mut kept = Vec::new();
        for _ in 0..8 {
            kept.push(timeout(SOON, budget.reserve(&known(100))).await.expect("it fits"));
        }
        assert!(timeout(SOON, budget.reserve(&known(100))).await.is_err());
        let _small = timeout(SOON, budget.reserve(&known(25))).await.expect("it is small");
        kept.pop();
        let _last = timeout(SOON, budget.reserve(&known(100))).await.expect("there is room again");
    }

    #[tokio::test(start_paused = true)]
    async fn p9_who_gives_up_in_the_queue_lets_the_next_through() {
        for size in [unknown(), known(500)] {
            let budget = Budget::of_connection(100);
            let first = budget.reserve(&size).await;
            let waiting: Vec<_> = (0..10)
                .map(|_| {
                    let (budget, size) = (Arc::clone(&budget), Arc::clone(&size));
                    tokio::spawn(async move { drop(budget.reserve(&size).await) })
                })
                .collect();
            tokio::task::yield_now().await;
            for (number, waiting) in waiting.iter().enumerate() {
                // The first of the queue, and some in the middle.
                if number % 3 == 0 {
                    waiting.abort();
                }
            }
            drop(first);
            for (number, waiting) in waiting.into_iter().enumerate() {
                let ended = timeout(SOON, waiting).await.expect("nobody is forgotten");
                assert_eq!(ended.is_err(), number % 3 == 0);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p9_a_handler_waits_for_one_that_computes_but_not_for_ever() {
        for size in [unknown(), known(500)] {
            let (budget, begun) = (Budget::of_connection(100), Instant::now());
            let mut kept = Vec::new();
            for number in 0..4 {
                kept.push(budget.reserve(&size).await);
                // This thread computes: it looks.
                let wait = if cfg!(target_os = "linux") { LONGEST } else { STEP };
                assert_eq!(begun.elapsed(), number * wait);
            }
        }
    }

    #[test]
    fn p9_a_thread_that_blocks_does_not_compute() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(Beginning::here(Instant::now())).expect("somebody listens");
            let _ = released.recv();
        });
        let there = told.recv().expect("it has begun");
        // It blocks sooner or later.
        while there.computes() {
            std::thread::yield_now();
        }
        assert!(wait_for(Some(&there), there.at + STEP).is_ok());
        let here = Beginning::here(Instant::now());
        assert_eq!(here.computes(), cfg!(target_os = "linux"));
        assert_eq!(wait_for(Some(&here), here.at), Err(Some(here.at + STEP)));
        assert_eq!(wait_for(Some(&here), here.at + LONGEST), Ok(()));
        drop(release);
        thread.join().expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn p9_a_handler_that_awaits_keeps_no_other_from_its_beginning() {
        let (budget, size) = (Budget::of_connection(100), unknown());
        for _ in 0..10 {
            // It never answers.
            drop(timeout(SOON, budget.reserve(&size)).await.expect("there is room"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p9_each_of_many_who_wait_gets_its_turn() {
        let budget = Budget::shared(100);
        budget.add(100);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let (budget, size) = (Arc::clone(&budget), known(number));
            tasks.spawn(async move {
                let reservation = budget.reserve(&size).await;
                tokio::task::yield_now().await;
                drop(reservation);
            });
        }
        tokio::task::yield_now().await;
        assert!(budget.is_spent_by_many());
        budget.remove(1);
        assert!(timeout(SOON, tasks.join_all()).await.is_ok(), "somebody still waits");
    }

    #[test]
    fn p9_the_estimate_follows_large_answers_at_once_and_small_ones_slowly() {
        let size = AnswerSize::default();
        assert!(!size.is_known());
        for (answer, estimate) in [(10, 10), (800, 800), (0, 700), (900, 900), (899, 899)] {
            size.record(answer);
            assert!(size.is_known());
            assert_eq!(size.estimate(), estimate, "after {answer}");
        }
    }
}
