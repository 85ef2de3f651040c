//! A program that this one starts and talks to over its standard input and output (T1).

#[cfg(unix)]
pub(crate) mod descriptor_limit;
mod live;
mod process;
#[cfg(unix)]
mod procfs;
mod stderr;
mod stop;
#[cfg(all(test, unix))]
mod tests;
#[cfg(unix)]
mod tree;
#[cfg(not(unix))]
#[path = "no_tree.rs"]
mod tree;
#[cfg(all(test, target_os = "linux"))]
mod tree_tests;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::{Sleep, sleep};

use crate::transport::{ExitReport, Inbox, Outbox, Received, Stream, Transport};
use process::{Pipes, Process};
use stderr::Stderr;

/// How long each step of closing waits for the program to end, if nothing else is said.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of a pipe is awaited when the program has ended. Only one that it left behind
/// can hold the pipe open.
const PATIENCE: Duration = Duration::from_millis(100);

/// A transport to a program that it starts.
///
/// What the program writes to stderr is always read, so that it cannot fill up and freeze the
/// program, and the last lines are kept for the [`ExitReport`]. Closing is a ladder: its stdin is
/// closed, then it is asked to end (SIGTERM), then it is killed, each after a grace period. A
/// program that is dropped without being closed is killed.
///
/// All of this holds for the program and for every process that it started, behind a shell or a
/// launcher too. A process that exits when stdin is closed is not signalled. A process that is left
/// when the program itself has exited gets 1 s before it is asked to end. [`ExitReport::stopped`]
/// names those that had to be stopped.
///
/// # Process groups and sessions
///
/// The program leads a process group of its own, and signals go to that group. On Linux (5.3 or
/// newer, with `/proc`) processes that left the group are found too: by the variable
/// `DUET_RPC_TREE`, which is added to the program's environment, or by a parent that still runs. A
/// process that did all three, that is left the group, cleared its environment and lost its
/// parent, is not found, and neither is a process of another user. To start a daemon that is meant
/// to stay, have a service manager start it.
///
/// Because of its own group the program does not receive the SIGINT of Ctrl-C: handle the signal
/// and close the connection, as `duet-rpc call` does. A program that reads the terminal itself,
/// such as one that asks for a password, is stopped by the system (SIGTTIN).
///
/// # When this process ends
///
/// | this process | the program and what it started |
/// |---|---|
/// | drops the `Child`, its runtime ends, or it panics | killed |
/// | is a [`Server`](crate::Server) that ends, by force too | killed |
/// | calls [`std::process::exit`] or aborts | see their stdin close; [`Child::kill_all`] before it kills them |
/// | dies of a signal that it does not handle, SIGKILL for one | see their stdin close, and stay if they ignore that |
///
/// A signal from the system for the last row (`PR_SET_PDEATHSIG`) would have to be asked for
/// inside the program before it starts, which needs unsafe code, and it comes when the *thread*
/// ends that started the program.
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
    state: ChildState,
    grace: Duration,
}

/// Why a program cannot be started. It is what the [`io::Error`] of [`Child::spawn`] holds.
#[derive(Debug)]
pub(crate) struct CannotStart {
    program: String,
    cause: io::Error,
}

impl CannotStart {
    fn wrap(command: &Command, cause: io::Error) -> io::Error {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        io::Error::new(cause.kind(), CannotStart { program, cause })
    }

    /// Whether a later attempt would fail, too. Too many processes or open files pass; a program that
    /// is not there, or is none, stays so.
    pub(crate) fn is_permanent(&self) -> bool {
        use io::ErrorKind::{
            InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        };

        /// "Exec format error", for which there is no kind.
        const ENOEXEC: i32 = 8;
        let kinds = [InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied];
        kinds.contains(&self.cause.kind()) || self.cause.raw_os_error() == Some(ENOEXEC)
    }
}

impl fmt::Display for CannotStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot start {:?}: {}", self.program, self.cause)
    }
}

