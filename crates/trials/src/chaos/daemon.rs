//! A daemon as a process, driven by one thread that never waits for it in a read or a write.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};

use super::channel::Channel;
use super::frames::{Framing, Next};
use super::ledger::Ledger;

/// How long one waits for what nothing announces.
const GLANCE: Duration = Duration::from_millis(20);

/// A process that is to be a daemon.
pub(super) struct Daemon {
    child: Child,
    pid: Pid,
    /// Readable when the process has ended.
    pidfd: Option<OwnedFd>,
    pub(super) framing: Framing,
    pub(super) ledger: Ledger,
    /// Our ends; closed by taking them.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    to_send: VecDeque<u8>,
    /// What came on stdout and is no whole frame yet.
    pub(super) out: Vec<u8>,
    pub(super) garbage: Option<String>,
    /// All that came on stderr.
    pub(super) said: Vec<u8>,
    /// The daemon's ends, with the flags that they had.
    kept: Vec<(&'static str, OwnedFd, OFlags)>,
    /// Whether answers are left where they are.
    pub(super) leaves_stdout: bool,
    pub(super) ended: Option<(ExitStatus, Instant)>,
    /// When what ends it was done, or the last byte was read if that counts.
    pub(super) trigger: Instant,
    pub(super) counts_from_last_byte: bool,
}

impl Daemon {
    /// Starts this command with these as its standard descriptors.
    pub(super) fn start(
        mut command: Command,
        framing: Framing,
        [stdin, stdout, stderr]: [Channel; 3],
    ) -> io::Result<Self> {
        let opened = [stdin.open(true)?, stdout.open(false)?, stderr.open(false)?];
        let names = ["stdin", "stdout", "stderr"];
        let mut kept = Vec::new();
        for (name, (theirs, _)) in names.into_iter().zip(&opened) {
            kept.push((name, theirs.try_clone()?, rustix::fs::fcntl_getfl(theirs)?));
        }
        let [(stdin, to_stdin), (stdout, from_stdout), (stderr, from_stderr)] = opened;
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
        // So that whatever it leaves behind is found.
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Daemon {
            child,
            pid,
            pidfd: pidfd(pid),
            framing,
            ledger: Ledger::default(),
            stdin: to_stdin,
            stdout: from_stdout,
            stderr: from_stderr,
            to_send: VecDeque::new(),
            out: Vec::new(),
            garbage: None,
            said: Vec::new(),
            kept,
            leaves_stdout: false,
            ended: None,
            trigger: Instant::now(),
            counts_from_last_byte: false,
        })
    }

