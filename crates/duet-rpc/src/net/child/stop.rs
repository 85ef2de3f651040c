//! Stop ladder: ends a program, and all processes that it started, in three steps.
//!
//! | step | waits for | at most |
//! |---|---|---|
//! | stdin is closed | the end of the program and of all processes that it started | the grace period; [`SETTLE`] once the program itself has ended |
//! | SIGTERM to all remaining processes | the same | the grace period |
//! | SIGKILL to all remaining processes, until none is left | the same | the grace period, 2 s at least |
//!
//! The program itself is reaped last; see `tree`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::process::{KILL_TIME, Process};
use super::{ExitReport, GRACE, Open};
use crate::sys::tree::{ProcessEntry, Tree};
use crate::transport::Stopped;

/// Number of bytes of unwanted output per read.
const CHUNK: usize = 8 * 1024;

/// Time for processes that a program left behind to exit by themselves.
const SETTLE: Duration = Duration::from_secs(1);

/// The pause between two checks of the processes: the first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Limits the threads that wait for a scan of all processes. They share scans, so more threads mean fewer scans; but each
/// thread keeps memory of its own.
static SCANS: Semaphore = Semaphore::const_new(32);

/// Closes the program's stdin, and ends the program.
pub(super) async fn close(open: Open, grace: Duration) -> ExitReport {
    let Open { stream, mut process, stderr, stdin_closed, .. } = open;
    // A program whose stdin was closed before has used a part of its time.
    let used = stdin_closed.map(|closed| closed.elapsed()).unwrap_or_default();
    let stdout = stream.close_writer();
    // Keep reading: otherwise a program that still writes would freeze, or die of a broken pipe, instead of ending
    // properly.
    let stopped = beside(discard(stdout), stop(&mut process, grace, used)).await;
    for process in &stopped {
        tracing::warn!("a process did not end when its stdin was closed: {process}");
    }
    // A process in an uninterruptible system call is left to the thread that reaps it.
    let exit = match timeout(Duration::ZERO, process.exited()).await {
        Ok(()) => process.reap().await,
        Err(_) => None,
    };
    ExitReport { exit, last_stderr: stderr.last_stderr().await, stopped }
}

/// Waits for the program to end, then asks it to end, then kills it. `used` is the part of the first grace period that is
/// over. Returns the processes that did not end by themselves.
async fn stop(process: &mut Process, grace: Duration, used: Duration) -> Vec<Stopped> {
    let Some(tree) = process.tree() else { return Vec::new() };
    let mut stopped = Vec::new();
    let first = grace.saturating_sub(used);
    let Some(left) = wait(process, &tree, first, SETTLE).await else { return stopped };
    note(&mut stopped, &left, false);
    let to_ask = Arc::clone(&tree);
    let can_ask = blocking(move || to_ask.terminate(&left)).await;
    if can_ask && wait(process, &tree, grace, grace).await.is_none() {
        return stopped;
    }
    // Killing takes a moment, even if the grace period is shorter.
    let (begun, patience) = (Instant::now(), grace.max(GRACE));
    loop {
        let to_kill = Arc::clone(&tree);
        let killed = blocking(move || to_kill.kill(std::time::Instant::now() + KILL_TIME)).await;
        note(&mut stopped, &killed, true);
        process.kill();
        let is_over = wait(process, &tree, LONGEST_PAUSE, LONGEST_PAUSE).await.is_none();
        if is_over || begun.elapsed() >= patience {
            return stopped;
        }
    }
}

/// Waits until the program and all processes that it started have ended, or `patience` is over; once the program
/// itself has ended, it waits at most `settle`. Returns the remaining processes that could be found; `None` if all have
/// ended.
async fn wait(
    process: &mut Process,
    tree: &Arc<Tree>,
    patience: Duration,
    settle: Duration,
) -> Option<Vec<ProcessEntry>> {
    let begun = Instant::now();
    let _ = timeout(patience, process.exited()).await;
    let settle = settle.min(patience.saturating_sub(begun.elapsed()));
    let ended = Instant::now();
    let (mut pause, mut known) = (FIRST_PAUSE, Vec::new());
    loop {
        let has_ended = timeout(Duration::ZERO, process.exited()).await.is_ok();
        let is_last = !has_ended || ended.elapsed() >= settle;
        let to_look = Arc::clone(tree);
        let members = blocking(move || match is_last {
            true => to_look.members(),
            false => to_look.members_or_known(known),
        });
        let left = match members.await {
            Some(members) => members,
            // The processes cannot be listed here, but the whole group can be killed.
            None if has_ended => Vec::new(),
            None => return Some(Vec::new()),
        };
        if has_ended && left.is_empty() {
            // If a member of the group was missed, it belongs to an endless chain of processes, each of which starts
            // the next.
            tree.kill_group();
            return None;
        }
        if is_last {
            return Some(left);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        known = left;
    }
}

/// Runs work that lists all processes, which takes milliseconds, on a thread that may block.
async fn blocking<T: Default + Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // Nobody closes the semaphore.
    let permit = SCANS.acquire().await.ok();
    // The work goes on if this future is dropped, and holds the permit until it ends.
    let work = move || {
        let _permit = permit;
        work()
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// Records the signal that these processes got; each process once, with its last signal.
fn note(stopped: &mut Vec<Stopped>, members: &[ProcessEntry], is_killed: bool) {
    for member in members {
        let pid = member.id();
        stopped.retain(|it| it.pid != pid);
        stopped.push(Stopped { pid, program: member.program.clone(), is_killed });
    }
}

async fn discard(mut reader: impl AsyncRead + Unpin) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(1..) = reader.read(&mut chunk).await {}
}

/// Drives `other` while `main` runs, and returns the result of `main`.
async fn beside<T>(other: impl Future<Output = ()>, main: impl Future<Output = T>) -> T {
    let (mut other, mut main) = (pin!(other), pin!(main));
    let mut is_over = false;
    poll_fn(|cx| {
        is_over = is_over || other.as_mut().poll(cx).is_ready();
        main.as_mut().poll(cx)
    })
    .await
}
