//! A bad link between two peers. It promises only that bytes stay in order.
//!
//! It splits data at any byte, delays it, accepts only parts of a write, has little room, stalls, and breaks.
//! All of that comes from the seed. The link has no task and no clock of its own.

mod ends;
mod way;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::Instant;

pub(crate) use self::ends::{Reader, Writer};
use self::way::{Way, WayEnd};
use crate::journal::{Event, Frame, Journal};
use crate::random::Random;
use crate::world::{Lie, Mishap, WayTerms, When, World};

/// Maximum number of polls. Every correct run needs fewer.
const TOO_OFTEN: usize = 1_000_000;

#[derive(Clone)]
pub(crate) struct Link(Arc<Mutex<Inner>>);

struct Inner {
    started: Instant,
    journal: Journal,
    ways: [Way; 2],
    mishap: Option<(usize, usize, Mishap)>,
    lie: Option<Lie>,
    /// The number of polls.
    asked: usize,
    /// Maximum number of bytes that each side may have waiting to be written.
    most_waiting: [usize; 2],
}

impl Link {
    pub(crate) fn new(world: &World, journal: &Journal, most_waiting: [usize; 2]) -> Self {
        let framing = world.framing.expect("this link carries bytes");
        let mut random = Random::new(!world.seed);
        let started = Instant::now();
        let way = |terms: &WayTerms| Way::new(terms, random.fork(), framing);
        let ways = world.ways.each_ref().map(way);
        let mishap = match world.mishap {
            Some((When::Byte(side, byte), mishap)) => Some((side, byte, mishap)),
            _ => None,
        };
        let (journal, lie) = (journal.clone(), world.lie);
        Link(Arc::new(Mutex::new(Inner {
            started,
            journal,
            ways,
            mishap,
            lie,
            asked: 0,
            most_waiting,
        })))
    }

    pub(crate) fn ends_of(&self, side: usize) -> (Reader, Writer) {
        let link = self.clone();
        let reader = Reader { link: link.clone(), side, sleep: None };
        (reader, Writer { link, side, is_shut: false })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("nothing here panics")
    }

    pub(crate) fn break_down(&self, mishap: Mishap) {
        self.inner().break_down(mishap);
    }

    /// Returns `true` if no bytes are in transit.
    pub(crate) fn is_idle(&self) -> bool {
        let is_idle = |way: &Way| way.load == 0 && way.handed.is_empty() && way.cutter.is_between();
        self.inner().ways.iter().all(is_idle)
    }

    /// Injects a piece: now, or when the message that is being written ends.
    pub(crate) fn hand_over(&self, to: usize, piece: usize, bytes: Vec<u8>) {
        let mut inner = self.inner();
        inner.ways[1 - to].handed.push_back((piece, bytes));
        inner.ways[1 - to].take_handed();
    }
}

impl Inner {
    fn break_down(&mut self, mishap: Mishap) {
        self.mishap = None;
        let [one, two] = &mut self.ways;
        let name = match mishap {
            Mishap::Ends(side) => {
                self.ways[side].end.get_or_insert(WayEnd::Eof);
                self.ways[side].cannot_write = Some(io::ErrorKind::BrokenPipe);
                "ends"
            }
            Mishap::Reset => {
                for way in [one, two] {
                    way.lose_all();
                    way.end = Some(WayEnd::Failed(io::ErrorKind::ConnectionReset));
                    way.cannot_write = Some(io::ErrorKind::ConnectionReset);
                }
                "reset"
            }
            Mishap::CannotRead(side) => {
                self.ways[1 - side].end = Some(WayEnd::Failed(io::ErrorKind::TimedOut));
                "cannot read"
            }
            Mishap::CannotWrite(side) => {
                self.ways[side].cannot_write = Some(io::ErrorKind::BrokenPipe);
                "cannot write"
            }
            Mishap::Silence(side) => {
                self.ways[side].is_silent = true;
                "silence"
            }
            Mishap::Dead => {
                one.is_silent = true;
                two.is_silent = true;
                "dead"
            }
        };
        self.journal.note(Event::Mishap(name));
        for way in &mut self.ways {
            way.wake();
        }
    }

    /// Counts a poll. If a peer polls the link endlessly while the clock does not move, the link breaks.
    fn ask(&mut self) {
        self.asked += 1;
        if self.asked == TOO_OFTEN {
            self.journal.object("a peer spins".to_owned());
            self.break_down(Mishap::Reset);
        }
    }