impl std::error::Error for CannotStart {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

enum ChildState {
    Open(Box<Open>),
    Closing(Pin<Box<dyn Future<Output = ExitReport> + Send>>),
    Closed,
}

struct Open {
    stream: Stream<ChildStdout, Stdin>,
    process: Process,
    stderr: Stderr,
    /// Runs from when the program was seen to have ended.
    patience: Option<Pin<Box<Sleep>>>,
}

/// The program's stdin, until it is closed. To close it is to drop it: the runtime's own pipe does
/// nothing when it is shut down.
struct Stdin(Option<ChildStdin>);

impl Child {
    /// Starts the program. The command's stdin, stdout and stderr become pipes to here, it gets a
    /// process group of its own and the variable `DUET_RPC_TREE`; the rest of it is the caller's.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one that was built without its I/O driver. Receiving and
    /// closing need its timer too.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (process, Pipes { stdin, stdout, stderr }) = Process::spawn(command)?;
        let stderr = Stderr::drain(stderr);
        let stream = Stream::new(stdout, Stdin(Some(stdin)));
        let open = Open { stream, process, stderr, patience: None };
        Ok(Child { state: ChildState::Open(Box::new(open)), grace: GRACE })
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
        if let ChildState::Open(open) = &self.state {
            open.stderr.listen(Box::new(listener));
        }
        self
    }

    /// Closes the program's stdin and still receives what the program writes. Without it,
    /// [`poll_close`](Transport::poll_close) closes stdin and discards the rest of stdout. Sending
    /// fails from here on.
    ///
    /// For a program that answers at the end of its input, and for a check of its last output.
    pub fn close_stdin(&mut self) {
        if let ChildState::Open(open) = &mut self.state {
            open.stream.writer_mut().0 = None;
        }
    }

    /// Kills every program that this process has started with [`Child::spawn`] and that still runs,
    /// with all that it started. It takes a few milliseconds, and at most the time.
    ///
    /// For whoever ends the process without dropping what it holds: before [`std::process::exit`],
    /// and on the thread that receives a SIGINT or SIGTERM. [`Server`](crate::Server) does it by
    /// itself.
    pub fn kill_all(time: Duration) {
        live::kill_all(Instant::now() + time);
    }

    /// The program's process id, as long as it runs.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            ChildState::Open(open) => open.process.id(),
            ChildState::Closing(_) | ChildState::Closed => None,
        }
    }
}

/// Ends all programs before this process exits without running destructors.
#[cfg(unix)]
pub(crate) mod at_exit {
    use super::{Duration, Instant, live};

    /// Kills all programs and what they started. None can be started any more.
    pub(crate) fn kill_all(time: Duration) {
        live::kill_all_for_good(Instant::now() + time);
    }

    /// Kills what can be killed without a wait.
    pub(crate) fn kill_groups() {
        live::kill_groups();
    }
}

impl Transport for Child {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let ChildState::Open(open) = &mut self.state else {
            return Poll::Ready(Ok(Received::Eof));
        };
        if let Poll::Ready(received) = open.stream.poll_receive(cx, inbox) {
            return Poll::Ready(received);
        }
        // A program that is dead may have left another behind that holds its stdout open: the
        // end of the stream would never come. What it wrote itself is in the pipe by now, and
        // the patience is for the runtime, which may not have told of it yet.
        ready!(open.process.poll_exit(cx));
        let patience = open.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Ok(Received::Eof))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        match &mut self.state {
            ChildState::Open(open) => open.stream.poll_send(cx, outbox),
            ChildState::Closing(_) | ChildState::Closed => {
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
        }
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            ChildState::Open(open) => open.process.poll_exit(cx),
            ChildState::Closing(_) | ChildState::Closed => Poll::Ready(()),
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        loop {
            match std::mem::replace(&mut self.state, ChildState::Closed) {
                ChildState::Open(open) => {
                    self.state = ChildState::Closing(Box::pin(stop::close(*open, self.grace)));
                }
                ChildState::Closing(mut closing) => match closing.as_mut().poll(cx) {
                    Poll::Ready(exit_report) => return Poll::Ready(exit_report),
                    Poll::Pending => {
                        self.state = ChildState::Closing(closing);
                        return Poll::Pending;
                    }
                },
                ChildState::Closed => return Poll::Ready(ExitReport::default()),
            }
        }
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(stdin) => Pin::new(stdin).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().map_or(Poll::Ready(Ok(())), |stdin| Pin::new(stdin).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).finish_non_exhaustive()
    }
}
