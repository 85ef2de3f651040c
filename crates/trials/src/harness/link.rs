//! A link to the daemon, driven by one thread that never blocks in a read or a write. It sends bytes in given
//! pieces, reads at a given pace, and checks the events with a ledger.

use std::os::fd::AsFd;

use rustix::event::{PollFd, Timespec};

use super::wire::Inbound;
use crate::harness::prelude::*;

/// Number of sent bytes to keep for a failure report.
const KEPT: usize = 2048;

/// Descriptors to poll, some of them closed.
pub(crate) type PollFds<'a> = [(Option<&'a OwnedFd>, PollFlags)];

pub(crate) struct Link {
    /// The end that we write, and the end that we read; taking one closes it.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: Option<OwnedFd>,
    pub(crate) carrier: Framing,
    pub(crate) ledger: Ledger,
    pub(crate) inbound: Inbound,
    /// Bytes to write, one write per piece, and the last bytes queued.
    pieces: VecDeque<VecDeque<u8>>,
    pub(crate) last: VecDeque<u8>,
    /// Everything that was written and read, if it is kept.
    pub(crate) passed: Option<[Vec<u8>; 2]>,
    /// True if the output stays unread, and the time at which reading resumes, if any.
    pub(crate) is_unread: bool,
    unread_until: Option<Instant>,
    /// Number of reads that take only a few bytes.
    sips: u64,
}

impl Link {
    /// A link over our ends, which become non-blocking.
    pub(crate) fn new(
        [input, output]: [Option<OwnedFd>; 2],
        carrier: Framing,
        ledger: Ledger,
    ) -> io::Result<Self> {
        for end in [&input, &output].into_iter().flatten() {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Link {
            input,
            output,
            carrier,
            ledger,
            inbound: Inbound::new(carrier),
            pieces: VecDeque::new(),
            last: VecDeque::new(),
            passed: None,
            is_unread: false,
            unread_until: None,
            sips: 0,
        })
    }

    /// Queues bytes, with one write per piece between the cuts.
    pub(crate) fn send(&mut self, bytes: &[u8], cuts: &[usize]) {
        let mut begin = 0;
        for end in cuts.iter().copied().chain([bytes.len()]).filter(|end| *end > 0) {
            self.pieces.push_back(bytes[begin..end].iter().copied().collect());
            begin = end;
        }
        self.last.extend(&bytes[bytes.len().saturating_sub(KEPT)..]);
        let surplus = self.last.len().saturating_sub(KEPT);
        self.last.drain(..surplus);
    }

    /// Returns true if everything is written, or the input is closed.
    pub(crate) fn is_sent(&self) -> bool {
        self.pieces.is_empty() || self.input.is_none()
    }

    /// Reads nothing for `nap`, and then only a few bytes in each of `sips` reads.
    pub(crate) fn slow_down(&mut self, nap: Duration, sips: u64) {
        (self.unread_until, self.sips) = (Some(Instant::now() + nap), sips);
    }

    fn may_read(&self) -> bool {
        !self.is_unread && self.unread_until.is_none_or(|until| Instant::now() >= until)
    }

    pub(crate) fn fds(&self) -> [(Option<&OwnedFd>, PollFlags); 2] {
        let input = self.input.as_ref().filter(|_| !self.pieces.is_empty());
        let output = self.output.as_ref().filter(|_| self.may_read());
        [(input, PollFlags::OUT), (output, PollFlags::IN)]
    }

    /// Writes as much as possible. After a failure nothing is left to write.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let Some(input) = &self.input else { return Ok(()) };
        while let Some(piece) = self.pieces.front_mut() {
            match rustix::io::write(input, piece.as_slices().0) {
                Ok(count) => {
                    let written = piece.drain(..count);
                    if let Some([sent, _]) = &mut self.passed {
                        sent.extend(written);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => {
                    self.pieces.clear();
                    return Err(error.into());
                }
            }
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        Ok(())
    }

    /// Reads once, and returns the number of bytes. Closes the output at its end.
    pub(crate) fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 64 * 1024];
        let most = if self.sips > 0 { 7 } else { chunk.len() };
        let Some(output) = self.output.as_ref().filter(|_| self.may_read()) else { return Ok(0) };
        let count = match rustix::io::read(output, &mut chunk[..most]) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            other => other.inspect_err(|_| self.output = None)?,
        };
        if count == 0 {
            self.output = None;
        }
        self.sips = self.sips.saturating_sub(1);
        if let Some([_, received]) = &mut self.passed {
            received.extend_from_slice(&chunk[..count]);
        }
        self.inbound.feed(&chunk[..count]);
        Ok(count)
    }

    /// Checks the received events, and queues answers to the daemon's calls. Returns the faults. Fails on
    /// bytes outside of frames.
    pub(crate) fn take_events(&mut self) -> Result<Vec<Failure>, String> {
        let mut failures = Vec::new();
        while let Some(event) = self.inbound.next()? {
            match self.ledger.take(event) {
                Ok(None) => {}
                Ok(Some(answer)) => self.send(&self.carrier.frame(answer.as_bytes()), &[]),
                Err(failure) => failures.push(failure),
            }
        }
        Ok(failures)
    }
}

/// Waits until a descriptor is ready, or the time is over.
pub(crate) fn poll(fds: &PollFds<'_>, time: Duration) {
    let known = fds.iter().filter_map(|(fd, flags)| Some(((*fd)?, *flags)));
    let mut fds: Vec<_> =
        known.map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)).collect();
    let time = Timespec::try_from(time).unwrap_or_default();
    let _ = rustix::event::poll(&mut fds, Some(&time));
}
