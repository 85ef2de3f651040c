//! Threads for connections, each with a runtime of its own.
//!
//! One runtime for all threads would pass work between threads. Every server would pay for that in memory,
//! even a server on stdin and stdout.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::panic_guard;
use crate::sync::lock;
use crate::threads;

/// A thread polls this many connections before it looks for new input. So a client that sends little does not
/// wait for all clients that send much.
const LOOKS_AFTER: u32 = 8;

/// Threads that start on demand, and end when this is shut down.
pub(super) struct ConnectionThreads {
    name: &'static str,
    most: usize,
    workers: Mutex<Vec<Worker>>,
}

/// A thread and its runtime.
struct Worker {
    runtime: Handle,
    /// The thread ends when this is dropped.
    _life: oneshot::Sender<()>,
}

impl ConnectionThreads {
    pub(super) fn new(name: &'static str, most: usize) -> Self {
        ConnectionThreads { name, most, workers: Mutex::default() }
    }

    /// Returns an idle thread, or a new one, or, at the maximum, the thread with the fewest connections.
    pub(super) fn find(&self) -> Option<Handle> {
        let mut workers = lock(&self.workers);
        let least = workers.iter().min_by_key(|worker| worker.tasks());
        let is_enough = workers.len() >= self.most || least.is_some_and(|it| it.tasks() == 0);
        let least = least.map(|worker| worker.runtime.clone());
        if is_enough {
            return least;
        }
        // If no further thread can start, existing threads take the connection.
        let Ok(worker) = Worker::start(self.name) else { return least };
        let runtime = worker.runtime.clone();
        workers.push(worker);
        Some(runtime)
    }

    /// Makes the threads end. It does not wait for a thread that a handler blocks.
    pub(super) fn shut_down(&self) {
        lock(&self.workers).clear();
    }
}

impl Worker {
    fn start(name: &str) -> io::Result<Worker> {
        // With too many open files, tokio panics instead of failing.
        let mut builder = Builder::new_current_thread();
        builder.enable_all().event_interval(LOOKS_AFTER).global_queue_interval(LOOKS_AFTER);
        let runtime = panic_guard::catch(|| builder.build());
        let runtime = runtime.map_err(io::Error::other)??;
        let (life, end) = oneshot::channel();
        let handle = runtime.handle().clone();
        // Shared, and not moved into the thread: if the thread does not start, the runtime must be shut
        // down here, because dropping it inside another runtime panics.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let take = |runtime: &Mutex<Option<Runtime>>| lock(runtime).take();
        let handed_over = Arc::clone(&runtime);
        let work = move || {
            if let Some(runtime) = take(&handed_over) {
                let _ = runtime.block_on(end);
            }
        };
        let started = threads::spawn(name, work);
        started.inspect_err(|_| {
            if let Some(runtime) = take(&runtime) {
                runtime.shutdown_background();
            }
        })?;
        Ok(Worker { runtime: handle, _life: life })
    }

    /// The number of connections of the thread.
    fn tasks(&self) -> usize {
        self.runtime.metrics().num_alive_tasks()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::ConnectionThreads;

    #[test]
    fn a_busy_thread_gets_no_connection_while_another_may_start() {
        let threads = ConnectionThreads::new("test", 3);
        let (tell, told) = channel();
        let mut releases = Vec::new();
        for number in 0..5 {
            let (release, released) = channel::<()>();
            let tell = tell.clone();
            releases.push(release);
            threads.find().expect("a thread").spawn(async move {
                tell.send((number, thread::current().id())).expect("the receiver exists");
                // Blocks its thread until the test ends.
                let _ = released.recv();
            });
        }
        let mut begun: Vec<_> = (0..3).map(|_| told.recv().expect("the thread begins")).collect();
        begun.sort_by_key(|(number, _)| *number);
        assert!(begun.iter().map(|(number, _)| *number).eq(0..3), "each has a thread of its own");
        assert!(begun[0].1 != begun[1].1 && begun[1].1 != begun[2].1);
        assert!(told.recv_timeout(Duration::from_millis(20)).is_err(), "the rest has to wait");
        drop(releases);
        assert_eq!(told.iter().take(2).count(), 2);
        threads.shut_down();
    }

    #[test]
    fn a_thread_that_is_idle_is_used_again() {
        let threads = ConnectionThreads::new("test", 100);
        let here = Builder::new_current_thread().build().expect("a runtime");
        let mut ids = HashSet::new();
        for _ in 0..100 {
            let done = threads.find().expect("a thread").spawn(async { thread::current().id() });
            ids.insert(here.block_on(done).expect("the task is done"));
        }
        // The metrics may show the end of a task with a delay.
        assert!(ids.len() < 50, "{} threads", ids.len());
    }
}
