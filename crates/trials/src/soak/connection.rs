//! The connection of a client: writes, reads, and their time limits.

use super::prelude::*;
use crate::harness::link::poll;

impl Client<'_> {
    /// Queues bytes with these cuts, after everything queued before.
    pub(super) fn send_bytes(&mut self, bytes: &[u8], cuts: &[usize]) {
        self.all.counters.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.link.send(bytes, cuts);
        self.turn();
    }

    /// Reads and writes until `is_done`.
    pub(super) fn wait(
        &mut self,
        what: &str,
        is_done: impl Fn(&Link) -> bool,
    ) -> Result<(), Failure> {
        let until = Instant::now() + self.all.patience;
        loop {
            if let Some(failure) = self.all.counters.failure() {
                return Err(self.with_last(failure));
            }
            if is_done(&self.link) {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            let ledger = &self.link.ledger;
            let is_early = ledger.has_ended && !ledger.is_over;
            if left.is_zero() || is_early {
                let what = if is_early { "the connection has ended too early" } else { what };
                return Err(self.with_last(Failure::because(what, ledger.missing(), "")));
            }
            // Returns regularly, to see failures of other clients and the end of a nap.
            poll(&self.link.fds(), left.min(Duration::from_millis(5)));
            self.turn();
        }
    }

    /// Writes and reads as much as possible, and checks it.
    fn turn(&mut self) {
        let (link, counters) = (&mut self.link, &self.all.counters);
        let may_break = link.ledger.is_over || link.ledger.may_break;
        if let Err(error) = link.write()
            && !may_break
        {
            counters.fail(Failure::new(format!("the daemon cannot be sent to: {error}")));
        }
        if link.ledger.has_ended {
            return;
        }
        let read = link.read();
        counters.received.fetch_add(*read.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
        let lost = read.map_or_else(|error| link.ledger.lose(&error), |_| Ok(()));
        let taken = link.take_events().map_err(|why| {
            link.output = None;
            Failure::because(&why, "a frame", String::from_utf8_lossy(link.inbound.rest()))
        });
        let wrong = taken.and_then(|wrong| wrong.into_iter().next().map_or(Ok(()), Err));
        let ended = match link.output {
            None => link.ledger.end(link.inbound.rest()),
            Some(_) => Ok(()),
        };
        if let Err(failure) = lost.and(wrong).and(ended) {
            counters.fail(failure);
        }
    }

    /// Adds the last sent bytes to a failure.
    pub(super) fn with_last(&self, mut failure: Failure) -> Failure {
        if failure.sent.is_empty() {
            failure.sent = self.link.last.iter().copied().collect();
        }
        failure
    }

    /// Closes our side, which ends the daemon or the connection, and waits until the daemon closes its side
    /// too.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.wait("the daemon does not read", |link| {
            link.is_sent() || link.ledger.has_ended || link.ledger.is_over
        })?;
        if let Some(input) = self.link.input.take() {
            // For a pipe, the drop is enough.
            let _ = rustix::net::shutdown(&input, Shutdown::Write);
        }
        self.wait("the daemon does not end the connection", |link| link.ledger.has_ended)?;
        let ledger = &self.link.ledger;
        if ledger.has_answers_due() && !ledger.is_over {
            let what = "the connection ends before all answers are there";
            return Err(self.with_last(Failure::because(what, ledger.missing(), "")));
        }
        self.all.counters.failure().map_or(Ok(()), Err)
    }
}
