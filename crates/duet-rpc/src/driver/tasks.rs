//! Handlers that wait, each a task of its own.

use std::collections::HashMap;
use std::sync::Arc;

use duet_rpc_proto::session::Key;
use tokio::task::AbortHandle;

use crate::context::Flag;
use crate::handler::{Outcome, Waiting};
use crate::shared::{Post, Shared};

/// The handlers that run as tasks.
#[derive(Default)]
pub(super) struct Tasks {
    running: HashMap<Key, Task>,
}

struct Task {
    abort: AbortHandle,
    flag: Option<Arc<Flag>>,
}

impl Tasks {
    pub(super) fn spawn(
        &mut self,
        key: Key,
        handler: Waiting,
        flag: Option<Arc<Flag>>,
        shared: &Arc<Shared>,
    ) {
        let mut end = End { key, outcome: None, shared: Arc::clone(shared) };
        let task = tokio::spawn(async move {
            let outcome = handler.await;
            end.outcome.replace(outcome);
        });
        self.running.insert(key, Task { abort: task.abort_handle(), flag });
    }

    /// Stops a handler: it is dropped where it waits. When it has ended, that is posted.
    pub(super) fn stop(&mut self, key: Key) {
        if let Some(task) = self.running.get(&key) {
            task.stop();
        }
    }

    pub(super) fn stop_all(&mut self) {
        for task in self.running.values() {
            task.stop();
        }
    }

    /// A handler has ended.
    pub(super) fn remove(&mut self, key: Key) {
        self.running.remove(&key);
    }
}

impl Task {
    fn stop(&self) {
        if let Some(flag) = &self.flag {
            flag.raise();
        }
        self.abort.abort();
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
