//! A daemon on its standard descriptors, driven by one thread that never blocks in a read or a write.

use super::prelude::*;

/// Interval for checking state that no descriptor announces.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct PipedDaemon {
    pub(super) process: Daemon,
    /// Its stdin and stdout.
    pub(super) link: Link,
    /// Wrong answers and other wrong messages.
    pub(super) wrong: Vec<String>,
    /// Bytes on stdout outside of frames.
    pub(super) garbage: Option<String>,
    /// Everything from stderr.
    pub(super) said: Vec<u8>,
    /// Time of the cause of the end. With `counts_from_last_byte`, the time of the last read.
    pub(super) trigger: Instant,
    pub(super) counts_from_last_byte: bool,
}

impl PipedDaemon {
    pub(super) fn start(command: Command, profile: Profile, on: [Channel; 3]) -> io::Result<Self> {
        let mut process = Daemon::start(command, on)?;
        let ends = [process.stdin.take(), process.stdout.take()];
        if let Some(stderr) = &process.stderr {
            rustix::io::ioctl_fionbio(stderr, true)?;
        }
        let link = Link::new(ends, profile.framing(), Ledger::for_profile(profile))?;
        let (wrong, garbage, said, counts_from_last_byte) = Default::default();
        let trigger = Instant::now();
        Ok(PipedDaemon { process, link, wrong, garbage, said, trigger, counts_from_last_byte })
    }

    /// Queues bytes to send.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.link.send(bytes, &[]);
    }

    /// Sends a message.
    pub(super) fn say(&mut self, text: &str) {
        self.send(&self.link.carrier.frame(text.as_bytes()));
    }

    pub(super) fn is_settled(&self) -> bool {
        self.link.ledger.is_settled()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.process.ended.is_some()
    }

    /// Closes our ends of stdin and stdout.
    pub(super) fn close_both(&mut self) {
        (self.link.input, self.link.output) = (None, None);
    }

    /// Everything on stderr so far, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    pub(super) fn has_said(&self, words: &str) -> bool {
        self.said.windows(words.len()).any(|window| window == words.as_bytes())
    }

    /// Checks the received stdout.
    pub(super) fn take_output(&mut self) {
        if self.garbage.is_some() {
            return;
        }
        match self.link.take_events() {
            Ok(wrong) => self.wrong.extend(wrong.iter().map(ToString::to_string)),
            Err(_) => {
                let rest = self.link.inbound.rest();
                let shown = String::from_utf8_lossy(&rest[..rest.len().min(80)]);
                self.garbage = Some(shown.escape_debug().to_string());
            }
        }
    }

    /// Reads and writes for this time, or until the process has ended.
    pub(super) fn run_for(&mut self, time: Duration) {
        self.pump(time, |_| false);
    }

    /// Reads and writes until the process has ended. Returns true if it has.
    pub(super) fn pump_to_end(&mut self, limit: Duration) -> bool {
        self.pump(limit, |daemon| daemon.has_ended())
    }

    /// Reads and writes until `until` holds, the time is over, or nothing more can come. Returns true if
    /// `until` holds.
    pub(super) fn pump(&mut self, limit: Duration, mut until: impl FnMut(&Self) -> bool) -> bool {
        self.pump_beyond(limit, |daemon| until(daemon) || daemon.has_ended());
        // The last bytes are in the pipes by now.
        while !until(self) && self.has_ended() && self.read() {}
        until(self)
    }

    /// Like `pump`, but continues after the process has ended: processes that it started may still run.
    pub(super) fn pump_beyond(
        &mut self,
        limit: Duration,
        mut until: impl FnMut(&Self) -> bool,
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
            let [stdin, stdout] = self.link.fds();
            let fds = [stdin, stdout, (self.process.stderr.as_ref(), PollFlags::IN)];
            self.process.poll(&fds, left.min(CHECK_INTERVAL));
            // A closed stdin is noticed elsewhere.
            let _ = self.link.write();
            self.read();
            self.process.check_end();
        }
    }

    /// Reads both outputs once. Returns true if something came.
    fn read(&mut self) -> bool {
        let count = self.link.read().unwrap_or(0);
        if count > 0 {
            if self.counts_from_last_byte {
                self.trigger = Instant::now();
            }
            self.take_output();
        }
        let mut chunk = [0; 64 * 1024];
        let said = match self.process.stderr.as_ref().map(|fd| rustix::io::read(fd, &mut chunk)) {
            Some(Ok(count @ 1..)) => count,
            None | Some(Err(Errno::AGAIN | Errno::INTR)) => 0,
            _ => {
                self.process.stderr = None;
                0
            }
        };
        self.said.extend_from_slice(&chunk[..said]);
        count + said > 0
    }
}
