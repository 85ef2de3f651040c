//! Child processes: programs that this process starts and talks to over their stdin and stdout (T1).

mod live;
mod process;
mod stderr;
mod stop;
#[cfg(all(test, unix))]
mod tests;
#[cfg(all(test, target_os = "linux"))]
mod tree_tests;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::{Sleep, sleep};

use crate::transport::{ExitReport, Inbox, Outbox, Received, Stream, Transport};
use process::{Pipes, Process};
use stderr::Stderr;

/// Default time that each step of closing waits for the program to end.
const GRACE: Duration = Duration::from_secs(2);

/// Maximum time for the end of a pipe after the program has ended. Only a process that the program left behind can
/// hold the pipe open.
const PATIENCE: Duration = Duration::from_millis(100);

/// A transport to a program that it starts.
///
/// It always reads the program's stderr, so that a full pipe cannot freeze the program, and keeps the
/// last lines for the [`ExitReport`]. Closing has three steps, each with a grace period: it closes the
/// program's stdin, then asks it to end (SIGTERM), then kills it. A `Child` that is dropped without being
/// closed kills the program.
///
/// All of this holds for the program and for every process that it started, even through a shell or a launcher. A
/// process that exits when stdin is closed gets no signal. A process that still runs when the program itself has
/// exited gets 1 s before it is asked to end. [`ExitReport::stopped`] names the processes that had to be stopped.
///
/// # Process groups and sessions
///
/// The program leads a process group of its own, and signals go to that group. On Linux (5.3 or newer, with `/proc`)
/// `Child` also finds processes that left the group: by the variable `DUET_RPC_TREE`, which it adds to the program's
/// environment, or by a parent that still runs. It does not find two kinds of processes: a process that left the
/// group, cleared its environment and lost its parent, and a process of another user. To start a daemon that should
/// stay, have a service manager start it.
///
/// Because of its own group the program does not receive the SIGINT of Ctrl-C: handle the signal and
/// close the connection, as `duet-rpc call` does. The system stops (SIGTTIN) a program that reads the
/// terminal itself, for example to ask for a password.
///
/// # The end of this process
///
/// | this process | the program and the processes that it started |
/// |---|---|
/// | drops the `Child`, its runtime ends, or it panics | killed |
/// | is a [`Server`](crate::Server) that ends, by force too | killed |
/// | calls [`std::process::exit`] or aborts | see their stdin close; call [`Child::kill_all`] first to kill them |
/// | dies of a signal that it does not handle, such as SIGKILL | see their stdin close, and stay if they ignore that |
///
/// The system could send a signal in the last case (`PR_SET_PDEATHSIG`). But the program would have to ask for it
/// before it starts, which needs unsafe code, and the system sends the signal when the *thread* that started the
/// program ends.
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

/// The reason why a program cannot be started: the inner error of the [`io::Error`] of [`Child::spawn`].
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

    /// Returns `true` if a later attempt would fail too. Too many processes or open files are temporary; a missing
    /// file, or a file that is not a program, is permanent.
    pub(crate) fn is_permanent(&self) -> bool {
        use io::ErrorKind::{
            InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
        };

        /// "Exec format error", which has no `ErrorKind`.
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
    /// Starts when the exit of the program is noticed.
    patience: Option<Pin<Box<Sleep>>>,
    /// The time at which stdin was closed, if that was before the end.
    stdin_closed: Option<tokio::time::Instant>,
}

/// The program's stdin, until it is closed. Dropping the pipe closes it: shutting down tokio's pipe does
/// nothing.
struct Stdin(Option<ChildStdin>);

impl Child {
    /// Starts the program. It replaces the command's stdin, stdout and stderr by pipes, gives the program a process
    /// group of its own, and adds the variable `DUET_RPC_TREE`. It leaves the rest of the command unchanged.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, or in one that was built without its I/O driver. Receiving and
    /// closing need its timer too.
    pub fn spawn(command: Command) -> io::Result<Self> {
        let (process, Pipes { stdin, stdout, stderr }) = Process::spawn(command)?;
        let stderr = Stderr::drain(stderr);
        let stream = Stream::new(stdout, Stdin(Some(stdin)));
        let open = Open { stream, process, stderr, patience: None, stdin_closed: None };
        Ok(Child { state: ChildState::Open(Box::new(open)), grace: GRACE })
    }

    /// The time that each step of closing waits for the program to end. Default: 2 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Calls this function for each line that the program writes to stderr, without its line end, beginning with
    /// lines that have already arrived. The function must not block. Bytes that are not UTF-8 are replaced, and a
    /// line of more than 8 KiB comes in pieces.
    #[must_use]
    pub fn on_stderr(self, listener: impl FnMut(&str) + Send + 'static) -> Self {
        if let ChildState::Open(open) = &self.state {
            open.stderr.listen(Box::new(listener));
        }
        self
    }

    /// Closes the program's stdin, and continues to receive the program's output. Without this call,
    /// [`poll_close`](Transport::poll_close) closes stdin and discards the rest of stdout. Sending fails from here
    /// on, and the grace period of the first step of closing begins.
    ///
    /// Use it for a program that answers at the end of its input, or to check the last output of a program.
    pub fn close_stdin(&mut self) {
        if let ChildState::Open(open) = &mut self.state {
            open.stream.writer_mut().0 = None;
            open.stdin_closed.get_or_insert_with(tokio::time::Instant::now);
        }
    }

    /// Kills every running program that this process has started with [`Child::spawn`], with all
    /// processes that it started. It takes a few milliseconds, and at most `time`.
    ///
    /// Call it before a process ends without destructors: before [`std::process::exit`], and on the
    /// thread that receives a SIGINT or SIGTERM. [`Server`](crate::Server) does it by itself.
    pub fn kill_all(time: Duration) {
        live::kill_all(Instant::now() + time);
    }

    /// The program's process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        match &self.state {
            ChildState::Open(open) => open.process.id(),
            ChildState::Closing(_) | ChildState::Closed => None,
        }
    }
}

/// Ends all programs before this process exits without running destructors.
pub(crate) mod at_exit {
    use super::{Duration, Instant, live};

    /// Kills all programs and the processes that they started. No program can start afterwards.
    pub(crate) fn kill_all(time: Duration) {
        live::kill_all_for_good(Instant::now() + time);
    }

    /// Kills the processes that can be killed without waiting.
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
        // A dead program may have left another process behind that holds its stdout open: then the end of the stream
        // never comes. The program's own output is in the pipe by now. This wait gives the runtime time to report
        // that output.
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

    fn reports_exit(&self) -> bool {
        true
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
