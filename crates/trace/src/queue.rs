//! The queue between the threads that forward bytes and the thread that records them.
//!
//! | rule | reason |
//! |---|---|
//! | A sender never waits and takes no lock. | Forwarding must cost the same whatever the recorder does (W2). |
//! | The queue is bounded in bytes. A buffer that does not fit is dropped and counted; the next one that fits carries the count. | A slow disk loses records, never bytes (W3). |
//! | A sender announces a chunk before it writes it. The recorder takes the chunks in order of their time, and none that is later than an announced one. | The answer to a request may pass, and be queued, before the thread of the request has queued it. |
//! | While much arrives and the queue is not half full, the recorder does not begin. | Where all processors are busy, recording a burst would slow it down. |
//! | The recorder looks at the queue every [`TICK`] while bytes pass. Only the first chunk after an idle time wakes it. | Waking a thread is a system call for each message. |

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::fault::FaultNote;
use crate::record::Dir;

/// The interval at which the recorder looks at the queue.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// The longest time without a look at the queue.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The longest time that chunks wait for an announced one. A thread whose write blocks longer has
/// not forwarded its chunk, so no answer to it can have come.
const MOST_HELD: u64 = 50_000;

/// More bytes in one tick than this are a burst.
const BURST: usize = 1024 * 1024;

/// The number of unused buffers that are kept for a direction.
const MOST_UNUSED: usize = 256;

/// A buffer for one read.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Fewer bytes are copied, so that a large buffer does not wait in the queue for a small message.
const SMALL: usize = 8 * 1024;

/// The memory that an entry takes besides its bytes.
pub(crate) const ENTRY: usize = 128;

/// No chunk is announced.
const NONE: u64 = u64::MAX;

/// An event of a session, in the queue.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes that passed, and the number of bytes before them that did not fit into the queue.
    Bytes {
        dir: Dir,
        bytes: Vec<u8>,
        lost: u64,
    },
    Eof {
        dir: Dir,
        lost: u64,
        why: Option<String>,
    },
    Fault(Box<FaultNote>),
    Signal(i32),
    Exit {
        code: Option<i32>,
        signal: Option<i32>,
        left: u64,
    },
    /// No further event follows.
    End,
}

/// State that the threads share.
#[derive(Debug)]
struct Shared {
    start: Instant,
    /// The bytes in the queue.
    queued: AtomicUsize,
    limit: usize,
    /// The number of events that the recorder has taken.
    recorded: AtomicU64,
    /// The time of the chunk that each direction is writing.
    announced: [AtomicU64; 3],
    /// The recorder sleeps until somebody wakes it.
    is_asleep: AtomicBool,
    recorder: OnceLock<Thread>,
}

impl Shared {
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(recorder) = self.recorder.get() {
            recorder.unpark();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(NONE - 1)
    }
}

/// The sending side of a direction.
#[derive(Debug)]
pub struct Feed {
    dir: Dir,
    sender: Sender<(u64, Event)>,
    shared: Arc<Shared>,
    /// Bytes that did not fit since the last chunk that did.
    lost: u64,
    recycled: Receiver<Vec<u8>>,
    unused: Arc<[AtomicUsize; 3]>,
}

/// The sending side for events that are not bytes.
#[derive(Clone, Debug)]
pub(crate) struct EventFeed {
    sender: Sender<(u64, Event)>,
    shared: Arc<Shared>,
}

impl EventFeed {
    /// The number of events that the recorder has taken.
    pub(crate) fn recorded(&self) -> u64 {
        self.shared.recorded.load(Ordering::Relaxed)
    }

    /// Reports an event. It is rare, so it does not wait for the next tick.
    pub(crate) fn event(&self, event: Event) {
        send(&self.sender, &self.shared, self.shared.now(), event);
        self.shared.unpark();
    }
}

