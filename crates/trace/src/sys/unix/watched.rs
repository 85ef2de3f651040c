//! The two ends of a pump with fault rules: one `poll` waits for the input, the end of the output and the other pump.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};

/// A pipe that wakes a pump. It never blocks.
pub(crate) struct Wake {
    rx: OwnedFd,
    tx: OwnedFd,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let (rx, tx) = io::pipe()?;
        rustix::io::ioctl_fionbio(&rx, true)?;
        rustix::io::ioctl_fionbio(&tx, true)?;
        Ok(Wake { rx: rx.into(), tx: tx.into() })
    }

    pub(crate) fn wake(&self) {
        // A full pipe wakes it as well.
        let _ = write(&self.tx, &[0]);
    }
}

/// The input and the output of a pump.
pub(crate) struct Watched<'a, I, O> {
    input: I,
    pub(crate) output: O,
    wake: &'a Wake,
}

impl<'a, I: AsFd, O: AsFd> Watched<'a, I, O> {
    pub(crate) fn new(input: I, output: O, wake: &'a Wake, _read_size: usize) -> io::Result<Self> {
        Ok(Watched { input, output, wake })
    }

    /// Waits for the input if it may be read, for the end of the output, until woken, or for this many microseconds.
    /// Returns `true` if the input can be read.
    pub(crate) fn wait(&mut self, may_read: bool, time: Option<u64>) -> io::Result<bool> {
        let output = PollFd::new(&self.output, PollFlags::empty());
        let mut fds = vec![output, PollFd::new(&self.wake.rx, PollFlags::IN)];
        fds.extend(may_read.then(|| PollFd::new(&self.input, PollFlags::IN)));
        match poll(&mut fds, time.map(timeout).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if fds[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(Errno::PIPE.into());
        }
        if !fds[1].revents().is_empty() {
            let _ = read(&self.wake.rx, &mut [0_u8; 64]);
        }
        Ok(fds.get(2).is_some_and(|fd| !fd.revents().is_empty()))
    }

    /// Reads once, after `wait`.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        super::read(&self.input, buffer)
    }
}

/// A time in microseconds, rounded up: waking too early would only wait again.
fn timeout(time: u64) -> Timespec {
    let (seconds, rest) = (time / 1_000_000, time % 1_000_000);
    Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(rest * 1_000).unwrap_or(0),
    }
}
