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
use super::worker_pool::{PoolTask, WorkerPool};
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
    pub(super) abort: Abort,
    /// Set when the request is cancelled.
    pub(super) flag: Option<Arc<Flag>>,
    pub(super) entry: Arc<Entry>,
    /// The time when it began, if that was logged.
    pub(super) logged_at: Option<Instant>,
}

impl Tasks {
    pub(super) fn insert(&mut self, key: Key, task: Task) {
        self.running.insert(key, task);
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
pub(super) enum Abort {
    Runtime(AbortHandle),
    Pool(Arc<PoolTask>),
}

impl Abort {
    fn abort(&self) {
        match self {
            Abort::Runtime(task) => task.abort(),
            Abort::Pool(task) => task.abort(),
        }
    }
}

/// A handler whose polls are timed: a long one, be it the first or the last, keeps the method from running
/// inline. On the pool, a quick first poll counts for the method. When this is dropped, in whatever way the
/// handler has ended, it tells the connection.
pub(super) struct Running {
    key: Key,
    /// `None` once it is dropped.
    handler: Option<Waiting>,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
    outcome: Option<Outcome>,
    /// Room for the answer, until it is counted or the handler awaits.
    room: Option<Room>,
    /// Whether it is answered busy if the answers to batches hold too much.
    pub(super) may_be_busy: bool,
    /// Whether the connection waits for the pace of the first poll.
    pub(super) is_trial: bool,
    is_first_poll_on_pool: bool,
}

impl Running {
    pub(super) fn new(
        key: Key,
        handler: Waiting,
        entry: &Arc<Entry>,
        shared: &Arc<Shared>,
    ) -> Self {
        Running {
            key,
            handler: Some(handler),
            entry: Arc::clone(entry),
            shared: Arc::clone(shared),
            outcome: None,
            room: None,
            may_be_busy: false,
            is_trial: false,
            is_first_poll_on_pool: false,
        }
    }

    /// Runs it on the connection's runtime.
    pub(super) fn spawn(self) -> Abort {
        Abort::Runtime(Handle::current().spawn(self).abort_handle())
    }

    /// Runs it on the pool. If it must not wait for a worker and none is free, it runs on the connection's
    /// runtime.
    pub(super) fn spawn_on(mut self, pool: &Arc<WorkerPool>, may_queue: bool) -> Abort {
        let work = Box::pin(async move {
            // Many handlers may have been sent here before the first one has answered; and while a remote
            // takes no answers, no more of them are made (L8).
            let window = Arc::clone(&self.shared.window);
            self.room = Some(window.wait_to_begin(&self.entry.answer_size).await);
            match self.shared.refusal_of_batch().filter(|_| self.may_be_busy) {
                None => {
                    self.is_first_poll_on_pool = true;
                    self.await;
                }
                Some(busy) => {
                    self.outcome.replace(Err(busy.into()));
                }
            }
        });
        let runtime = Handle::current();
        let spawned = match may_queue {
            true => pool.spawn(&runtime, work),
            false => pool.try_spawn(&runtime, work),
        };
        match spawned {
            Ok(task) => Abort::Pool(task),
            Err(work) => Abort::Runtime(runtime.spawn(work).abort_handle()),
        }
    }
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(handler) = &mut self.handler else { return Poll::Ready(()) };
        let begun = Instant::now();
        let polled = handler.as_mut().poll(cx);
        let took = begun.elapsed();
        let is_first = std::mem::take(&mut self.is_first_poll_on_pool);
        if is_first || took >= QUICK_POLL {
            self.entry.pace.record(took);
        }
        if is_first && self.is_trial {
            self.shared.mailbox.post(Command::TrialOver);
        }
        match polled {
            Poll::Ready(outcome) => {
                let bytes = outcome.as_ref().map_or(0, Vec::len);
                self.entry.answer_size.record(bytes);
                self.outcome = Some(outcome);
                Poll::Ready(())
            }
            Poll::Pending => {
                // It may wait for handlers that have not begun, so it must not keep them waiting.
                self.room = None;
                Poll::Pending
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its own destructors run before it counts as ended.
        self.handler = None;
        self.shared.mailbox.post(Command::Ended(self.key, self.outcome.take()));
    }
}
