//! One direction of the link.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duet_rpc::proto::frame::Framing;
use tokio::time::Instant;

use crate::cutter::Cutter;
use crate::random::Random;
use crate::world::WayTerms;

/// One direction: from the side of this number to the other.
pub(super) struct Way {
    pub(super) terms: WayTerms,
    pub(super) random: Random,
    pub(super) cutter: Cutter,
    pub(super) under_way: VecDeque<Parcel>,
    /// Bytes that were written and not flushed.
    pub(super) held: VecDeque<Parcel>,
    /// The number of bytes in transit or not flushed.
    pub(super) load: usize,
    /// The number of bytes that one side has written, and that the other side has read.
    pub(super) written: usize,
    pub(super) read: usize,
    /// The time at which the first byte of the unfinished message was read.
    pub(super) first_read: Option<u64>,
    pub(super) latest: Instant,
    /// The time since which there is room for the rest of the unfinished message.
    pub(super) room_since: Option<Instant>,
    /// The end of the stream, after all bytes in transit.
    pub(super) end: Option<WayEnd>,
    pub(super) cannot_write: Option<io::ErrorKind>,
    pub(super) is_silent: bool,
    /// Pieces to inject at the end of a message.
    pub(super) handed: VecDeque<(usize, Vec<u8>)>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

pub(super) struct Parcel {
    pub(super) ready: Instant,
    pub(super) bytes: VecDeque<u8>,
    /// The number of the piece, if it is injected.
    pub(super) piece: Option<usize>,
}

#[derive(Clone, Copy)]
pub(super) enum WayEnd {
    Eof,
    Failed(io::ErrorKind),
}

impl Way {
    pub(super) fn new(terms: &WayTerms, random: Random, framing: Framing) -> Self {
        Way {
            terms: terms.clone(),
            random,
            cutter: Cutter::new(framing),
            under_way: VecDeque::new(),
            held: VecDeque::new(),
            load: 0,
            written: 0,
            read: 0,
            first_read: None,
            latest: Instant::now(),
            room_since: None,
            end: None,
            cannot_write: None,
            is_silent: false,
            handed: VecDeque::new(),
            reader: None,
            writer: None,
        }
    }

    /// Puts bytes in transit.
    pub(super) fn send(&mut self, bytes: VecDeque<u8>, piece: Option<usize>) {
        self.load += bytes.len();
        let delay = match self.random.once_in(self.terms.delayed) {
            true => self.random.below(self.terms.delay + 1),
            false => 0,
        };
        let ready = Instant::now() + Duration::from_millis(delay);
        self.held.push_back(Parcel { ready, bytes, piece });
        if !self.terms.buffers || self.load >= self.terms.room {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        // Wake only a task that has something to do: it might wake another task in turn.
        if self.held.is_empty() {
            return;
        }
        for mut parcel in self.held.drain(..) {
            self.latest = self.latest.max(parcel.ready);
            parcel.ready = self.latest;
            if !parcel.bytes.is_empty() {
                self.under_way.push_back(parcel);
            }
        }
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    pub(super) fn take_handed(&mut self) {
        if self.cutter.is_between() && self.end.is_none() {
            while let Some((piece, bytes)) = self.handed.pop_front() {
                self.send(bytes.into(), Some(piece));
                self.flush();
            }
        }
    }

    /// Records the time at which there is room. A peer must then continue its unfinished message.
    pub(super) fn look_at_room(&mut self) {
        let goes_on = !self.cutter.is_between() && self.load < self.terms.room;
        self.room_since = goes_on.then(|| self.room_since.unwrap_or_else(Instant::now));
    }

    pub(super) fn lose_all(&mut self) {
        self.under_way.clear();
        self.held.clear();
        self.load = 0;
    }

    pub(super) fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }

    /// Makes the caller retry without need, immediately or later.
    pub(super) fn hesitates(&mut self, cx: &mut Context<'_>) -> Option<Poll<io::Error>> {
        if self.random.once_in(self.terms.interrupted) {
            return Some(Poll::Ready(io::ErrorKind::Interrupted.into()));
        }
        if self.random.once_in(self.terms.hesitant) {
            cx.waker().wake_by_ref();
            return Some(Poll::Pending);
        }
        None
    }
}
