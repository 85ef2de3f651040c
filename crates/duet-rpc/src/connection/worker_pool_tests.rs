//! Tests of the worker pool.

use std::collections::HashSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::{Work, WorkerPool};
use crate::connection::tasks::until_set;
use crate::context::Flag;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Work that sends to `begun` when it starts, and then blocks its worker until the returned sender is dropped.
fn blocker(begun: &Sender<()>) -> (Sender<()>, Work) {
    let (release, released) = channel::<()>();
    let begun = begun.clone();
    let work = async move {
        begun.send(()).expect("the test listens");
        let _ = released.recv();
    };
    (release, Box::pin(work))
}

/// Blocks all workers of a pool.
fn block(pool: &Arc<WorkerPool>, runtime: &Runtime, workers: usize) -> Vec<Sender<()>> {
    let (begun, begins) = channel();
    let release = |_| {
        let (release, work) = blocker(&begun);
        assert!(pool.try_spawn(runtime.handle(), work).is_ok());
        release
    };
    let releases = (0..workers).map(release).collect();
    (0..workers).for_each(|_| begins.recv().expect("each begins"));
    releases
}

#[test]
fn l5_try_spawn_returns_the_task_while_all_workers_are_blocked() {
    let (pool, runtime) = (WorkerPool::new(3, true), runtime());
    let releases = block(&pool, &runtime, 3);
    let back = pool.try_spawn(runtime.handle(), Box::pin(pending()));
    assert!(back.is_err());
    drop(releases);
    pool.shut_down();
    let late = pool.spawn(runtime.handle(), Box::pin(pending()));
    assert!(late.is_err(), "the pool is shut down");
}

#[test]
fn l5_queued_task_runs_on_whichever_worker_is_free_first() {
    let (pool, runtime) = (WorkerPool::new(3, true), runtime());
    for first in 0..3 {
        let mut releases = block(&pool, &runtime, 3);
        let (begun, begins) = channel();
        let (release, work) = blocker(&begun);
        assert!(pool.spawn(runtime.handle(), work).is_ok());
        assert!(begins.try_recv().is_err());
        releases.remove(first);
        begins.recv_timeout(Duration::from_secs(10)).expect("the task begins on the free worker");
        drop((release, releases));
        settle(&pool);
    }
    pool.shut_down();
}

/// Waits until all workers are idle.
fn settle(pool: &WorkerPool) {
    let is_busy = |state: &super::PoolState| state.idle < state.workers || !state.queue.is_empty();
    while is_busy(&pool.state()) {
        thread::yield_now();
    }
}

#[test]
fn l5_waiting_tasks_occupy_no_worker_and_a_blocked_worker_delays_none() {
    let (pool, runtime) = (WorkerPool::new(2, true), runtime());
    let (tell, told) = channel();
    let wake = Arc::new(tokio::sync::Notify::new());
    for number in 0..20 {
        let (tell, wake) = (tell.clone(), Arc::clone(&wake));
        let work = async move {
            let woken = wake.notified();
            tell.send(number).expect("the test listens");
            woken.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            tell.send(number).expect("the test listens");
        };
        assert!(pool.spawn(runtime.handle(), Box::pin(work)).is_ok());
    }
    let all = |told: &Receiver<u32>| -> HashSet<u32> { told.iter().take(20).collect() };
    assert_eq!(all(&told).len(), 20);
    settle(&pool);
    let releases = block(&pool, &runtime, 1);
    wake.notify_waiters();
    // Only a running runtime fires the timers.
    let done = runtime.block_on(async {
        tokio::task::spawn_blocking(move || all(&told)).await.expect("the receiver does not panic")
    });
    assert_eq!(done.len(), 20);
    drop(releases);
    pool.shut_down();
}

#[test]
fn p3_stopped_task_is_dropped_in_every_state() {
    struct Dropped(Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
            // Panics if the task is dropped outside of the runtime that it ran in.
            let _ = tokio::runtime::Handle::current();
        }
    }
    let (pool, runtime) = (WorkerPool::new(1, true), runtime());
    let (tell, told) = channel();
    let spawn = |work: Work| -> Arc<Flag> {
        let (guard, flag) = (Dropped(tell.clone()), Arc::<Flag>::default());
        let work = async move {
            let _guard = guard;
            work.await;
        };
        let stop = Arc::clone(&flag);
        let work = Box::pin(async move { until_set([&stop, &Flag::new()], work).await });
        assert!(pool.spawn(runtime.handle(), work).is_ok(), "the task is queued");
        flag
    };
    let stop = |flag: &Flag| flag.set(()).expect("the task was not stopped before");
    let is_dropped = || told.recv_timeout(Duration::from_secs(10)).expect("the task is dropped");

    let waiting = spawn(Box::pin(pending()));
    settle(&pool);
    stop(&waiting);
    is_dropped();

    let (begun, begins) = channel();
    let (release, work) = blocker(&begun);
    let running = spawn(Box::pin(async move {
        work.await;
        pending::<()>().await;
    }));
    let queued = spawn(Box::pin(pending()));
    begins.recv().expect("the task begins");
    stop(&queued);
    stop(&running);
    assert!(told.try_recv().is_err(), "the worker is blocked");
    drop(release);
    is_dropped();
    is_dropped();
    pool.shut_down();
}

#[test]
fn l5_idle_worker_is_used_again() {
    let (pool, runtime) = (WorkerPool::new(100, true), runtime());
    for _ in 0..100 {
        let task = pool.spawn(runtime.handle(), Box::pin(async {}));
        assert!(task.is_ok());
        settle(&pool);
    }
    assert_eq!(pool.state().workers, 1);
    pool.shut_down();
}

#[test]
fn l5_tasks_that_wake_each_other_after_the_end_are_dropped_one_by_one() {
    let (pool, runtime) = (WorkerPool::new(2, true), runtime());
    let turn = Arc::new(tokio::sync::Semaphore::new(1));
    let held = Arc::clone(&turn).try_acquire_owned().expect("the permit is free");
    let (begun, begins) = channel();
    const TASKS: usize = 20_000;
    for _ in 0..TASKS {
        let (turn, begun) = (Arc::clone(&turn), begun.clone());
        let work = async move {
            begun.send(()).expect("the test listens");
            // The drop of a task gives the permit to the next task and wakes it.
            let _turn = turn.acquire().await;
            pending::<()>().await;
        };
        assert!(pool.spawn(runtime.handle(), Box::pin(work)).is_ok());
    }
    (0..TASKS).for_each(|_| begins.recv().expect("each begins"));
    settle(&pool);
    pool.shut_down();
    drop(held);
    // The last tasks may be dropped by a worker that has not exited yet.
    while Arc::strong_count(&turn) > 1 {
        thread::yield_now();
    }
}
