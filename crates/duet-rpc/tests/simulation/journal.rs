//! Journal: all events of a simulation, in their order and with their time. The oracle reads it, the report
//! of a failed run shows it, and a second run of the seed must produce the same journal.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use duet_rpc::EventStream;
use tokio::time::Instant;

use crate::plan::End;

/// An event on one side. The number of the side is its first field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    // The link took this many bytes from a side, or gave them to it.
    Wrote(usize, usize),
    Read(usize, usize),
    ReadEnd(usize),
    ReadFailed(usize),
    WriteFailed(usize),
    /// Its writer was closed, its reader was dropped.
    Shut(usize),
    StoppedReading(usize),
    /// The link took the last byte of the message with this number from the side, or the byte reached the
    /// other side.
    Sent(usize, usize),
    Arrived(usize, usize),
    /// The last byte of this injected piece reached it.
    Handed(usize, usize),
    Mishap(&'static str),
    // The peers.
    Begins {
        side: usize,
        call: usize,
    },
    Ends {
        side: usize,
        call: usize,
        end: Option<End>,
    },
    Told {
        side: usize,
        number: u64,
        is_sent: bool,
    },
    /// A notification of this side timed out, because there was no room for it.
    NoRoom(usize),
    Starts {
        side: usize,
        number: u64,
    },
    Stops {
        side: usize,
        number: u64,
    },
    /// A context that outlived its handler was cancelled, or its connection ended.
    Released {
        side: usize,
        number: u64,
    },
    /// Nothing is pending. The following events only show that the connection still works.
    Quiet,
    Closes(usize),
    State(usize, &'static str),
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) side: usize,
    pub(crate) id: String,
    pub(crate) number: u64,
    pub(crate) begun: u64,
    pub(crate) timeout: u64,
    /// The total, if progress restarts the timeout.
    pub(crate) total: Option<u64>,
    /// `true` if the call was polled once and never again, so that nobody saw its answer.
    pub(crate) is_parked: bool,
    /// The time and kind of its end. The kind is `None` if the call was dropped.
    pub(crate) ended: Option<(u64, Option<End>)>,
}

/// A message that went over the link.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) body: Vec<u8>,
    pub(crate) sent: u64,
    /// Its end, as an offset in all bytes that the side has written.
    pub(crate) end: usize,
    /// The times at which its first and its last byte reached the other side.
    pub(crate) first_arrived: Option<u64>,
    pub(crate) arrived: Option<u64>,
}

/// A stream of events that a side has made.
pub(crate) struct Emitted {
    pub(crate) side: usize,
    /// The topic, as JSON.
    pub(crate) topic: String,
    /// The number of events that it took.
    pub(crate) taken: u64,
    pub(crate) stream: EventStream,
}

pub(crate) struct Book {
    started: Instant,
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) calls: Vec<Call>,
    pub(crate) streams: Vec<Emitted>,
    /// The messages that each side has sent.
    pub(crate) frames: [Vec<Frame>; 2],
    /// The bytes that reached each side.
    pub(crate) bytes: [Vec<u8>; 2],
    /// Violations so far.
    pub(crate) objections: Vec<String>,
}

/// The journal of one simulation, shared by all of its parts.
#[derive(Clone)]
pub(crate) struct Journal(Arc<Mutex<Book>>);

impl Journal {
    pub(crate) fn new() -> Self {
        Journal(Arc::new(Mutex::new(Book {
            started: Instant::now(),
            events: Vec::new(),
            calls: Vec::new(),
            streams: Vec::new(),
            frames: Default::default(),
            bytes: Default::default(),
            objections: Vec::new(),
        })))
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().expect("no writer panics")
    }

    pub(crate) fn note(&self, event: Event) {
        self.book().note(event);
    }

    pub(crate) fn object(&self, objection: String) {
        self.book().objections.push(objection);
    }

    /// Records a new call; returns its index in the journal.
    pub(crate) fn begin(&self, call: Call) -> usize {
        let mut book = self.book();
        let (side, place) = (call.side, book.calls.len());
        let begun = book.now();
        book.calls.push(Call { begun, ..call });
        book.note(Event::Begins { side, call: place });
        place
    }

    pub(crate) fn end(&self, call: usize, end: Option<End>) {
        let mut book = self.book();
        let now = book.now();
        let side = book.calls[call].side;
        if let Some(before) = book.calls[call].ended.replace((now, end.clone())) {
            let objection = format!("call {call} ended before: {before:?}");
            book.objections.push(objection);
        }
        book.note(Event::Ends { side, call, end });
    }
}

impl Book {
    /// The time in milliseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub(crate) fn note(&mut self, event: Event) {
        self.events.push((self.now(), event));
    }

    /// A digest of all events and their times. Equal runs have equal digests.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.events, &self.bytes, &self.objections).hash(&mut hasher);
        hasher.finish()
    }

    /// The last events, one per line.
    pub(crate) fn tail(&self, count: usize) -> String {
        let first = self.events.len().saturating_sub(count);
        let line = |(at, event): &(u64, Event)| match event {
            Event::Sent(side, n) | Event::Arrived(side, n) => {
                let from = if matches!(event, Event::Sent(..)) { *side } else { 1 - *side };
                let body = self.frames[from].get(*n).map(|frame| &*frame.body).unwrap_or_default();
                let body = &body[..body.len().min(160)];
                format!("{at:>7} {event:?} {}\n", String::from_utf8_lossy(body))
            }
            Event::Begins { call, .. } => format!("{at:>7} {event:?} {:?}\n", self.calls[*call]),
            _ => format!("{at:>7} {event:?}\n"),
        };
        self.events[first..].iter().map(line).collect()
    }
}
