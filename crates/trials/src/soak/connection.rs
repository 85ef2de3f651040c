//! One connection: a thread that writes, in the pieces that it is told to, and one that reads, at the pace
//! that it is told to.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::counters::{Broken, Counters};
use super::ledger::Ledger;
use super::ws;
use crate::wire::{Frames, Framing};

/// How many of the bytes that were sent are kept, to be shown if something breaks.
const KEPT: usize = 2048;

/// How messages are cut out of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A stream of bytes.
    Stream(Framing),
    /// A WebSocket.
    Ws,
}

impl Carrier {
    /// A text on its way to the daemon.
    pub(super) fn frame(self, text: &[u8]) -> Vec<u8> {
        match self {
            Carrier::Stream(framing) => framing.frame(text),
            Carrier::Ws => ws::frame(ws::LAST | ws::TEXT, text, [7, 0, 255, 42]),
        }
    }
}

/// Bytes that are sent without others in between, and where they are cut into writes.
#[derive(Debug, Default)]
pub(super) struct Unit {
    pub(super) bytes: Vec<u8>,
    pub(super) cuts: Vec<usize>,
}

pub(super) struct Connection {
    pub(super) ledger: Arc<Ledger>,
    counters: Arc<Counters>,
    /// What is to be written; nothing more behind a `None`.
    units: Sender<Option<Unit>>,
    last: Arc<Mutex<VecDeque<u8>>>,
    pace: Arc<Pace>,
    writer: JoinHandle<()>,
    reader: JoinHandle<()>,
}

/// How slow the reader is.
#[derive(Debug, Default)]
struct Pace {
    /// How long it waits before the next read, in milliseconds.
    nap: AtomicU64,
    /// How many reads are of a few bytes only.
    sips: AtomicU64,
}

impl Connection {
    /// Starts the threads of a connection.
    pub(super) fn new(
        carrier: Carrier,
        mut input: impl Write + Send + 'static,
        output: impl Read + Send + 'static,
        ledger: Ledger,
        counters: &Arc<Counters>,
    ) -> Self {
        let (ledger, last) = (Arc::new(ledger), Arc::<Mutex<VecDeque<u8>>>::default());
        let (units, to_write) = channel::<Option<Unit>>();
        let (sent, counts, writes_of) =
            (Arc::clone(&last), Arc::clone(counters), Arc::clone(&ledger));
        let writer = thread::spawn(move || {
            while let Ok(Some(unit)) = to_write.recv() {
                keep(&sent, &unit.bytes);
                counts.sent.fetch_add(unit.bytes.len() as u64, Ordering::Relaxed);
                let ends = unit.cuts.iter().copied().chain([unit.bytes.len()]);
                let mut begin = 0;
                for end in ends {
                    let written = input.write_all(&unit.bytes[begin..end]);
                    begin = end;
                    if let Err(error) = written.and_then(|()| input.flush()) {
                        if !writes_of.is_over() {
                            let broken =
                                Broken::new(format!("the daemon cannot be sent to: {error}"));
                            counts.fail(broken);
                        }
                        return;
                    }
                }
            }
        });
        let pace = Arc::<Pace>::default();
        let says = units.clone();
        let (reads_of, slow, counts) =
            (Arc::clone(&ledger), Arc::clone(&pace), Arc::clone(counters));
        let reader = thread::spawn(move || {
            read(output, carrier, &reads_of, &slow, &counts, &says);
        });
        let counters = Arc::clone(counters);
        Connection { ledger, counters, units, last, pace, writer, reader }
    }

    /// Sends this, when all before is sent.
    pub(super) fn send(&self, unit: Unit) {
        let _ = self.units.send(Some(unit));
    }

    /// The reader waits for so long after its next read, and then takes a few bytes at a time for a while.
    pub(super) fn slow_down(&self, nap: u64, sips: u64) {
        self.pace.sips.store(sips, Ordering::Relaxed);
        self.pace.nap.store(nap, Ordering::Release);
    }

