//! Handlers that wait, each a task of its own on the connection's runtime or on the worker pool.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use duet_rpc_proto::session::Key;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::budget::Room;
use super::worker_pool::{self, IfBusy, WorkerPool};
use super::{Command, Shared};
use crate::context::Flag;
use crate::handler::{Outcome, Waiting};
use crate::router::Entry;
use crate::router::QUICK_POLL;

/// The handlers that run as tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: HashMap<Key, Task>,
}

/// A handler that runs as a task.
pub(super) struct Task {
    abort: Abort,
    /// Set when the request is cancelled.
    pub(super) flag: Option<Arc<Flag>>,
    pub(super) entry: Arc<Entry>,
    /// The time when it began, if that was logged.
    pub(super) logged_at: Option<Instant>,
}

impl Tasks {
    /// Lets a handler go on, here or on the pool.
    pub(super) fn spawn(
        &mut self,
        key: Key,
        handler: Waiting,
        shared: &Arc<Shared>,
        entry: &Arc<Entry>,
        pool: Option<PoolRun>,
    ) -> &mut Task {
        let end = End { key, outcome: None, shared: Arc::clone(shared), room: None };
        let running = Running { handler, entry: Arc::clone(entry), end, first_poll: None };
        let abort = match pool {
            None => Abort::spawn(running),
            Some(pool) => pool.spawn(running),
        };
        let task = Task { abort, flag: None, entry: Arc::clone(entry), logged_at: None };
        self.running.entry(key).insert_entry(task).into_mut()
    }

    /// Stops a handler: it is dropped where it waits. A command tells when it has ended.
    pub(super) fn stop(&self, key: Key) -> Option<&Task> {
        let task = self.running.get(&key)?;
        if let Some(flag) = &task.flag {
            // A flag that is set already stays so.
            let _ = flag.set(());
        }
        task.abort.abort();
        Some(task)
    }

    /// Stops all handlers, in the order of their messages, so that every run is the same.
    pub(super) fn stop_all(&mut self) {
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_unstable_by_key(|(key, _)| **key);
        for (_, task) in running {
            task.abort.abort();
        }
    }

    #[cfg(unix)]
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Forgets a handler that has ended.
    pub(super) fn remove(&mut self, key: Key) -> Option<Task> {
        self.running.remove(&key)
    }
}

/// Stops a task.
enum Abort {
    Runtime(AbortHandle),
    Pool(Arc<worker_pool::PoolTask>),
}

impl Abort {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Abort::Runtime(Handle::current().spawn(work).abort_handle())
    }

    fn abort(&self) {
        match self {
            Abort::Runtime(task) => task.abort(),
            Abort::Pool(task) => task.abort(),
        }
    }
}

/// The workers for handlers that may block. If such a handler ran inline, nothing else would be read.
#[derive(Clone, Default)]
pub(crate) enum Workers {
    /// None: all handlers run on the connection's thread.
    #[default]
    None,
    /// The workers that all connections on multi-thread runtimes of the application share. A handler that
    /// blocked a thread of such a runtime would hold up other connections too.
    OfProcess,
    /// The workers of a server.
    #[cfg(unix)]
    Pool(Arc<WorkerPool>),
}

/// A run of a handler on a pool.
pub(super) struct PoolRun {
    pool: Arc<WorkerPool>,
    if_busy: IfBusy,
    /// Whether it is answered busy if the answers to batches hold too much.
    pub(super) may_be_busy: bool,
    /// Whether the connection waits for the pace of its first poll.
    pub(super) is_trial: bool,
}

impl Workers {
    /// The workers of a server, if it has any.
    #[cfg(unix)]
    pub(crate) fn of_pool(pool: &Arc<WorkerPool>) -> Self {
        match pool.most() {
            0 => Workers::None,
            _ => Workers::Pool(Arc::clone(pool)),
        }
    }

    /// The pool for the handler of this method, if it does not run inline. The workers of the process get
    /// only methods that are known to be slow. A method that is new, or closes the connection, never waits
    /// for a worker of a server: if all are blocked, it runs on the connection's own thread.
    pub(super) fn for_handler(&self, entry: &Entry) -> Option<PoolRun> {
        let is_slow = entry.pace.is_slow();
        let run = |pool, if_busy| PoolRun { pool, if_busy, may_be_busy: false, is_trial: false };
        match self {
            Workers::None => None,
            Workers::OfProcess => is_slow.then(|| run(WorkerPool::of_process(), IfBusy::Queue)),
            #[cfg(unix)]
            Workers::Pool(pool) => {
                let may_queue = is_slow && !entry.closes;
                let if_busy = if may_queue { IfBusy::Queue } else { IfBusy::GiveBack };
                Some(run(Arc::clone(pool), if_busy))
            }
        }
    }
}

impl PoolRun {
    fn spawn(self, mut running: Running) -> Abort {
        let PoolRun { pool, if_busy, may_be_busy, is_trial } = self;
        let work = async move {
            // Many handlers may have been sent here before the first one has answered; and while a remote
            // takes no answers, no more of them are made (L8).
            let window = Arc::clone(&running.end.shared.window);
            running.end.room = Some(window.wait_to_begin(&running.entry.answer_size).await);
            match running.end.shared.refusal_of_batch().filter(|_| may_be_busy) {
                None => {
                    running.first_poll = Some(is_trial);
                    running.await;
                }
                Some(busy) => {
                    running.end.outcome.replace(Err(busy.into()));
                }
            }
        };
        match pool.spawn(&Handle::current(), Box::pin(work), if_busy) {
            Ok(task) => Abort::Pool(task),
            Err(work) => Abort::spawn(work),
        }
    }
}

/// A handler whose polls are timed: a long one, be it the first or the last, keeps the method from running
/// inline. On the pool, a quick first poll counts for the method.
struct Running {
    handler: Waiting,
    entry: Arc<Entry>,
    end: End,
    /// Set until the first poll on the pool: whether that poll is a trial.
    first_poll: Option<bool>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let begun = Instant::now();
        let polled = self.handler.as_mut().poll(cx);
        let took = begun.elapsed();
        let first_poll = self.first_poll.take();
        if first_poll.is_some() || took >= QUICK_POLL {
            self.entry.pace.record(took);
        }
        if first_poll == Some(true) {
            self.end.shared.mailbox.post(Command::TrialOver);
        }
        match polled {
            Poll::Ready(outcome) => {
                let bytes = outcome.as_ref().map_or(0, Vec::len);
                self.entry.answer_size.record(bytes);
                self.end.outcome = Some(outcome);
                Poll::Ready(())
            }
            Poll::Pending => {
                // It may wait for handlers that have not begun, so it must not keep them waiting.
                self.end.room = None;
                Poll::Pending
            }
        }
    }
}

/// Tells the connection that a handler has ended, in whatever way.
struct End {
    key: Key,
    outcome: Option<Outcome>,
    shared: Arc<Shared>,
    /// Room for the answer, until it is counted or the handler awaits.
    room: Option<Room>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.mailbox.post(Command::Ended(self.key, self.outcome.take()));
    }
}
