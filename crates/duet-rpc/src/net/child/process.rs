//! A started program. [`Process`] notices its exit before it reaps the program, and kills the program together with
//! all processes that the program started.

use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use super::CannotStart;
use super::live::{self, Registered};
use crate::sys::Exit;
use crate::sys::tree::Tree;
use crate::threads;

/// The interval of checks for the end of a killed program.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Maximum time for killing all processes of a program; dropping a [`Process`] waits at most this long. Killing
/// lists the processes of the system twice. That takes some milliseconds, or a second on a machine with many more
/// tasks than processors.
pub(super) const KILL_TIME: Duration = Duration::from_secs(5);

/// Kills a program, and all processes that it started, when it is dropped without having been reaped.
pub(super) struct Process {
    /// `None` only while this is being dropped.
    child: Option<Child>,
    exit: Exit,
    registered: Option<Registered>,
}

impl Process {
    pub(super) fn spawn(mut command: Command) -> io::Result<(Self, Pipes)> {
        let (mut child, registered) = live::spawn(&mut command)?;
        let cannot_start = |error| CannotStart::wrap(&command, error);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut process =
            Process { child: Some(child), exit: Exit::Seen, registered: Some(registered) };
        // From here on, dropping `process` kills the program, even if a later step fails.
        process.exit = Exit::watch(process.id(), process.tree()).map_err(cannot_start)?;
        let missing = || io::Error::other("a program was started without its pipes");
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(missing()) };
        Ok((process, Pipes { stdin, stdout, stderr }))
    }

    /// Its process id, until it is reaped.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// Ready when the program has ended. It registers a waker, and may be polled again.
    pub(super) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exit.poll(self.child.as_mut(), cx)
    }

    /// Waits until the program has ended.
    pub(super) async fn exited(&mut self) {
        poll_fn(|cx| self.poll_exit(cx)).await;
    }

    /// The program and all processes that it started.
    pub(super) fn tree(&self) -> Option<Arc<Tree>> {
        self.registered.as_ref().map(|registered| Arc::clone(registered.tree()))
    }

    /// Kills the program itself.
    pub(super) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            // It fails only if the program has ended.
            let _ = child.start_kill();
        }
    }

    /// Reaps a program that has ended.
    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        if let Some(tree) = self.tree() {
            tree.forget_group();
        }
        self.child.as_mut()?.wait().await.ok()
    }
}

impl Drop for Process {
    /// tokio would kill and reap the program too, but not the processes that it started. It does neither while the
    /// runtime itself shuts down, which is when most programs are dropped.
    fn drop(&mut self) {
        let Some(mut child) = self.child.take().filter(|child| child.id().is_some()) else {
            return;
        };
        let Some(registered) = self.registered.take() else { return };
        let tree = Arc::clone(registered.tree());
        let (tell, told) = mpsc::channel::<()>();
        let clear_away = move || {
            registered.tree().kill(Instant::now() + KILL_TIME);
            // For systems without groups.
            let _ = child.start_kill();
            drop(tell);
            registered.tree().forget_group();
            // A process in an uninterruptible system call may take long to die.
            while let Ok(None) = child.try_wait() {
                thread::sleep(LOOK_EVERY);
            }
        };
        // If no thread can be started, the runtime kills and reaps the program.
        let thread = threads::spawn("duet-rpc child", clear_away);
        // Wait for the thread, because this process may exit right after the drop.
        let waited = told.recv_timeout(KILL_TIME);
        if thread.is_err() || waited == Err(mpsc::RecvTimeoutError::Timeout) {
            tree.kill_group();
        }
    }
}

/// The pipes to a program.
pub(super) struct Pipes {
    pub(super) stdin: tokio::process::ChildStdin,
    pub(super) stdout: tokio::process::ChildStdout,
    pub(super) stderr: tokio::process::ChildStderr,
}