/// Sends an event, and wakes the recorder if it sleeps.
fn send(sender: &Sender<(u64, Event)>, shared: &Shared, at: u64, event: Event) {
    // The recorder may have failed. Then there is nobody to record, and bytes pass on.
    let _ = sender.send((at, event));
    shared.wake();
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Inlet {
    receiver: Receiver<(u64, Event)>,
    shared: Arc<Shared>,
    /// Events that wait for an announced one, in order of time.
    held: Vec<(u64, Event)>,
    /// Bytes in the queue at the last look.
    seen: usize,
    recycle: [Sender<Vec<u8>>; 3],
    /// Buffers of each direction that were given back and not taken again.
    unused: Arc<[AtomicUsize; 3]>,
}

/// A queue that starts now and is bounded to this many bytes.
pub(crate) fn queue(limit: usize) -> ([Feed; 3], EventFeed, Inlet) {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared {
        start: Instant::now(),
        queued: AtomicUsize::new(0),
        limit,
        recorded: AtomicU64::new(0),
        announced: [const { AtomicU64::new(NONE) }; 3],
        is_asleep: AtomicBool::new(false),
        recorder: OnceLock::new(),
    });
    let unused = Arc::new([const { AtomicUsize::new(0) }; 3]);
    let feed = |dir: Dir| {
        let (recycle, recycled) = channel();
        let (sender, shared) = (sender.clone(), Arc::clone(&shared));
        let unused = Arc::clone(&unused);
        (Feed { dir, sender, shared, lost: 0, recycled, unused }, recycle)
    };
    let [(c2s, c2s_back), (s2c, s2c_back), (err, err_back)] = Dir::STREAMS.map(feed);
    let events = EventFeed { sender: sender.clone(), shared: Arc::clone(&shared) };
    let recycle = [c2s_back, s2c_back, err_back];
    let inlet = Inlet { receiver, shared, held: Vec::new(), seen: 0, recycle, unused };
    ([c2s, s2c, err], events, inlet)
}

impl Feed {
    /// An empty buffer to read into.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        match self.recycled.try_recv() {
            Ok(buffer) => {
                self.unused[index(self.dir)].fetch_sub(1, Ordering::Relaxed);
                buffer
            }
            Err(_) => Vec::with_capacity(BUFFER),
        }
    }

    /// The time of the session, in microseconds.
    #[cfg(test)]
    pub(crate) fn now(&self) -> u64 {
        self.shared.now()
    }

    /// The time at which the session started.
    pub(crate) fn start(&self) -> Instant {
        self.shared.start
    }

    /// Takes an announcement back: nothing will be written.
    pub(crate) fn withdraw(&self) {
        self.shared.announced[index(self.dir)].store(NONE, Ordering::SeqCst);
    }

    /// Hands over a fault that was made. If there is no room for it, its record is lost.
    pub(crate) fn fault(&mut self, note: FaultNote) {
        let cost = fault_cost(&note);
        if self.shared.queued.fetch_add(cost, Ordering::SeqCst) + cost > self.shared.limit {
            self.shared.queued.fetch_sub(cost, Ordering::SeqCst);
            return;
        }
        send(&self.sender, &self.shared, note.at, Event::Fault(Box::new(note)));
    }

    /// Announces bytes that were read now and will be written next. Returns their time.
    pub(crate) fn announce(&self) -> u64 {
        let at = self.shared.now();
        self.shared.announced[index(self.dir)].store(at, Ordering::SeqCst);
        at
    }

    /// Hands over bytes that were written. The buffer comes back empty.
    pub(crate) fn pass(&mut self, at: u64, buffer: &mut Vec<u8>) {
        let count = buffer.len();
        let cost = ENTRY + if count > SMALL { buffer.capacity() } else { count };
        let queued = self.shared.queued.fetch_add(cost, Ordering::SeqCst);
        if queued + cost > self.shared.limit {
            self.shared.queued.fetch_sub(cost, Ordering::SeqCst);
            self.lost += count as u64;
            buffer.clear();
        } else {
            let bytes = if count > SMALL {
                let fresh = self.buffer();
                std::mem::replace(buffer, fresh)
            } else {
                let copy = buffer.as_slice().to_vec();
                buffer.clear();
                copy
            };
            let lost = std::mem::take(&mut self.lost);
            send(&self.sender, &self.shared, at, Event::Bytes { dir: self.dir, bytes, lost });
        }
        self.shared.announced[index(self.dir)].store(NONE, Ordering::SeqCst);
        // Half full: the recorder should not wait for its next tick.
        if queued > self.shared.limit / 2 {
            self.shared.unpark();
        }
    }

    /// Reports that the stream of this direction has ended.
    pub(crate) fn end(&mut self, why: Option<String>) {
        let lost = std::mem::take(&mut self.lost);
        let at = self.shared.now();
        send(&self.sender, &self.shared, at, Event::Eof { dir: self.dir, lost, why });
        self.shared.announced[index(self.dir)].store(NONE, Ordering::SeqCst);
    }
}

