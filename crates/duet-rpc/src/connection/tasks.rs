//! Handlers that wait, each a task of its own on the connection's runtime or on the worker pool.
//!
//! A task ends when its handler ends, or when it is stopped, which drops the handler at its current `await`.
//! In either case the task posts [`Command::Ended`].

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use duet_rpc_proto::session::Key;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::memory::Reservation;
use super::worker_pool::WorkerPool;
use super::{Command, Shared};
use crate::context::Flag;
use crate::handler::{Outcome, Waiting};
use crate::router::Entry;
use crate::router::QUICK_POLL;

/// A handler that runs as a task, as the connection knows it.
pub(super) struct Task {
    /// Set when the request is cancelled. A task on the pool stops when this flag is set, or when the
    /// connection is gone.
    pub(super) flag: Option<Arc<Flag>>,
    /// Stops a task of the runtime, which costs less than a flag.
    pub(super) abort: Option<AbortHandle>,
    pub(super) entry: Arc<Entry>,
    /// The time when it began, if that was logged.
    pub(super) logged_at: Option<Instant>,
}

impl Task {
    /// Stops the handler, because its request is cancelled. A command reports its end.
    pub(super) fn cancel(&self) {
        if let Some(flag) = &self.flag {
            // A flag that is already set stays set.
            let _ = flag.set(());
        }
        self.abort();
    }

    /// Stops a task of the runtime.
    pub(super) fn abort(&self) {
        if let Some(abort) = &self.abort {
            abort.abort();
        }
    }
}

/// A handler whose polls are timed. Any long poll keeps the method from running inline. On the pool, a quick
/// first poll counts for the method. Dropping this reports the end to the connection, however the handler
/// ended.
pub(super) struct Running {
    key: Key,
    /// `None` once it is dropped.
    handler: Option<Waiting>,
    entry: Arc<Entry>,
    shared: Arc<Shared>,
    outcome: Option<Outcome>,
    /// Memory for the answer, until it is counted or the handler awaits.
    reservation: Option<Reservation>,
    /// `true` for a request of a batch: it is answered busy if the answers to batches hold too many
    /// bytes.
    pub(super) may_be_busy: bool,
    /// Set if the connection waits for the pace of the first poll.
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
            reservation: None,
            may_be_busy: false,
            is_trial: false,
            is_first_poll_on_pool: false,
        }
    }

    /// Runs it on the connection's runtime.
    pub(super) fn spawn(self) -> AbortHandle {
        Handle::current().spawn(self).abort_handle()
    }

    /// Runs it on the pool. If it must not wait for a worker and none is free, it runs on the connection's
    /// runtime.
    pub(super) fn spawn_on(mut self, pool: &Arc<WorkerPool>, may_queue: bool, flag: &Arc<Flag>) {
        let shared = Arc::clone(&self.shared);
        let work = async move {
            // Many handlers may be queued here before the first one has answered. While the remote reads no
            // answers, no further handler begins (L8).
            self.reservation =
                Some(Arc::clone(&self.shared).wait_to_begin(&self.entry.answer_size).await);
            match self.shared.refusal_of_batch().filter(|_| self.may_be_busy) {
                None => {
                    self.is_first_poll_on_pool = true;
                    self.await;
                }
                Some(busy) => {
                    self.outcome.replace(Err(busy.into()));
                }
            }
        };
        let flag = Arc::clone(flag);
        let work = Box::pin(async move { until_set([&flag, &shared.gone], work).await });
        let runtime = Handle::current();
        let spawned = match may_queue {
            true => pool.spawn(&runtime, work),
            false => pool.try_spawn(&runtime, work),
        };
        if let Err(work) = spawned {
            runtime.spawn(work);
        }
    }
}

/// Polls the work of a task until it ends or one of the flags is set.
pub(super) async fn until_set([one, other]: [&Flag; 2], work: impl Future<Output = ()>) {
    let (mut work, mut one, mut other) = (pin!(work), pin!(one.wait()), pin!(other.wait()));
    poll_fn(|cx| match one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
        true => Poll::Ready(()),
        false => work.as_mut().poll(cx),
    })
    .await;
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
                // The handler may wait for handlers that have not begun, so it must not delay them.
                self.reservation = None;
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
