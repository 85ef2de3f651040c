//! One connection of a soak: a link, and the patience with it.

use crate::harness::link::poll;
use crate::harness::prelude::*;

pub(super) struct Connection {
    link: Link,
    counters: Arc<Counters>,
}

impl Connection {
    pub(super) fn new(
        [input, output]: [OwnedFd; 2],
        carrier: Framing,
        ledger: Ledger,
    ) -> Result<Self, Failure> {
        let counters = Arc::clone(&ledger.counters);
        let link = Link::new([Some(input), Some(output)], carrier, ledger);
        let link = link.map_err(|error| Failure::new(format!("no connection: {error}")))?;
        Ok(Connection { link, counters })
    }

    pub(super) fn ledger(&mut self) -> &mut Ledger {
        &mut self.link.ledger
    }

    /// Sends bytes, cut there, when all before is sent.
    pub(super) fn send(&mut self, bytes: &[u8], cuts: &[usize]) {
        self.counters.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.link.send(bytes, cuts);
        self.turn();
    }

    /// The reader waits for so long, and then takes a few bytes at a time for a while.
    pub(super) fn slow_down(&mut self, nap: Duration, sips: u64) {
        self.link.slow_down(nap, sips);
    }

    /// Waits until nothing is due.
    pub(super) fn settle(&mut self, patience: Duration) -> Result<(), Failure> {
        self.wait(patience, "what is due does not come", |it| it.ledger.is_settled())
    }

    /// Waits until all is sent.
    pub(super) fn flush(&mut self, patience: Duration) -> Result<(), Failure> {
        self.wait(patience, "the daemon does not read", Link::is_sent)
    }

    /// Reads and writes until this holds.
    pub(super) fn wait(
        &mut self,
        patience: Duration,
        what: &str,
        is_done: impl Fn(&Link) -> bool,
    ) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        loop {
            if let Some(failure) = self.counters.failure() {
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
            // Now and then a look at the failures of others, and at the end of a nap.
            poll(&self.link.fds(), left.min(Duration::from_millis(5)));
            self.turn();
        }
    }

    /// Writes and reads what there is, and checks it.
    fn turn(&mut self) {
        let may_break = self.link.ledger.is_over || self.link.ledger.may_break;
        if let Err(error) = self.link.write()
            && !may_break
        {
            self.counters.fail(Failure::new(format!("the daemon cannot be sent to: {error}")));
        }
        if self.link.ledger.has_ended {
            return;
        }
        let read = self.link.read();
        self.counters.received.fetch_add(*read.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
        let lost = read.map_or_else(|error| self.link.ledger.lose(&error), |_| Ok(()));
        let taken = self.link.take_events().map_err(|why| {
            let rest = String::from_utf8_lossy(self.link.inbound.rest()).into_owned();
            self.link.output = None;
            Failure::because(&why, "a frame", &rest)
        });
        let wrong = taken.and_then(|wrong| wrong.into_iter().next().map_or(Ok(()), Err));
        let ended = match self.link.output {
            None => self.link.ledger.end(self.link.inbound.rest()),
            Some(_) => Ok(()),
        };
        if let Err(failure) = lost.and(wrong).and(ended) {
            self.counters.fail(failure);
        }
    }

    /// A failure with the last bytes that were sent.
    pub(super) fn with_last(&self, mut failure: Failure) -> Failure {
        if failure.sent.is_empty() {
            failure.sent = self.link.last.iter().copied().collect();
        }
        failure
    }

    /// Sends no more, which ends the daemon or the connection, and waits until the daemon has ended it too.
    pub(super) fn finish(mut self, patience: Duration) -> Result<(), Failure> {
        self.wait(patience, "the daemon does not read", |link| {
            link.is_sent() || link.ledger.has_ended || link.ledger.is_over
        })?;
        if let Some(input) = self.link.input.take() {
            // A pipe needs no more than the drop.
            let _ = rustix::net::shutdown(&input, Shutdown::Write);
        }
        let what = "the daemon does not end the connection";
        self.wait(patience, what, |link| link.ledger.has_ended)?;
        let ledger = &self.link.ledger;
        if ledger.has_answers_due() && !ledger.is_over {
            let what = "the connection ends before all is said";
            return Err(self.with_last(Failure::because(what, ledger.missing(), "")));
        }
        self.counters.failure().map_or(Ok(()), Err)
    }
}
