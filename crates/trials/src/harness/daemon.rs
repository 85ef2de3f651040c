//! The daemon's process, shared by all trials. It has its own process group, so that leftovers are found.

use std::os::unix::process::CommandExt;
use std::process::Child;

use rustix::fs::OFlags;

use super::link::{PollFds, poll};
use crate::harness::prelude::*;

/// Poll interval for events without a descriptor.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A process under test.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    pid: Pid,
    /// Readable when the process has ended.
    pidfd: Option<OwnedFd>,
    /// Our ends of its standard descriptors; taking one closes it.
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// The daemon's ends of stdin, stdout and stderr, with their original flags. While these copies are open,
    /// a read never reports the end of the output.
    pub(crate) theirs: Vec<(&'static str, OwnedFd, OFlags)>,
    /// Exit status and time of the end.
    pub(crate) ended: Option<(ExitStatus, Instant)>,
}

impl Daemon {
    /// Starts a command on these descriptors.
    pub(crate) fn start(
        mut command: Command,
        [stdin, stdout, stderr]: [Channel; 3],
    ) -> io::Result<Self> {
        let opened = [stdin.open(true)?, stdout.open(false)?, stderr.open(false)?];
        let mut theirs = Vec::new();
        for (name, (fd, _)) in ["stdin", "stdout", "stderr"].into_iter().zip(&opened) {
            theirs.push((name, fd.try_clone()?, rustix::fs::fcntl_getfl(fd)?));
        }
        let [(their_stdin, stdin), (their_stdout, stdout), (their_stderr, stderr)] = opened;
        command.stdin(their_stdin).stdout(their_stdout).stderr(their_stderr);
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        let (pidfd, ended) = (pidfd(pid), None);
        Ok(Daemon { child, pid, pidfd, stdin, stdout, stderr, theirs, ended })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, unless the process has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Kills every process of its group.
    pub(crate) fn kill_group(&self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    /// Returns true if a process of its group is left.
    pub(crate) fn is_left(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok() && proc::is_group_alive(self.pid)
    }

    /// Descriptors with changed flags.
    pub(crate) fn changed_flags(&self) -> Vec<&'static str> {
        let is_changed = |fd: &OwnedFd, before| rustix::fs::fcntl_getfl(fd) != Ok(before);
        let changed = self.theirs.iter().filter(|(_, fd, before)| is_changed(fd, *before));
        changed.map(|(name, ..)| *name).collect()
    }

    /// Waits until a descriptor is ready, the process ends, or the time is over.
    pub(crate) fn poll(&self, fds: &PollFds<'_>, time: Duration) {
        // After the end, the pidfd stays readable, so it is not polled any more.
        let pidfd = self.pidfd.as_ref().filter(|_| self.ended.is_none());
        let time = if pidfd.is_some() { time } else { time.min(POLL_INTERVAL) };
        poll(&[fds, &[(pidfd, PollFlags::IN)]].concat(), time);
    }

    /// Records the end of the process, if it has ended.
    pub(crate) fn check_end(&mut self) {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some((status, Instant::now()));
        }
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            self.check_end();
            let left = until.saturating_duration_since(Instant::now());
            if self.ended.is_some() || left.is_zero() {
                return self.ended.map(|(status, _)| status);
            }
            self.poll(&[], left);
        }
    }

    /// Returns the address from the line `listening on …`, the first on stderr.
    pub(crate) fn listening_url(&mut self, patience: Duration) -> io::Result<String> {
        let until = Instant::now() + patience;
        let Some(stderr) = &self.stderr else { return Err(io::Error::other("no stderr")) };
        rustix::io::ioctl_fionbio(stderr, true)?;
        // Byte by byte: the log follows the line, and is read elsewhere.
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\n") && Instant::now() < until {
            match rustix::io::read(stderr, &mut byte) {
                Ok(1) => line.push(byte[0]),
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.poll(&[(Some(stderr), PollFlags::IN)], POLL_INTERVAL);
                }
                _ => break,
            }
        }
        rustix::io::ioctl_fionbio(stderr, false)?;
        let line = String::from_utf8_lossy(&line);
        let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
        url.ok_or_else(|| io::Error::other(format!("the daemon does not listen: {line}")))
    }
}

impl Drop for Daemon {
    /// Leaves no process behind after a failure.
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill_group();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Sleeps until `is_done` or the time is over. Returns true if done.
pub(crate) fn wait_until(time: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_done() {
        if begun.elapsed() >= time {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

#[cfg(target_os = "linux")]
fn pidfd(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: Pid) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::channel::PIPES;

    #[test]
    fn t4_flags_that_are_not_restored_are_found() {
        let daemon = Daemon::start(Command::new("true"), PIPES).expect("`true` is everywhere");
        assert_eq!(daemon.changed_flags(), [""; 0]);
        rustix::io::ioctl_fionbio(&daemon.theirs[1].1, true).expect("it is a pipe");
        assert_eq!(daemon.changed_flags(), ["stdout"]);
    }
}
