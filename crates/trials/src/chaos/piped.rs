//! A daemon on its standard descriptors, driven by one thread that never blocks in a read or a write.

use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::requests::Requests;
use crate::harness::channel::Channel;
use crate::harness::daemon::Daemon;
use crate::harness::wire::Inbound;
use crate::{Framing, Profile};

/// How long to wait for what nothing announces.
const GLANCE: Duration = Duration::from_millis(20);

pub(super) struct PipedDaemon {
    process: Daemon,
    pub(super) framing: Framing,
    pub(super) requests: Requests,
    /// Answers and other messages that are wrong.
    pub(super) wrong: Vec<String>,
    to_send: VecDeque<u8>,
    pub(super) inbound: Inbound,
    /// Bytes on stdout that are not a frame.
    pub(super) garbage: Option<String>,
    /// All that came on stderr.
    pub(super) said: Vec<u8>,
    /// Whether answers stay unread.
    pub(super) leaves_stdout: bool,
    /// When the cause of its end happened, or the last byte was read if that counts.
    pub(super) trigger: Instant,
    pub(super) counts_from_last_byte: bool,
}

impl Deref for PipedDaemon {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.process
    }
}

impl DerefMut for PipedDaemon {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.process
    }
}

impl PipedDaemon {
    pub(super) fn start(command: Command, profile: Profile, on: [Channel; 3]) -> io::Result<Self> {
        let process = Daemon::start(command, on)?;
        for ours in [&process.stdin, &process.stdout, &process.stderr].into_iter().flatten() {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        Ok(PipedDaemon {
            process,
            framing: profile.framing(),
            requests: Requests::new(profile),
            wrong: Vec::new(),
            to_send: VecDeque::new(),
            inbound: Inbound::new(profile.framing()),
            garbage: None,
            said: Vec::new(),
            leaves_stdout: false,
            trigger: Instant::now(),
            counts_from_last_byte: false,
        })
    }

    /// Sends bytes as soon as they are read.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.to_send.extend(bytes);
    }

    /// Sends a message.
    pub(super) fn say(&mut self, text: &str) {
        let frame = self.framing.frame(text.as_bytes());
        self.send(&frame);
    }

    /// Whether all has been sent, or stdin is closed.
    pub(super) fn is_sent(&self) -> bool {
        self.to_send.is_empty() || self.stdin.is_none()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.requests.ledger.is_settled()
    }

    /// The cause of its end happens now.
    pub(super) fn mark(&mut self) {
        self.trigger = Instant::now();
    }

    /// Closes our ends of stdin and stdout.
    pub(super) fn close_both(&mut self) {
        (self.stdin, self.stdout) = (None, None);
    }

    /// What it has said on stderr.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    pub(super) fn has_said(&self, words: &str) -> bool {
        self.said.windows(words.len()).any(|window| window == words.as_bytes())
    }

    /// Takes these bytes as its output.
    pub(super) fn take_output(&mut self, bytes: &[u8]) {
        self.inbound.feed(bytes);
        while self.garbage.is_none() {
            match self.inbound.next() {
                Ok(Some(event)) => {
                    let taken = self.requests.ledger.take(event);
                    self.wrong.extend(taken.err().map(|failure| failure.to_string()));
                }
                Ok(None) => break,
                Err(_) => {
                    let rest = self.inbound.rest();
                    let shown = String::from_utf8_lossy(&rest[..rest.len().min(80)]);
                    self.garbage = Some(shown.escape_debug().to_string());
                }
            }
        }
    }

    /// Reads and writes for this long, or until the process has ended.
    pub(super) fn run_for(&mut self, time: Duration) {
        self.pump(time, |_| false);
    }

    /// Reads and writes until the process has ended. Whether it has.
    pub(super) fn pump_to_end(&mut self, limit: Duration) -> bool {
        self.pump(limit, |daemon| daemon.ended.is_some())
    }

    /// Reads and writes until this holds, the time is over, or nothing more can come. Whether it holds.
    pub(super) fn pump(&mut self, limit: Duration, until: impl FnMut(&Self) -> bool) -> bool {
        self.pump_while(limit, until, |daemon| daemon.ended.is_none())
    }

    /// The same, even after the process has ended: processes that it started may live on.
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
                // The last bytes are in the pipes by now.
                while self.read() {}
                return until(self);
            }
            let stdin = self.stdin.as_ref().filter(|_| !self.to_send.is_empty());
            let stdout = self.stdout.as_ref().filter(|_| !self.leaves_stdout);
            let fds = [
                (stdin, PollFlags::OUT),
                (stdout, PollFlags::IN),
                (self.stderr.as_ref(), PollFlags::IN),
            ];
            self.poll(&fds, left.min(GLANCE));
            self.write();
            self.read();
            self.check_end();
        }
    }

    fn write(&mut self) {
        let Some(stdin) = &self.process.stdin else { return };
        while !self.to_send.is_empty() {
            match rustix::io::write(stdin, self.to_send.as_slices().0) {
                Ok(count) => drop(self.to_send.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return,
                // It is gone, and that is seen elsewhere.
                Err(_) => return self.to_send.clear(),
            }
        }
    }

    /// Reads both outputs once. Whether there was something.
    fn read(&mut self) -> bool {
        let mut output = Vec::new();
        if !self.leaves_stdout && read_some(&mut self.process.stdout, &mut output) {
            if self.counts_from_last_byte {
                self.trigger = Instant::now();
            }
            self.take_output(&output);
        }
        read_some(&mut self.process.stderr, &mut self.said) || !output.is_empty()
    }
}

/// Reads once. Whether there was something; at the end the descriptor is closed.
fn read_some(from: &mut Option<OwnedFd>, into: &mut Vec<u8>) -> bool {
    let Some(fd) = from.as_ref() else { return false };
    let mut chunk = [0; 64 * 1024];
    match rustix::io::read(fd, &mut chunk) {
        Ok(count @ 1..) => into.extend_from_slice(&chunk[..count]),
        Err(Errno::AGAIN | Errno::INTR) => return false,
        Ok(0) | Err(_) => {
            *from = None;
            return false;
        }
    }
    true
}
