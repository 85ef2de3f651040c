//! Handlers that wait, each a task of its own.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use duet_rpc_proto::session::Key;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::context::Flag;
use crate::handler::{Outcome, Waiting};
use crate::router::Entry;
use crate::shared::{Post, Shared};

/// The handlers that run as tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: HashMap<Key, Task>,
}

struct Task {
    abort: AbortHandle,
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
        let mut end = End { key, outcome: None, shared: Arc::clone(shared) };
        let entry = Arc::clone(&origin.entry);
        let task = match elsewhere {
            None => {
                let paced = Paced { handler, entry, room: None };
                tokio::spawn(async move {
                    let outcome = paced.await;
                    end.outcome.replace(outcome);
                })
            }
            Some(Elsewhere { threads, is_in_batch }) => threads.spawn(async move {
                // Many may have been sent here before the first has made an answer, and while a
                // remote takes no answers, no more of them are made (L8).
                let shared = Arc::clone(&end.shared);
                shared.wait_to_begin().await;
                let outcome = match shared.refusal_of_batch().filter(|_| is_in_batch) {
                    None => Paced { handler, entry, room: Some(shared) }.await,
                    Some(busy) => {
                        shared.pass_room_on();
                        Err(busy.into())
                    }
                };
                end.outcome.replace(outcome);
            }),
        };
        self.running.insert(key, Task { abort: task.abort_handle(), flag, origin });
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

/// Where a handler goes on that may be slow.
pub(super) struct Elsewhere {
    pub(super) threads: Handle,
    pub(super) is_in_batch: bool,
}

/// A handler whose every poll is watched: one that takes long, be it the first or the last, tells that
/// it must not run in place from here on. Elsewhere, a first poll that is quick tells that it may.
struct Paced {
    handler: Waiting,
    entry: Arc<Entry>,
    /// There until the first poll, if it runs elsewhere.
    room: Option<Arc<Shared>>,
}

/// A handler that holds its thread for longer than this is not run in place the next time.
pub(super) const QUICK: Duration = Duration::from_millis(1);

impl Future for Paced {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let begun = Instant::now();
        let polled = self.handler.as_mut().poll(cx);
        let is_quick = begun.elapsed() < QUICK;
        let room = self.room.take();
        if room.is_some() || !is_quick {
            self.entry.set_quick(is_quick);
        }
        if let Some(shared) = room {
            // It has taken what room it takes for now, so the next one may look.
            shared.pass_room_on();
        }
        polled
    }
}

/// Where handlers run that may be slow: if they ran in place, a handler that blocks its thread
/// would keep everything else from being read.
#[derive(Clone, Default)]
pub(crate) enum Threads {
    /// Nowhere else: all run in place.
    #[default]
    None,
    /// On the threads of this runtime.
    Of(Handle),
    /// On threads that are started when they are first needed.
    #[cfg(unix)]
    Lazy(Arc<dyn Fn() -> Option<Handle> + Send + Sync>),
}

impl Threads {
    /// Where a handler runs that is known to be slow, or whose pace is not known. A runtime that
    /// drives the connection too gets only the former: to learn a pace there would hold up its own
    /// thread.
    pub(super) fn for_handler(&self, is_slow: bool) -> Option<Handle> {
        match self {
            Threads::None => None,
            Threads::Of(handle) => is_slow.then(|| handle.clone()),
            #[cfg(unix)]
            Threads::Lazy(start) => start(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Threads::None)
    }
}

/// Tells the driver that a handler has ended, in whatever way.
struct End {
    key: Key,
    outcome: Option<Outcome>,
    shared: Arc<Shared>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.shared.post(Post::Ended(self.key, self.outcome.take()));
    }
}