    /// Has bytes sent as soon as they are read.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.to_send.extend(bytes);
    }

    /// Whether all has been sent, or nobody is there to take it.
    pub(super) fn is_sent(&self) -> bool {
        self.to_send.is_empty() || self.stdin.is_none()
    }

    /// Has a signal sent to the process; it may have ended.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    /// Has a signal sent to all processes that came of it.
    pub(super) fn signal_all(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }

    /// Whether there is any process left of it.
    pub(super) fn is_left(&self) -> bool {
        rustix::process::test_kill_process_group(self.pid).is_ok() && self.is_any_alive()
    }

    /// Of processes that nobody knows any more, the dead may still be in the list: not everywhere the first
    /// process looks after them.
    fn is_any_alive(&self) -> bool {
        let Ok(all) = std::fs::read_dir("/proc") else { return true };
        let group = self.pid.as_raw_nonzero().to_string();
        let is_alive = |stat: &str| {
            // The name before stands in brackets, and may have any characters in it.
            let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let (state, of_group) = (words.next(), words.nth(1));
            of_group == Some(&group) && !matches!(state, Some("Z" | "X"))
        };
        let stats = all.flatten().map(|entry| std::fs::read_to_string(entry.path().join("stat")));
        stats.flatten().any(|stat| is_alive(&stat))
    }

    /// Takes what it has written elsewhere as what it has answered.
    pub(super) fn take_output(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.take_frames();
    }

    /// The daemon's end of one of the three.
    pub(super) fn their_end(&self, number: usize) -> &OwnedFd {
        &self.kept[number].1
    }

    /// From now on it is expected to end.
    pub(super) fn mark(&mut self) {
        self.trigger = Instant::now();
    }

    /// What it has said on stderr.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Whether it has said this on stderr.
    pub(super) fn has_said(&self, words: &str) -> bool {
        self.said.windows(words.len()).any(|window| window == words.as_bytes())
    }

    /// Descriptors whose flags are not as they were.
    pub(super) fn changed_flags(&self) -> Vec<&'static str> {
        let is_changed = |fd: &OwnedFd, before| rustix::fs::fcntl_getfl(fd) != Ok(before);
        let changed = self.kept.iter().filter(|(_, fd, before)| is_changed(fd, *before));
        changed.map(|(name, ..)| *name).collect()
    }

    /// Reads and writes until this holds, or the time is over, or nothing more can come. Whether it holds.
    pub(super) fn pump(&mut self, limit: Duration, until: impl FnMut(&Self) -> bool) -> bool {
        self.pump_while(limit, until, |daemon| daemon.ended.is_none())
    }

    /// The same, also when the process has ended: others that came of it may live on.
    pub(super) fn pump_beyond(
        &mut self,
        limit: Duration,
        until: impl FnMut(&Self) -> bool,
    ) -> bool {
        self.pump_while(limit, until, |_| true)
    }

    fn pump_while(
        &mut self,
        limit: Duration,
        mut until: impl FnMut(&Self) -> bool,
        may_go_on: impl Fn(&Self) -> bool,
    ) -> bool {
        let begun = Instant::now();
        loop {
            if until(self) {
                return true;
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            if !may_go_on(self) {
                // What it has left in the pipes is there by now.
                while self.take_what_is_there() {}
                return until(self);
            }
            self.wait(left.min(GLANCE));
            self.give();
            self.take_what_is_there();
            self.look_for_the_end();
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, time: Duration) {
        let gives = !self.to_send.is_empty();
        let ends = [
            (self.stdin.as_ref().filter(|_| gives), PollFlags::OUT),
            (self.stdout.as_ref().filter(|_| !self.leaves_stdout), PollFlags::IN),
            (self.stderr.as_ref(), PollFlags::IN),
            (self.pidfd.as_ref(), PollFlags::IN),
        ];
        // The end of the process is no news any more when it was seen.
        let known = ends.into_iter().take(if self.ended.is_some() { 3 } else { 4 });
        let known = known.filter_map(|(fd, flags)| Some((fd?, flags)));
        let mut fds: Vec<_> =
            known.map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)).collect();
        let time = if self.pidfd.is_some() && self.ended.is_none() {
            time
        } else {
            time.min(Duration::from_millis(2))
        };
        let time = Timespec::try_from(time).unwrap_or_default();
        let _ = rustix::event::poll(&mut fds, Some(&time));
    }

    fn give(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        while !self.to_send.is_empty() {
            match rustix::io::write(stdin, self.to_send.as_slices().0) {
                Ok(count) => drop(self.to_send.drain(..count)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                // It is gone, and that is seen elsewhere.
                Err(_) => return self.to_send.clear(),
            }
        }
    }

    /// Whether anything was there.
    fn take_what_is_there(&mut self) -> bool {
        let mut any = false;
        if !self.leaves_stdout && read_some(&mut self.stdout, &mut self.out) {
            any = true;
            if self.counts_from_last_byte {
                self.trigger = Instant::now();
            }
            self.take_frames();
        }
        any | read_some(&mut self.stderr, &mut self.said)
    }

    fn take_frames(&mut self) {
        let mut taken = 0;
        while self.garbage.is_none() {
            match self.framing.next(&self.out[taken..]) {
                Next::Message(message, count) => {
                    taken += count;
                    self.ledger.note(&message);
                }
                Next::Part => break,
                Next::Garbage(what) => self.garbage = Some(what),
            }
        }
        self.out.drain(..taken);
    }

    fn look_for_the_end(&mut self) {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some((status, Instant::now()));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal_all(Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads once. Whether there was something; at the end the descriptor is closed.
fn read_some(from: &mut Option<OwnedFd>, into: &mut Vec<u8>) -> bool {
    let Some(fd) = from.as_ref() else { return false };
    let mut chunk = [0; 64 * 1024];
    match rustix::io::read(fd, &mut chunk) {
        Ok(count @ 1..) => {
            into.extend_from_slice(&chunk[..count]);
            true
        }
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
        Ok(0) | Err(_) => {
            *from = None;
            false
        }
    }
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

    #[test]
    fn t4_flags_that_were_not_put_back_are_found() {
        let on = [Channel::Pipe, Channel::Pipe, Channel::Pipe];
        let daemon = Daemon::start(Command::new("true"), Framing::Ndjson, on);
        let daemon = daemon.expect("there is such a program everywhere");
        assert_eq!(daemon.changed_flags(), [""; 0]);
        rustix::io::ioctl_fionbio(daemon.their_end(1), true).expect("it is a pipe");
        assert_eq!(daemon.changed_flags(), ["stdout"]);
    }
}
