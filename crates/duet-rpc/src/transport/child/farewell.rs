//! How a program is brought to its end: a ladder of three steps.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::time::timeout;

use super::{Farewell, GRACE, Open};

/// How much of what nobody wants to read any more is read at once.
const CHUNK: usize = 8 * 1024;

/// Closes the program's stdin and sees to it that the program ends.
pub(super) async fn close(open: Open, grace: Duration) -> Farewell {
    let Open { stream, mut process, stderr, .. } = open;
    let stdout = stream.close_writer();
    // A program that still has something to say must be able to say it: it would freeze, or die
    // of it, instead of ending as it should.
    let exit = match process.get() {
        Some(process) => beside(discard(stdout), descend(process, grace)).await,
        None => None,
    };
    Farewell { exit, last_words: stderr.last_words().await }
}

/// Waits for the end, asks for it, and then makes it. Each wait also takes the program off the
/// system's table of processes.
async fn descend(process: &mut Child, grace: Duration) -> Option<ExitStatus> {
    if let Ok(exit) = timeout(grace, process.wait()).await {
        return exit.ok();
    }
    if ask_to_end(process)
        && let Ok(exit) = timeout(grace, process.wait()).await
    {
        return exit.ok();
    }
    // It fails only if the program has ended.
    let _ = process.start_kill();
    // However little grace there was, this takes a moment. Only a process that the system itself
    // holds on to does not die of it; the runtime goes on to wait for that in the background.
    timeout(grace.max(GRACE), process.wait()).await.ok()?.ok()
}

/// Sends SIGTERM; whether there is such a thing here.
#[cfg(unix)]
fn ask_to_end(process: &Child) -> bool {
    // As long as it has not been waited for, its id is its own.
    let id = process.id().and_then(|id| i32::try_from(id).ok());
    id.and_then(rustix::process::Pid::from_raw)
        .is_some_and(|id| rustix::process::kill_process(id, rustix::process::Signal::TERM).is_ok())
}

#[cfg(not(unix))]
fn ask_to_end(_: &Child) -> bool {
    false
}

async fn discard(mut reader: impl AsyncRead + Unpin) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(1..) = reader.read(&mut chunk).await {}
}

/// Drives one future for as long as the other takes, which alone has a result.
async fn beside<T>(other: impl Future<Output = ()>, main: impl Future<Output = T>) -> T {
    let (mut other, mut main) = (pin!(other), pin!(main));
    let mut is_over = false;
    poll_fn(|cx| {
        is_over = is_over || other.as_mut().poll(cx).is_ready();
        main.as_mut().poll(cx)
    })
    .await
}
