//! A program that this one starts and talks to over its standard input and output (T1).

mod farewell;
mod process;
mod stderr;
#[cfg(all(test, unix))]
mod tests;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::process::Stdio;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::{Sleep, sleep};

use super::{Farewell, Inbox, Outbox, Received, Stream, Transport};
use process::Process;
use stderr::Stderr;

/// How long each step of closing waits for the program to end, if nothing else is said.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a pipe is awaited when the program has ended. Only one that it left behind
/// can hold the pipe open.
const PATIENCE: Duration = Duration::from_millis(100);

/// A transport to a program that it starts.
///
/// What the program writes to stderr is always read, so that it cannot fill up and freeze the
/// program, and the last lines are kept for the [`Farewell`]. Closing is a ladder: its stdin is
/// closed, then it is asked to end (SIGTERM), then it is killed, each after a grace period. A
/// program that is dropped without being closed is killed.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use duet_rpc::transport::Child;
/// use tokio::process::Command;
///
/// let transport = Child::spawn(Command::new("cat"))?.on_stderr(|line| {
///     // Put it where your own log goes.
///     let _ = line;
/// });
/// # drop(transport);
/// # Ok(())
/// # }
/// ```
pub struct Child {
    state: State,
    grace: Duration,
}

enum State {
    Open(Box<Open>),
    Closing(Pin<Box<dyn Future<Output = Farewell> + Send>>),
    Closed,
}

struct Open {
    stream: Stream<ChildStdout, ChildStdin>,
    process: Process,
    stderr: Stderr,
    /// Runs from when the program was seen to have ended.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Child {
    /// Starts the program. The command's stdin, stdout and stderr become pipes to here; the rest
    /// of it is the caller's.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one that was built without its I/O driver. Receiving and
    /// closing need its timer too.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn()?;
        let missing = || io::Error::other("a program was started without its pipes");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = Stderr::drain(process.stderr.take().ok_or_else(missing)?);
        let process = Process::new(process);
        let open = Open { stream: Stream::new(stdout, stdin), process, stderr, patience: None };
        Ok(Child { state: State::Open(Box::new(open)), grace: GRACE })
    }

    /// How long each step of closing waits for the program to end; 2 s if nothing is said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Hears each line that the program writes to stderr, without its line end, beginning with
    /// those that are there already. It must not block. What is no UTF-8 is replaced, and a line
    /// of more than 8 KiB comes in pieces.
    #[must_use]
    pub fn on_stderr(self, listener: impl FnMut(&str) + Send + 'static) -> Self {
        if let State::Open(open) = &self.state {
            open.stderr.listen(Box::new(listener));
        }
        self
    }

    /// The program's process id, as long as it runs.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            State::Open(open) => open.process.id(),
            State::Closing(_) | State::Closed => None,
        }
    }
}

impl Open {
    /// Ready when the program has ended. It leaves a waker, and may be asked again.
    fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.process.get() {
            Some(process) => pin!(process.wait()).poll(cx).map(|_| ()),
            None => Poll::Ready(()),
        }
    }
}

impl Transport for Child {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let State::Open(open) = &mut self.state else {
            return Poll::Ready(Ok(Received::End));
        };
        if let Poll::Ready(received) = open.stream.poll_receive(cx, inbox) {
            return Poll::Ready(received);
        }
        // A program that is dead may have left another behind that holds its stdout open: the
        // end of the stream would never come. What it wrote itself is in the pipe by now, and
        // the patience is for the runtime, which may not have told of it yet.
        ready!(open.poll_exit(cx));
        let patience = open.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Ok(Received::End))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Open(open) => open.stream.poll_send(cx, outbox),
            State::Closing(_) | State::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            State::Open(open) => open.poll_exit(cx),
            State::Closing(_) | State::Closed => Poll::Ready(()),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        loop {
            match std::mem::replace(&mut self.state, State::Closed) {
                State::Open(open) => {
                    self.state = State::Closing(Box::pin(farewell::close(*open, self.grace)));
                }
                State::Closing(mut closing) => match closing.as_mut().poll(cx) {
                    Poll::Ready(farewell) => return Poll::Ready(farewell),
                    Poll::Pending => {
                        self.state = State::Closing(closing);
                        return Poll::Pending;
                    }
                },
                State::Closed => return Poll::Ready(Farewell::default()),
            }
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).finish_non_exhaustive()
    }
}
