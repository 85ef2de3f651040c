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
use rustix::pipe::{PipeFlags, pipe_with};

use super::tree;

/// The name of the command that runs the guard.
const GUARD: &str = "tap-guard";

/// A running server.
pub(super) struct Server {
    guard: Child,
    /// The socket to the guard.
    socket: UnixStream,
}

/// Our ends of the server's pipes.
pub(super) struct Pipes {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// The end of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// The number of processes that it left behind.
    pub(super) left: u64,
}

impl Server {
    /// Starts a server with pipes to it.
    pub(super) fn start(command: &[OsString]) -> io::Result<(Self, Pipes)> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let ((stdin, to), (from, stdout), (errors, stderr)) = (pipe()?, pipe()?, pipe()?);
        let server = Self::start_with(command, [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])?;
        Ok((server, Pipes { stdin: to, stdout: from, stderr: errors }))
    }

    /// Starts a server with these descriptors as its stdin, stdout and stderr.
    pub(super) fn start_with(command: &[OsString], stdio: [BorrowedFd<'_>; 3]) -> io::Result<Self> {
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
        Ok(Server { guard: child, socket })
    }

    /// A handle that sends signals to the server.
    pub(super) fn signals(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Waits until the server and its descendants have ended.
    pub(super) fn wait(mut self) -> io::Result<Ended> {
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

/// Sends a signal to the server, through the guard.
pub(super) fn send_signal(mut socket: &UnixStream, signal: i32) {
    // A guard that has ended has no server.
    let _ = socket.write_all(&[u8::try_from(signal).unwrap_or_default()]);
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

/// A command that runs this program. Its path is the program that runs now, even if its file was replaced.
pub(super) fn own_program() -> io::Result<Command> {
    let program =
        if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    command.arg0("duet-rpc");
    Ok(command)
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
