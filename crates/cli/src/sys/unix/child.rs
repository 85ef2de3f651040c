//! The server of a tap, as the tap sees it: three pipes, a way to send signals, and its end.
//!
//! The guard (`guard.rs`) starts the server and ends its process tree.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Signal;

use super::{tap_stdio, tree};
use crate::sys::Ended;

/// The name of the command that runs the guard.
const GUARD: &str = "tap-guard";

/// A running server.
pub(crate) struct TappedServer {
    guard: Child,
    /// The socket to the guard.
    socket: UnixStream,
}

/// Our ends of the server's pipes.
pub(crate) struct ServerPipes {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

impl TappedServer {
    /// Starts a server with pipes to it.
    pub(crate) fn start(command: &[OsString]) -> io::Result<(Self, ServerPipes)> {
        let ((stdin, to), (from, stdout), (errors, stderr)) =
            (io::pipe()?, io::pipe()?, io::pipe()?);
        let server = Self::start_with(command, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
        Ok((server, ServerPipes { stdin: to.into(), stdout: from.into(), stderr: errors.into() }))
    }

    /// Starts a server with these descriptors as its stdin, stdout and stderr.
    fn start_with(command: &[OsString], stdio: [BorrowedFd<'_>; 3]) -> io::Result<Self> {
        // If the guard is killed, its descendants become ours.
        tree::adopt_descendants();
        let (socket, theirs) = UnixStream::pair()?;
        let mut guard = own_program()?;
        guard.arg(GUARD).arg("--").args(command).process_group(0);
        guard.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let child = guard.spawn()?;
        // The command holds the guard's end of the socket, whose end tells us that the guard is dead.
        drop(guard);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&stdio));
        sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
        Ok(TappedServer { guard: child, socket })
    }

    /// Starts a server with our own stdin, stdout and stderr, which are closed here: their other ends see what the server
    /// does with them.
    pub(crate) fn start_with_ours(command: &[OsString]) -> io::Result<Self> {
        let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let server = Self::start_with(command, stdio)?;
        tap_stdio::replace_stdin();
        tap_stdio::replace_stdout();
        Ok(server)
    }

    /// A handle that sends signals to the server.
    pub(crate) fn signals(&self) -> io::Result<SignalSender> {
        self.socket.try_clone().map(SignalSender)
    }

    /// Waits until the server and its descendants have ended.
    pub(crate) fn wait(mut self) -> io::Result<Ended> {
        let mut line = String::new();
        let read = BufReader::new(&self.socket).read_line(&mut line);
        // The guard exits right after its report.
        let _ = self.guard.wait();
        if let Some(ended) = read.ok().and_then(|_| parse(&line)) {
            return Ok(ended);
        }
        tree::kill_all(None, &mut |time: Duration| std::thread::sleep(time));
        Err(io::Error::other("the process that guards the server was killed"))
    }
}

/// Sends signals to the server, through the guard.
pub(crate) struct SignalSender(UnixStream);

impl SignalSender {
    pub(crate) fn send(&self, signal: i32) {
        // A guard that has ended has no server.
        let _ = (&self.0).write_all(&[u8::try_from(signal).unwrap_or_default()]);
    }

    /// Asks the server to end.
    pub(crate) fn ask(&self) {
        self.send(Signal::TERM.as_raw());
    }

    /// Kills the server.
    pub(crate) fn kill(&self) {
        self.send(Signal::KILL.as_raw());
    }
}

/// Parses the report of the guard.
fn parse(line: &str) -> Option<Ended> {
    let mut words = line.split_ascii_whitespace();
    let (kind, number, left) = (words.next()?, words.next()?, words.next()?);
    let (number, left) = (number.parse().ok()?, left.parse().ok()?);
    match kind {
        "code" => Some(Ended { code: Some(number), signal: None, left }),
        "signal" => Some(Ended { code: None, signal: Some(number), left }),
        _ => None,
    }
}

/// A command that runs this program.
pub(crate) fn own_program() -> io::Result<Command> {
    let mut command = Command::new(own_path()?);
    command.arg0("duet-rpc");
    Ok(command)
}

/// The path of the program that runs now, even if its file was replaced.
pub(crate) fn own_path() -> io::Result<OsString> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => std::env::current_exe().map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_the_guard_are_parsed() {
        let ended = |code, signal, left| Some(Ended { code, signal, left });
        for (line, expected) in [
            ("code 0 0\n", ended(Some(0), None, 0)),
            ("code 255 3\n", ended(Some(255), None, 3)),
            ("signal 9 1\n", ended(None, Some(9), 1)),
            ("", None),
            ("code 1\n", None),
            ("code x 0\n", None),
            ("other 1 0\n", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
