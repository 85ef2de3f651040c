//! A link to the daemon, driven by one thread that never blocks in a read or a write: bytes out in the pieces that
//! they are given, events in at the pace that is given, and the ledger that checks them.

use std::os::fd::AsFd;

use rustix::event::{PollFd, Timespec};

use super::wire::Inbound;
use crate::harness::prelude::*;

/// The number of sent bytes that are kept, to be shown with a failure.
const KEPT: usize = 2048;

/// Descriptors to poll, some of them closed.
pub(crate) type PollFds<'a> = [(Option<&'a OwnedFd>, PollFlags)];

pub(crate) struct Link {
    /// The end that we write, and the one that we read; taking one closes it.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: Option<OwnedFd>,
    pub(crate) carrier: Framing,
    pub(crate) ledger: Ledger,
    pub(crate) inbound: Inbound,
    /// The bytes to write, one write for each piece, and the last ones that were given.
    pieces: VecDeque<VecDeque<u8>>,
    pub(crate) last: VecDeque<u8>,
    /// Whether the output stays unread; always, or until a time.
    pub(crate) is_unread: bool,
    unread_until: Option<Instant>,
    /// The number of reads that take a few bytes only.
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
            is_unread: false,
            unread_until: None,
            sips: 0,
        })
    }

    /// Has bytes written behind all before, with one write for each piece between the cuts.
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

    /// Whether all is written, or nobody can take it.
    pub(crate) fn is_sent(&self) -> bool {
        self.pieces.is_empty() || self.input.is_none()
    }

    /// Reads nothing for so long, and then a few bytes at a time for a while.
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

    /// Writes what can be written. After a failure nothing is left to write.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let Some(input) = &self.input else { return Ok(()) };
        while let Some(piece) = self.pieces.front_mut() {
            match rustix::io::write(input, piece.as_slices().0) {
                Ok(count) => drop(piece.drain(..count)),
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

    /// Reads once, and returns the number of bytes. At the end the output is closed.
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
        self.inbound.feed(&chunk[..count]);
        Ok(count)
    }

    /// Checks the events that came, and has answers to the daemon's calls written. Returns what is wrong with
    /// them. Fails on bytes that are no frame.
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

/// Waits until one of these is ready, or the time is over.
pub(crate) fn poll(fds: &PollFds<'_>, time: Duration) {
    let known = fds.iter().filter_map(|(fd, flags)| Some(((*fd)?, *flags)));
    let mut fds: Vec<_> =
        known.map(|(fd, flags)| PollFd::from_borrowed_fd(fd.as_fd(), flags)).collect();
    let time = Timespec::try_from(time).unwrap_or_default();
    let _ = rustix::event::poll(&mut fds, Some(&time));
}