    /// Waits until all that is due has come.
    pub(super) fn settle(&self, patience: Duration) -> Result<(), Broken> {
        self.ledger.settle(patience).map_err(|broken| self.with_last(broken))
    }

    /// The last bytes that were sent, with what broke.
    pub(super) fn with_last(&self, mut broken: Broken) -> Broken {
        if broken.sent.is_empty() {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            broken.sent = last.iter().copied().collect();
        }
        broken
    }

    /// Sends no more, which ends the daemon or the connection, and waits until the daemon has ended it too.
    pub(super) fn finish(self, patience: Duration) -> Result<(), Broken> {
        let _ = self.units.send(None);
        let ended = self.ledger.wait_for_end(patience).and_then(|()| self.ledger.check_empty());
        ended.map_err(|broken| self.with_last(broken))?;
        let _ = self.reader.join();
        let _ = self.writer.join();
        self.counters.broken().map_or(Ok(()), Err)
    }
}

fn keep(last: &Mutex<VecDeque<u8>>, bytes: &[u8]) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    last.extend(&bytes[bytes.len().saturating_sub(KEPT)..]);
    let surplus = last.len().saturating_sub(KEPT);
    last.drain(..surplus);
}

/// What came, cut into what it means.
enum Cutter {
    Frames(Frames),
    Ws(Vec<u8>),
}

impl Cutter {
    fn feed(&mut self, bytes: &[u8]) {
        match self {
            Cutter::Frames(frames) => frames.feed(bytes),
            Cutter::Ws(all) => all.extend_from_slice(bytes),
        }
    }

    fn next(&mut self) -> Result<Option<ws::Event>, String> {
        match self {
            Cutter::Frames(frames) => Ok(frames.next_text()?.map(ws::Event::Text)),
            Cutter::Ws(all) => {
                let Some((event, length)) = ws::next(all)? else { return Ok(None) };
                all.drain(..length);
                Ok(Some(event))
            }
        }
    }

    fn rest(&self) -> &[u8] {
        match self {
            Cutter::Frames(frames) => frames.rest(),
            Cutter::Ws(all) => all,
        }
    }
}

fn read(
    mut output: impl Read,
    carrier: Carrier,
    ledger: &Ledger,
    pace: &Pace,
    counters: &Counters,
    says: &Sender<Option<Unit>>,
) {
    let mut chunk = vec![0; 64 * 1024];
    let mut cutter = match carrier {
        Carrier::Stream(framing) => Cutter::Frames(Frames::new(framing)),
        Carrier::Ws => Cutter::Ws(Vec::new()),
    };
    loop {
        let nap = pace.nap.swap(0, Ordering::AcqRel);
        if nap > 0 {
            thread::sleep(Duration::from_millis(nap));
        }
        let is_sip = pace.sips.load(Ordering::Relaxed) > 0;
        let most = if is_sip { 7 } else { chunk.len() };
        let count = match output.read(&mut chunk[..most]) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                ledger.lose(&error);
                break;
            }
        };
        if is_sip {
            pace.sips.fetch_sub(1, Ordering::Relaxed);
        }
        counters.received.fetch_add(count as u64, Ordering::Relaxed);
        cutter.feed(&chunk[..count]);
        loop {
            match cutter.next() {
                Ok(Some(event)) => {
                    if let Some(answer) = ledger.take(event) {
                        let bytes = carrier.frame(answer.as_bytes());
                        let _ = says.send(Some(Unit { bytes, cuts: Vec::new() }));
                    }
                }
                Ok(None) => break,
                Err(why) => {
                    let rest = String::from_utf8_lossy(cutter.rest()).into_owned();
                    counters.fail(Broken::because(&why, "a frame", &rest));
                    ledger.end(b"");
                    return;
                }
            }
        }
    }
    ledger.end(cutter.rest());
}
