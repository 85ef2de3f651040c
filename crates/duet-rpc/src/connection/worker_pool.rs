//! The worker pool: threads for handlers that may block.
//!
//! All workers take tasks from one queue, and a task that waits is in no queue and on no thread. So a blocked
//! worker delays only its own handler, and any number of handlers can wait.
//!
//! A worker has no runtime of its own. It polls a task inside the runtime of the task's connection, whose
//! thread drives timers and I/O and is never blocked by a handler on a worker. A runtime for each worker
//! would tie every waiting handler to one thread. In a multi-thread runtime, a task that a worker wakes stays
//! with that worker, which may block next.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_task::Runnable;
use tokio::runtime::Handle;

use crate::panic_guard::{self, Guarded};
use crate::router::Pace;
use crate::sync::lock;
use crate::threads;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Threads that start on demand, up to a maximum, and end when the pool is shut down.
pub(crate) struct WorkerPool {
    most: usize,
    /// `true` if new methods, whose pace is unknown, run here.
    takes_new: bool,
    state: Mutex<PoolState>,
    /// Notified for each task in the queue, and when the pool is shut down.
    news: Condvar,
}

#[derive(Default)]
struct PoolState {
    /// Tasks to be polled, each with the runtime of its connection.
    queue: VecDeque<Runnable<Handle>>,
    workers: usize,
    /// The number of idle workers. Each queued task has one of them, or waits until a worker is free.
    idle: usize,
    is_over: bool,
    /// `true` if a thread drops the tasks of the pool after its shutdown.
    is_dropping: bool,
}

/// The maximum number of workers, unless the application sets it.
pub(crate) const MOST: usize = 32;

/// A worker ends after this time without a task.
const IDLE: Duration = Duration::from_secs(10);

impl WorkerPool {
    /// The workers that all connections on multi-thread runtimes of the application share, for methods that
    /// are known to be slow. A handler that blocked a thread of such a runtime would hold up other connections.
    pub(crate) fn of_process() -> Arc<Self> {
        static POOL: OnceLock<Arc<WorkerPool>> = OnceLock::new();
        Arc::clone(POOL.get_or_init(|| WorkerPool::new(MOST, false)))
    }

    /// The workers of a server; `None` if it has no workers. New methods run here too.
    pub(crate) fn of_server(most: usize) -> Option<Arc<Self>> {
        (most > 0).then(|| WorkerPool::new(most, true))
    }

    fn new(most: usize, takes_new: bool) -> Arc<Self> {
        Arc::new(WorkerPool { most, takes_new, state: Mutex::default(), news: Condvar::new() })
    }

    /// Returns `true` if handlers of this pace run here.
    pub(super) fn takes(&self, pace: &Pace) -> bool {
        self.takes_new || pace.is_slow()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }

    /// Runs the work on a worker, inside this runtime. If all workers are busy, the work is queued. Returns the work if
    /// there is no worker at all.
    pub(super) fn spawn(self: &Arc<Self>, runtime: &Handle, work: Work) -> Result<(), Work> {
        self.spawn_if(runtime, work, |is_free, workers| is_free || workers > 0)
    }

    /// Like [`spawn`](Self::spawn), but also returns the work if all workers are busy.
    pub(super) fn try_spawn(self: &Arc<Self>, runtime: &Handle, work: Work) -> Result<(), Work> {
        self.spawn_if(runtime, work, |is_free, _| is_free)
    }

    fn spawn_if(
        self: &Arc<Self>,
        runtime: &Handle,
        work: Work,
        may_spawn: impl FnOnce(bool, usize) -> bool,
    ) -> Result<(), Work> {
        let mut state = self.state();
        let is_free = self.find_worker(&mut state);
        if state.is_over || !may_spawn(is_free, state.workers) {
            return Err(work);
        }
        let pool = Arc::clone(self);
        let schedule = move |task| pool.push_woken(task);
        let work = Guarded::new(work);
        let builder = async_task::Builder::new().metadata(runtime.clone());
        let (task, handle) = builder.spawn(move |_| work, schedule);
        handle.detach();
        self.push(state, task);
        Ok(())
    }

    /// Returns `true` if a worker is free for one more task. It starts one on demand.
    fn find_worker(self: &Arc<Self>, state: &mut PoolState) -> bool {
        if state.idle > state.queue.len() {
            return true;
        }
        if state.workers >= self.most || state.is_over {
            return false;
        }
        let pool = Arc::clone(self);
        let is_started = threads::spawn("duet-rpc handler", move || pool.work()).is_ok();
        state.workers += usize::from(is_started);
        is_started
    }

    fn push(&self, mut state: MutexGuard<'_, PoolState>, task: Runnable<Handle>) {
        state.queue.push_back(task);
        drop(state);
        self.news.notify_one();
    }

    /// Queues a task that was woken.
    fn push_woken(self: &Arc<Self>, task: Runnable<Handle>) {
        let mut state = self.state();
        self.find_worker(&mut state);
        match state.is_over {
            true => self.drop_woken(state, task),
            false => self.push(state, task),
        }
    }

    /// Drops a task that is woken after the pool is shut down. That may wake another task, which would be
    /// dropped next. This function drops them in a loop, because recursion could overflow the stack.
    fn drop_woken<'a>(&'a self, mut state: MutexGuard<'a, PoolState>, task: Runnable<Handle>) {
        state.queue.push_back(task);
        if std::mem::replace(&mut state.is_dropping, true) {
            return;
        }
        while let Some(task) = state.queue.pop_front() {
            drop(state);
            drop(task);
            state = self.state();
        }
        state.is_dropping = false;
    }

    /// Runs a worker until the pool is shut down. Then it drops the tasks that are left in the queue.
    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(task) = state.queue.pop_front() {
                let is_over = state.is_over;
                drop(state);
                match is_over {
                    true => drop(task),
                    false => run(task),
                }
                state = self.state();
            } else if state.is_over {
                return;
            } else {
                state.idle += 1;
                let waited = self.news.wait_timeout(state, IDLE);
                let timeout;
                (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                if timeout.timed_out() && state.queue.is_empty() {
                    state.workers -= 1;
                    return;
                }
            }
        }
    }

    /// Makes the workers end. It does not wait for a worker that a handler blocks.
    pub(crate) fn shut_down(&self) {
        self.state().is_over = true;
        self.news.notify_all();
    }
}

/// Polls a task once, inside its runtime.
fn run(task: Runnable<Handle>) {
    let runtime = task.metadata().clone();
    // `block_on` never blocks here. It limits how long a handler runs while everything that it awaits is ready, and it
    // forbids blocking on the runtime, as the runtime's own threads do.
    let _ = panic_guard::catch(|| runtime.block_on(async { task.run() }));
}

#[cfg(test)]
#[path = "worker_pool_tests.rs"]
mod tests;
