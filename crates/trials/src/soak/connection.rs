//! One connection: a thread that writes, in the pieces that it is given, and one that reads, at the pace that it is
//! given. Both share a ledger.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::Shutdown;

use crate::harness::ledger::Ledger;
use crate::harness::lock;
use crate::harness::wire::Inbound;
use crate::{Counters, Failure, Framing};

/// The number of sent bytes that are kept, to be shown with a failure.
const KEPT: usize = 2048;

/// Bytes that are sent without others in between, and where they are cut into writes.
#[derive(Debug, Default)]
struct Unit {
    bytes: Vec<u8>,
    cuts: Vec<usize>,
}

/// What the threads of a connection share.
struct Shared {
    ledger: Mutex<Ledger>,
    changed: Condvar,
    counters: Arc<Counters>,
    /// The last bytes that were sent.
    last: Mutex<VecDeque<u8>>,
    /// How long the reader waits before its next read, in milliseconds.
    nap: AtomicU64,
    /// The number of reads of a few bytes only.
    sips: AtomicU64,
}

pub(super) struct Connection {
    shared: Arc<Shared>,
    /// The bytes to write; the end is behind a `None`.
    units: Sender<Option<Unit>>,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}

impl Connection {
    /// Starts the threads of a connection.
    pub(super) fn new(carrier: Framing, input: File, output: File, ledger: Ledger) -> Self {
        let shared = Arc::new(Shared {
            counters: Arc::clone(&ledger.counters),
            ledger: Mutex::new(ledger),
            changed: Condvar::new(),
            last: Mutex::default(),
            nap: AtomicU64::new(0),
            sips: AtomicU64::new(0),
        });
        let (units, to_write) = channel::<Option<Unit>>();
        let (writes, reads, says) = (Arc::clone(&shared), Arc::clone(&shared), units.clone());
        let writer = thread::spawn(move || {
            while let Ok(Some(unit)) = to_write.recv() {
                if !writes.write(&input, &unit) {
                    break;
                }
            }
            // The daemon sees the end of its input. A pipe needs no more than the drop.
            let _ = rustix::net::shutdown(&input, Shutdown::Write);
        });
        let reader = thread::spawn(move || reads.read_all(output, carrier, &says));
        Connection { shared, units, writer, reader }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.shared.ledger)
    }

    /// Sends bytes, cut there, when all before is sent.
    pub(super) fn send(&self, bytes: impl Into<Vec<u8>>, cuts: Vec<usize>) {
        let _ = self.units.send(Some(Unit { bytes: bytes.into(), cuts }));
    }

    /// The reader waits for so long after its next read, and then takes a few bytes at a time for a while.
    pub(super) fn slow_down(&self, nap: u64, sips: u64) {
        self.shared.sips.store(sips, Ordering::Relaxed);
        self.shared.nap.store(nap, Ordering::Release);
    }

    /// Waits until nothing is due.
    pub(super) fn settle(&self, patience: Duration) -> Result<(), Failure> {
        self.wait(patience, "what is due does not come", Ledger::is_settled)
    }

    /// Waits until this holds.
    pub(super) fn wait(
        &self,
        patience: Duration,
        what: &str,
        is_done: impl Fn(&Ledger) -> bool,
    ) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        let mut ledger = self.ledger();
        loop {
            if let Some(failure) = self.shared.counters.failure() {
                return Err(self.with_last(failure));
            }
            if is_done(&ledger) {
                return Ok(());
            }
            let left = until.saturating_duration_since(Instant::now());
            let is_early = ledger.has_ended && !ledger.is_over;
            if left.is_zero() || is_early {
                let what = if is_early { "the connection has ended too early" } else { what };
                return Err(self.with_last(Failure::because(what, ledger.missing(), "")));
            }
            // Now and then a look at the failures of others.
            let time = left.min(Duration::from_millis(200));
            let woken = self.shared.changed.wait_timeout(ledger, time);
            ledger = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A failure with the last bytes that were sent.
    pub(super) fn with_last(&self, mut failure: Failure) -> Failure {
        if failure.sent.is_empty() {
            failure.sent = lock(&self.shared.last).iter().copied().collect();
        }
        failure
    }

    /// Sends no more, which ends the daemon or the connection, and waits until the daemon has ended it too.
    pub(super) fn finish(self, patience: Duration) -> Result<(), Failure> {
        let _ = self.units.send(None);
        self.wait(patience, "the daemon does not end the connection", |it| it.has_ended)?;
        let ledger = self.ledger();
        if ledger.has_answers_due() && !ledger.is_over {
            let what = "the connection ends before all is said";
            return Err(self.with_last(Failure::because(what, ledger.missing(), "")));
        }
        drop(ledger);
        let _ = self.reader.join();
        let _ = self.writer.join();
        self.shared.counters.failure().map_or(Ok(()), Err)
    }
}

impl Shared {
    /// Writes a unit. Whether there may be another.
    fn write(&self, mut input: &File, unit: &Unit) -> bool {
        let mut last = lock(&self.last);
        last.extend(&unit.bytes[unit.bytes.len().saturating_sub(KEPT)..]);
        let surplus = last.len().saturating_sub(KEPT);
        last.drain(..surplus);
        drop(last);
        self.counters.sent.fetch_add(unit.bytes.len() as u64, Ordering::Relaxed);
        let mut begin = 0;
        for end in unit.cuts.iter().copied().chain([unit.bytes.len()]) {
            if let Err(error) = input.write_all(&unit.bytes[begin..end]) {
                if !lock(&self.ledger).is_over {
                    let what = format!("the daemon cannot be sent to: {error}");
                    self.counters.fail(Failure::new(what));
                }
                return false;
            }
            begin = end;
        }
        true
    }

    /// Checks all that comes, and tells those who wait.
    fn read_all(&self, output: File, carrier: Framing, says: &Sender<Option<Unit>>) {
        let mut inbound = Inbound::new(carrier);
        let read = self.read(output, carrier, &mut inbound, says);
        let end = lock(&self.ledger).end(if read.is_ok() { inbound.rest() } else { b"" });
        if let Err(failure) = read.and(end) {
            self.counters.fail(failure);
        }
        self.changed.notify_all();
    }

    fn read(
        &self,
        mut output: File,
        carrier: Framing,
        inbound: &mut Inbound,
        says: &Sender<Option<Unit>>,
    ) -> Result<(), Failure> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            thread::sleep(Duration::from_millis(self.nap.swap(0, Ordering::AcqRel)));
            let is_sip = self.sips.load(Ordering::Relaxed) > 0;
            let most = if is_sip { 7 } else { chunk.len() };
            let count = match output.read(&mut chunk[..most]) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return lock(&self.ledger).lose(&error),
            };
            let fewer = |sips: u64| sips.checked_sub(u64::from(is_sip));
            let _ = self.sips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            self.counters.received.fetch_add(count as u64, Ordering::Relaxed);
            inbound.feed(&chunk[..count]);
            loop {
                let next = inbound.next().map_err(|why| {
                    let rest = String::from_utf8_lossy(inbound.rest()).into_owned();
                    Failure::because(&why, "a frame", &rest)
                });
                let Some(event) = next? else { break };
                let taken = lock(&self.ledger).take(event);
                match taken {
                    Ok(None) => {}
                    Ok(Some(answer)) => {
                        let (bytes, cuts) = (carrier.frame(answer.as_bytes()), Vec::new());
                        let _ = says.send(Some(Unit { bytes, cuts }));
                    }
                    Err(failure) => self.counters.fail(failure),
                }
                self.changed.notify_all();
            }
        }
    }
}
