//! Handlers that wait, each a task of its own.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use duet_rpc_proto::session::Key;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::context::Flag;
use crate::handler::{Outcome, Waiting};
use crate::pace::QUICK_POLL;
use crate::router::Entry;
use crate::shared::{Post, Room, Shared};
use crate::worker_pool::{self, IfBusy, WorkerPool};

/// The handlers that run as tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: HashMap<Key, Task>,
}

struct Task {
    abort: Abort,
    flag: Option<Arc<Flag>>,
    origin: Origin,
}

/// Where a task comes from.
pub(super) struct Origin {
    pub(super) entry: Arc<Entry>,
    /// When it began, if that was logged.
    pub(super) logged_at: Option<Instant>,
}

impl Tasks {
    /// Lets a handler go on, here or on the threads for those that may be slow.
    pub(super) fn spawn(
        &mut self,
        key: Key,
        handler: Waiting,
        flag: Option<Arc<Flag>>,
        shared: &Arc<Shared>,
        origin: Origin,
        elsewhere: Option<Elsewhere>,
    ) {
        let end = End { key, outcome: None, shared: Arc::clone(shared), room: None };
        let mut running = Running { handler, entry: Arc::clone(&origin.entry), end, first: None };
        let abort = match elsewhere {
            None => Abort::spawn(&Handle::current(), running),
            Some(Elsewhere { threads, may_be_busy, is_trial }) => threads.spawn(async move {
                // Many may have been sent here before the first has made an answer, and while a
                // remote takes no answers, no more of them are made (L8).
                let shared = Arc::clone(&running.end.shared);
                let size = &running.entry.answer_size;
                running.end.room = Some(shared.wait_to_begin(size).await);
                match shared.refusal_of_batch().filter(|_| may_be_busy) {
                    None => {
                        running.first = Some(is_trial);
                        running.await;
                    }
                    Some(busy) => {
                        running.end.outcome.replace(Err(busy.into()));
                    }
                }
            }),
        };
        self.running.insert(key, Task { abort, flag, origin });
    }

    /// Stops a handler: it is dropped where it waits. When it has ended, that is posted.
    pub(super) fn stop(&self, key: Key) -> Option<&Origin> {
        let task = self.running.get(&key)?;
        if let Some(flag) = &task.flag {
            // A flag that is set already stays so.
            let _ = flag.set(());
        }
        task.abort.abort();
        Some(&task.origin)
    }

    /// Stops all handlers, in the order in which their messages came: the same each time.
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

    /// A handler has ended; where it came from comes back.
    pub(super) fn remove(&mut self, key: Key) -> Option<Origin> {
        self.running.remove(&key).map(|task| task.origin)
    }
}

/// How a task is stopped.
enum Abort {
    Runtime(AbortHandle),
    Pool(Arc<worker_pool::Task>),
}

impl Abort {
    fn spawn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Abort::Runtime(runtime.spawn(work).abort_handle())
    }

    fn abort(&self) {
        match self {
            Abort::Runtime(task) => task.abort(),
            Abort::Pool(task) => task.abort(),
        }
    }
}

/// Where a handler runs that may be slow.
pub(super) struct Elsewhere {
    pub(super) threads: Place,
    /// Whether it is answered busy if the answers to batches hold too much.
    pub(super) may_be_busy: bool,
    /// Whether the driver waits for the pace of its first poll.
    pub(super) is_trial: bool,
}

/// A handler whose polls are measured: one that takes long, be it the first or the last, keeps the
/// method from running in place. Elsewhere, a first poll that is quick counts for it.
struct Running {
    handler: Waiting,
    entry: Arc<Entry>,
    end: End,
    /// There until the first poll, if the handler runs elsewhere: whether that is a trial.
    first: Option<bool>,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let begun = Instant::now();
        let polled = self.handler.as_mut().poll(cx);
        let took = begun.elapsed();
        let first = self.first.take();
        if first.is_some() || took >= QUICK_POLL {
            self.entry.pace.record(took);
        }
        if let Some(true) = first {
            self.end.shared.post(Post::TrialOver);
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

/// Where handlers run that may be slow: if they ran in place, a handler that blocks its thread
/// would keep everything else from being read.
#[derive(Clone, Default)]
pub(crate) enum Threads {
    /// Nowhere else: all run in place.
    #[default]
    None,
    /// On the workers that all connections share which are driven by multi-thread runtimes. A handler that
    /// blocked a thread of such a runtime would hold up other connections too.
    OfProcess,
    /// On the workers of a server.
    #[cfg(unix)]
    Pool(Arc<WorkerPool>),
}

/// Where one handler runs.
pub(super) struct Place {
    pool: Arc<WorkerPool>,
    if_busy: IfBusy,
}

impl Threads {
    /// The workers of a server, if it has any.
    #[cfg(unix)]
    pub(crate) fn of_pool(pool: &Arc<WorkerPool>) -> Self {
        match pool.most() {
            0 => Threads::None,
            _ => Threads::Pool(Arc::clone(pool)),
        }
    }

    /// Where the handler of this method runs, if not in place. The workers of the process get only handlers
    /// that are known to be slow. Those of a server also get the ones whose pace is not known; but they, and
    /// what shuts the connection down, never wait for a worker: if all are blocked, they run on the
    /// connection's own thread.
    pub(super) fn for_handler(&self, entry: &Entry) -> Option<Place> {
        let is_slow = entry.pace.is_slow();
        match self {
            Threads::None => None,
            Threads::OfProcess => {
                is_slow.then(|| Place { pool: WorkerPool::of_process(), if_busy: IfBusy::Queue })
            }
            #[cfg(unix)]
            Threads::Pool(pool) => {
                let may_queue = is_slow && !entry.closes;
                let if_busy = if may_queue { IfBusy::Queue } else { IfBusy::GiveBack };
                Some(Place { pool: Arc::clone(pool), if_busy })
            }
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Threads::None)
    }
}

impl Place {
    fn spawn(self, work: impl Future<Output = ()> + Send + 'static) -> Abort {
        let here = Handle::current();
        match self.pool.spawn(&here, Box::pin(work), self.if_busy) {
            Ok(task) => Abort::Pool(task),
            Err(work) => Abort::spawn(&here, work),
        }
    }
}

/// Tells the driver that a handler has ended, in whatever way.
struct End {
    key: Key,
    outcome: Option<Outcome>,
    shared: Arc<Shared>,
    /// Room for the answer, until it is counted or the handler awaits.
    room: Option<Room>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.post(Post::Ended(self.key, self.outcome.take()));
    }
}