/// The room that a fault takes in the queue.
fn fault_cost(note: &FaultNote) -> usize {
    ENTRY + note.rule.len() + note.body.as_ref().map_or(0, Vec::len)
}

fn index(dir: Dir) -> usize {
    match dir {
        Dir::C2s => 0,
        Dir::S2c => 1,
        _ => 2,
    }
}

impl Inlet {
    /// Makes the current thread the one that senders wake.
    pub(crate) fn attach(&self) {
        let _ = self.shared.recorder.set(thread::current());
    }

    /// The time of the session, in microseconds.
    pub(crate) fn now(&self) -> u64 {
        self.shared.now()
    }

    /// Counts an event that is being recorded.
    pub(crate) fn count_recorded(&self) {
        self.shared.recorded.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if a burst passes that the queue can hold.
    pub(crate) fn is_burst(&mut self) -> bool {
        let queued = self.shared.queued.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.seen, queued);
        queued > before + BURST && queued < self.shared.limit / 2
    }

    /// Waits for the next tick.
    pub(crate) fn wait_for_tick(&self) {
        thread::park_timeout(TICK);
    }

    /// Takes the events that no earlier one can follow, in order of their time.
    pub(crate) fn take(&mut self) -> Vec<(u64, Event)> {
        // First the announcements and then the queue: an announcement that is gone is in the queue.
        let now = self.shared.now();
        let announced = self.shared.announced.iter().map(|it| it.load(Ordering::SeqCst));
        let earliest = announced.min().unwrap_or(NONE);
        let horizon = now.min(earliest.max(now.saturating_sub(MOST_HELD)));
        self.held.extend(self.receiver.try_iter());
        self.held.sort_by_key(|(at, _)| *at);
        let is_end = self.held.iter().any(|(_, event)| matches!(event, Event::End));
        let count = match is_end {
            true => self.held.len(),
            false => self.held.partition_point(|(at, _)| *at < horizon),
        };
        self.held.drain(..count).collect()
    }

    /// Gives back a buffer, and its room in the queue.
    pub(crate) fn recycle(&self, dir: Dir, mut bytes: Vec<u8>) {
        let is_large = bytes.capacity() >= BUFFER;
        let cost = ENTRY + if bytes.len() > SMALL { bytes.capacity() } else { bytes.len() };
        self.shared.queued.fetch_sub(cost, Ordering::SeqCst);
        let unused = &self.unused[index(dir)];
        if is_large && unused.load(Ordering::Relaxed) < MOST_UNUSED {
            bytes.clear();
            unused.fetch_add(1, Ordering::Relaxed);
            let _ = self.recycle[index(dir)].send(bytes);
        }
    }

    /// Gives back the room of a fault.
    pub(crate) fn forget_fault(&self, note: &FaultNote) {
        self.shared.queued.fetch_sub(fault_cost(note), Ordering::SeqCst);
    }

    /// Waits for the next tick, or without bytes for the next event.
    pub(crate) fn wait(&mut self, is_idle: bool) {
        if !is_idle || !self.held.is_empty() {
            thread::park_timeout(TICK);
            return;
        }
        self.shared.is_asleep.store(true, Ordering::SeqCst);
        // An event that came before the store did not wake us.
        match self.receiver.try_recv() {
            Ok(event) => self.held.push(event),
            Err(_) => thread::park_timeout(LONGEST_SLEEP),
        }
        self.shared.is_asleep.store(false, Ordering::SeqCst);
    }
}