    /// Takes some bytes from a side. Returns 0 if it takes none now.
    fn take(&mut self, side: usize, bytes: &[u8]) -> usize {
        let limit = match self.mishap {
            Some((by, byte, _)) if by == side => byte - self.ways[side].written,
            _ => usize::MAX,
        };
        let way = &mut self.ways[side];
        if let Some(since) = way.room_since
            && since < Instant::now()
        {
            let late = since.elapsed();
            self.journal.object(format!("side {side} continues {late:?} after there was room"));
        }
        let room = way.terms.room.saturating_sub(way.load);
        let most = 1 + way.random.below(way.terms.most_written) as usize;
        let bytes = &bytes[..bytes.len().min(room).min(most).min(limit)];
        let (mut taken, mut parcel) = (0, Vec::new());
        let mut book = self.journal.book();
        for &byte in bytes {
            let place = way.written;
            way.written += 1;
            taken += 1;
            match self.lie {
                Some(Lie::LosesByte(by, lost)) if (by, lost) == (side, place) => {}
                Some(Lie::ChangesByte(by, changed)) if (by, changed) == (side, place) => {
                    parcel.push(byte ^ 1);
                }
                _ => parcel.push(byte),
            }
            let Some(body) = way.cutter.take(byte) else { continue };
            let sent = book.now();
            let number = book.frames[side].len();
            match body {
                Err(wrong) => book.objections.push(format!("side {side} wrote {wrong}")),
                Ok(body) => {
                    let end = way.written;
                    let (first_arrived, arrived) = (way.first_read.take(), None);
                    let frame = Frame { body, sent, end, first_arrived, arrived };
                    book.frames[side].push(frame);
                    book.note(Event::Sent(side, number));
                }
            }
            let begins = match number {
                0 => 0,
                _ => book.frames[side].get(number - 1).map_or(0, |frame| frame.end),
            };
            let length = (way.written - begins).min(parcel.len());
            match self.lie {
                Some(Lie::RepeatsMessage(by, n)) if (by, n) == (side, number) => {
                    parcel.extend_from_within(parcel.len() - length..);
                }
                Some(Lie::LosesMessage(by, n)) if (by, n) == (side, number) => {
                    parcel.truncate(parcel.len() - length);
                }
                _ => {}
            }
            if !way.handed.is_empty() {
                break;
            }
        }
        if taken > 0 {
            book.note(Event::Wrote(side, taken));
            drop(book);
            way.send(parcel.into(), None);
            way.take_handed();
        }
        way.look_at_room();
        taken
    }

    /// Gives bytes to a side; `None` if there are none now. Also returns the time of the next bytes, if it is
    /// known.
    fn give(
        &mut self,
        side: usize,
        buf: &mut ReadBuf<'_>,
    ) -> Result<io::Result<()>, Option<Instant>> {
        let way = &mut self.ways[1 - side];
        if way.is_silent {
            return Err(None);
        }
        let Some(first) = way.under_way.front_mut() else {
            return match way.end {
                Some(WayEnd::Eof) => {
                    let mut book = self.journal.book();
                    if let Some(body) = way.cutter.take_rest() {
                        let (at, from) = (book.now(), 1 - side);
                        let n = book.frames[from].len();
                        book.frames[from].push(Frame {
                            body,
                            sent: at,
                            end: way.written,
                            first_arrived: way.first_read,
                            arrived: Some(at),
                        });
                        book.note(Event::Arrived(side, n));
                    }
                    book.note(Event::ReadEnd(side));
                    Ok(Ok(()))
                }
                Some(WayEnd::Failed(kind)) => {
                    self.journal.note(Event::ReadFailed(side));
                    Ok(Err(kind.into()))
                }
                None => Err(None),
            };
        };
        let now = Instant::now();
        let at = (now - self.started).as_millis() as u64;
        let stall = way.terms.stalls.iter().filter(|(from, to)| (*from..*to).contains(&at));
        let stalled_until = stall.map(|(_, to)| self.started + Duration::from_millis(*to)).max();
        let ready = first.ready.max(stalled_until.unwrap_or(first.ready));
        if ready > now {
            return Err(Some(ready));
        }
        let most = 1 + way.random.below(way.terms.most_read) as usize;
        let count = first.bytes.len().min(most).min(buf.remaining());
        let (piece, is_last) = (first.piece, first.bytes.len() == count);
        let mut book = self.journal.book();
        for byte in first.bytes.drain(..count) {
            buf.put_slice(&[byte]);
            book.bytes[side].push(byte);
        }
        book.note(Event::Read(side, count));
        if is_last {
            way.under_way.pop_front();
        }
        way.load = way.load.saturating_sub(count);
        match piece {
            Some(piece) if is_last => book.note(Event::Handed(side, piece)),
            Some(_) => {}
            None => {
                let before = way.read;
                way.read += count;
                let from = 1 - side;
                let unread = book.frames[from].partition_point(|frame| frame.end <= before);
                for n in unread..book.frames[from].len() {
                    let begins = n.checked_sub(1).map_or(0, |n| book.frames[from][n].end);
                    if way.read > begins {
                        book.frames[from][n].first_arrived.get_or_insert(at);
                    }
                    if way.read < book.frames[from][n].end {
                        break;
                    }
                    book.frames[from][n].arrived = Some(at);
                    book.note(Event::Arrived(side, n));
                }
                if way.read > book.frames[from].last().map_or(0, |frame| frame.end) {
                    way.first_read.get_or_insert(at);
                }
            }
        }
        way.look_at_room();
        if let Some(writer) = way.writer.take() {
            writer.wake();
        }
        Ok(Ok(()))
    }
}
