//! A process under limits: nothing that it does or leaves undone holds up the doctor, and nothing of
//! it is left behind.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use super::interrupt;

/// The longest that anything is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How much of a stream is kept. What a daemon has to say to the doctor is far less.
pub(super) const MOST_KEPT: usize = 1024 * 1024;

/// A process, the leader of a group of its own, which ends with it. Its pipes are served by threads,
/// as it may stop reading or never stop writing.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    started: Instant,
    /// What is to be written to stdin, which is closed by dropping this.
    stdin: Option<Sender<Vec<u8>>>,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    /// Tells when it ended. It is not reaped then, so that its number is not given to another.
    ended: Receiver<Instant>,
    is_reaped: bool,
}

/// A process that has not ended in time.
#[derive(Debug)]
pub(super) struct StillRuns;

/// What came of a process that is only watched.
pub(super) struct Watched {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// Runs a command to its end; `None` if it has none in time.
pub(super) fn run(command: Command, stdin: Stdio) -> io::Result<Option<Watched>> {
    let mut process = Process::start(command, stdin)?;
    let Ok((status, _)) = process.wait(PATIENCE) else { return Ok(None) };
    let stdout = rest(&process.stdout);
    Ok(Some(Watched { status, stdout, stderr: process.stderr() }))
}

impl Process {
    pub(super) fn start(mut command: Command, stdin: Stdio) -> io::Result<Process> {
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let started = Instant::now();
        let mut child = interrupt::spawn(&mut command)?;
        let pid = Pid::from_child(&child);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the process ends when this is dropped, whatever fails.
        let mut process = Process {
            child,
            pid,
            started,
            stdin: None,
            stdout: channel().1,
            stderr: channel().1,
            ended: channel().1,
            is_reaped: false,
        };
        process.ended = watch(pid)?;
        if let (stdin, Some(stdout), Some(stderr)) = pipes {
            process.stdin = stdin.map(write_to).transpose()?;
            process.stdout = read_from(stdout)?;
            process.stderr = read_from(stderr)?;
        }
        Ok(process)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Writes to stdin, sooner or later. A process that reads nothing shows by not answering.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.send(bytes);
        }
    }

    /// Closes stdin once all is written.
    pub(super) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// What comes out of stdout next, or why nothing does.
    pub(super) fn read(&self, deadline: Instant) -> Result<Vec<u8>, RecvTimeoutError> {
        self.stdout.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    }

    /// All that it said on stderr, once it has ended.
    pub(super) fn stderr(&self) -> Vec<u8> {
        rest(&self.stderr)
    }

    pub(super) fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Waits until it has ended, and ends what it started.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<(ExitStatus, Instant), StillRuns> {
        let ended = self.ended.recv_timeout(limit).map_err(|_| StillRuns)?;
        self.kill();
        self.is_reaped = true;
        let status = self.child.wait().map_err(|_| StillRuns)?;
        Ok((status, ended))
    }

    /// Ends the whole group. The leader's number is still its own, as it is not reaped.
    fn kill(&self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        interrupt::forget(self.pid);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        self.kill();
        // What cannot be killed, as the system holds it, must not hold us.
        if self.ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
            let _ = self.child.wait();
        }
    }
}

/// What is left in a stream whose writers have ended. One that got away may keep it open.
fn rest(stream: &Receiver<Vec<u8>>) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    while let Ok(more) = stream.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        all.extend(more);
    }
    all
}

fn watch(pid: Pid) -> io::Result<Receiver<Instant>> {
    let (sender, receiver) = channel();
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == Errno::INTR) {}
        let _ = sender.send(Instant::now());
    };
    thread::Builder::new().spawn(wait)?;
    Ok(receiver)
}

fn write_to(mut stdin: ChildStdin) -> io::Result<Sender<Vec<u8>>> {
    let (sender, receiver) = channel::<Vec<u8>>();
    let write = move || {
        for bytes in receiver {
            if stdin.write_all(&bytes).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(write)?;
    Ok(sender)
}

fn read_from(mut stream: impl Read + Send + 'static) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = channel();
    let read = move || {
        let mut chunk = vec![0; 16 * 1024];
        let mut room = MOST_KEPT;
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    // What is too much is read all the same: who writes must not find a full pipe.
                    let kept = count.min(room);
                    room -= kept;
                    if kept > 0 && sender.send(chunk[..kept].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    };
    thread::Builder::new().spawn(read)?;
    Ok(receiver)
}
