//! The bytes of one direction that are not written yet: a queue that knows when each is due.
//!
//! | entry | leaves the queue |
//! |---|---|
//! | message | when it is due, after all entries before it |
//! | message with a pace | in pieces, with pauses between them; as one piece if the transport has messages |
//! | message that is overtaken | enters the queue after the next messages, after its time, or at the end |
//! | stall | at its time, after all entries before it |
//! | end, half-close, cut, kill | after all entries before it |
//!
//! A stall without a time ends with the stream, and nothing behind it is ever written. So nothing behind it is kept
//! either, and there is always room: the sender is read until its end. Over TCP this is the only way to notice the
//! end, because it stands behind the bytes that do not fit into the receiver's buffer.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that may wait. With more, the sender is not read from, as if its receiver were slow.
pub(super) const MOST_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// The memory that a message takes besides its bytes.
const ENTRY_BYTES: usize = 96;

/// The time of a stall without end.
pub(super) const NEVER: u64 = u64::MAX;

/// Pieces of a throttled message in a second.
const PIECES: u64 = 20;

/// The time after another one. It always comes.
pub(super) fn later(now: u64, time: u64) -> u64 {
    now.saturating_add(time).min(NEVER - 1)
}

/// How the bytes of a message are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WritePace {
    Whole,
    Slices {
        size: usize,
        pause: u64,
    },
    /// Bytes in a second.
    Rate(u64),
}

impl WritePace {
    /// The first piece of this many bytes, and the time until the next one.
    fn piece(self, length: usize) -> (usize, u64) {
        match self {
            WritePace::Whole => (length, 0),
            WritePace::Slices { size, pause } if size < length => (size, pause),
            WritePace::Slices { .. } => (length, 0),
            WritePace::Rate(rate) => {
                let size = usize::try_from((rate / PIECES).max(1)).unwrap_or(length).min(length);
                let time = u128::from(size as u64) * 1_000_000 / u128::from(rate.max(1));
                (size, u64::try_from(time).unwrap_or(NEVER))
            }
        }
    }

    /// The time from the first to the last piece.
    fn duration(self, length: usize) -> u64 {
        let (size, time) = self.piece(length);
        let pieces = match self {
            WritePace::Rate(_) => length.div_ceil(size.max(1)),
            _ => length.div_ceil(size.max(1)).saturating_sub(1),
        };
        time.saturating_mul(pieces as u64)
    }
}

/// The next thing to do for a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultStep {
    /// Write these bytes.
    Write(Vec<u8>),
    /// Nothing, until this time or until something arrives.
    Wait(Option<u64>),
    /// Close the stream to the receiver. Read and discard what the sender still writes.
    HalfClose,
    /// Close both directions.
    Cut,
    /// Send this signal to the server.
    Kill(i32),
    /// Everything was written, and the sender has ended its stream.
    End,
}

#[derive(Debug)]
enum Queued {
    Bytes {
        bytes: Arc<[u8]>,
        from: usize,
        due: u64,
        pace: WritePace,
        is_own: bool,
    },
    /// Everything behind it waits until this time.
    Stall(u64),
    Mark(FaultStep),
}

/// A message that others may overtake.
#[derive(Debug)]
struct Overtaken {
    /// Copies share it.
    bytes: Arc<[u8]>,
    pace: WritePace,
    /// Messages that may still go first.
    left: u32,
    until: u64,
    is_own: bool,
}

/// The unwritten bytes of one direction.
#[derive(Debug, Default)]
pub(super) struct FaultLine {
    queue: VecDeque<Queued>,
    overtaken: Vec<Overtaken>,
    /// Their memory.
    waiting: usize,
    /// The part of it that messages of ours take.
    own: usize,
    /// A stall without a time is in the queue.
    is_stalled: bool,
    /// The time before which the next piece may not be written.
    free_at: u64,
    /// The transport has messages, so there are no pieces.
    pub(super) has_messages: bool,
}

impl FaultLine {
    /// Adds a message. `is_own`: it is not of the sender of this direction.
    pub(super) fn push(
        &mut self,
        bytes: impl Into<Arc<[u8]>>,
        due: u64,
        pace: WritePace,
        is_own: bool,
    ) {
        self.add(bytes.into(), due, pace, is_own);
        for entry in &mut self.overtaken {
            entry.left = entry.left.saturating_sub(1);
        }
        self.release(due, |entry| entry.left == 0);
    }

    /// Adds a message that the next `count` ones may overtake, but not later than `until`.
    pub(super) fn hold(
        &mut self,
        bytes: impl Into<Arc<[u8]>>,
        pace: WritePace,
        count: u32,
        until: u64,
        is_own: bool,
    ) {
        if self.is_stalled {
            return;
        }
        let bytes = bytes.into();
        self.count(bytes.len(), is_own);
        self.overtaken.push(Overtaken { bytes, pace, left: count, until, is_own });
        if self.waiting >= MOST_WAITING_BYTES {
            // Nothing that could overtake it would be read.
            self.release(0, |_| true);
        }
    }

    /// Adds an end, a cut or a signal. It ends a stall that has no end of its own.
    pub(super) fn mark(&mut self, step: FaultStep) {
        self.release(0, |_| true);
        let endless = self.queue.iter().position(|entry| matches!(entry, Queued::Stall(NEVER)));
        let lost = self.queue.split_off(endless.unwrap_or(self.queue.len()));
        for entry in lost {
            if let Queued::Bytes { bytes, is_own, .. } = entry {
                self.uncount(bytes.len(), is_own);
            }
        }
        self.is_stalled = false;
        self.queue.push_back(Queued::Mark(step));
    }

    /// Holds everything that follows until this time.
    pub(super) fn stall(&mut self, until: u64) {
        self.is_stalled |= until == NEVER;
        self.queue.push_back(Queued::Stall(until));
    }

    /// The stream of the sender has ended.
    pub(super) fn finish(&mut self) {
        self.mark(FaultStep::End);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.overtaken.clear();
        (self.waiting, self.own, self.is_stalled) = (0, 0, false);
    }

    pub(super) fn has_room(&self) -> bool {
        self.is_stalled || self.waiting < MOST_WAITING_BYTES
    }

    pub(super) fn has_room_for_own(&self) -> bool {
        self.is_stalled || self.own < MOST_WAITING_BYTES
    }

    /// The next step at this time.
    pub(super) fn poll(&mut self, now: u64) -> FaultStep {
        self.release(now, |entry| entry.until <= now);
        let overtaken_at = self.overtaken.iter().map(|entry| entry.until).min();
        while matches!(self.queue.front(), Some(Queued::Stall(until)) if *until <= now) {
            self.queue.pop_front();
        }
        let (ready_at, is_mark) = match self.queue.front() {
            None => (None, false),
            Some(Queued::Bytes { due, .. }) => (Some((*due).max(self.free_at)), false),
            Some(Queued::Stall(until)) => (Some(*until), false),
            Some(Queued::Mark(_)) => (Some(self.free_at), true),
        };
        let Some(ready_at) = ready_at.filter(|ready_at| *ready_at <= now) else {
            let next = [ready_at, overtaken_at].into_iter().flatten().min();
            return FaultStep::Wait(next.filter(|next| *next != NEVER));
        };
        if is_mark {
            match self.queue.pop_front() {
                Some(Queued::Mark(step)) => step,
                _ => FaultStep::Wait(None),
            }
        } else {
            self.write(now.max(ready_at))
        }
    }

    /// Takes the next piece of the first entry.
    fn write(&mut self, now: u64) -> FaultStep {
        let Some(Queued::Bytes { bytes, from, due, pace, is_own }) = self.queue.front_mut() else {
            return FaultStep::Wait(None);
        };
        if self.has_messages && *pace != WritePace::Whole {
            *due = later(now, pace.duration(bytes.len()));
            *pace = WritePace::Whole;
            if *due > now {
                return FaultStep::Wait(Some(*due));
            }
        }
        let (size, pause) = pace.piece(bytes.len() - *from);
        let piece = bytes[*from..*from + size].to_vec();
        *from += size;
        let (is_written, length, is_own) = (*from >= bytes.len(), bytes.len(), *is_own);
        self.free_at = later(now, pause);
        if is_written {
            self.queue.pop_front();
            self.uncount(length, is_own);
        }
        FaultStep::Write(piece)
    }

    fn add(&mut self, bytes: Arc<[u8]>, due: u64, pace: WritePace, is_own: bool) {
        if !bytes.is_empty() && !self.is_stalled {
            self.count(bytes.len(), is_own);
            self.queue.push_back(Queued::Bytes { bytes, from: 0, due, pace, is_own });
        }
    }

    fn count(&mut self, bytes: usize, is_own: bool) {
        self.waiting += bytes + ENTRY_BYTES;
        self.own += if is_own { bytes + ENTRY_BYTES } else { 0 };
    }

    fn uncount(&mut self, bytes: usize, is_own: bool) {
        self.waiting -= bytes + ENTRY_BYTES;
        self.own -= if is_own { bytes + ENTRY_BYTES } else { 0 };
    }

    /// Moves overtaken messages into the queue.
    fn release(&mut self, due: u64, is_free: impl Fn(&Overtaken) -> bool) {
        let mut place = 0;
        while place < self.overtaken.len() {
            if is_free(&self.overtaken[place]) {
                let Overtaken { bytes, pace, is_own, .. } = self.overtaken.remove(place);
                self.queue.push_back(Queued::Bytes { bytes, from: 0, due, pace, is_own });
            } else {
                place += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is written until nothing is left, with its time.
    fn drain(line: &mut FaultLine, mut now: u64) -> Vec<(u64, String)> {
        let mut written = Vec::new();
        loop {
            match line.poll(now) {
                FaultStep::Write(bytes) => {
                    written.push((now, String::from_utf8_lossy(&bytes).into_owned()));
                }
                FaultStep::Wait(Some(next)) => {
                    assert!(next > now, "it waits for {next} at {now}");
                    now = next;
                }
                FaultStep::Wait(None) => return written,
                other => written.push((now, format!("{other:?}"))),
            }
        }
    }

    fn check(push: impl FnOnce(&mut FaultLine), expected: &[(u64, &str)]) {
        let mut line = FaultLine::default();
        push(&mut line);
        let written = drain(&mut line, 0);
        let written: Vec<_> = written.iter().map(|(at, text)| (*at, &**text)).collect();
        assert_eq!(written, expected);
        assert_eq!((line.waiting, line.own), (0, 0));
    }

    fn push(line: &mut FaultLine, text: &str, due: u64) {
        line.push(text.as_bytes(), due, WritePace::Whole, false);
    }

    #[test]
    fn x3_messages_wait_until_they_are_due_and_keep_their_order() {
        check(
            |line| {
                push(line, "late", 100);
                push(line, "soon", 5);
                line.finish();
            },
            &[(100, "late"), (100, "soon"), (100, "End")],
        );
    }

    #[test]
    fn x3_pieces_have_pauses_and_a_rate_holds_across_messages() {
        check(
            |line| {
                line.push(*b"abcde", 0, WritePace::Slices { size: 2, pause: 10 }, false);
                push(line, "x", 0);
            },
            &[(0, "ab"), (10, "cd"), (20, "e"), (20, "x")],
        );
        check(
            |line| {
                line.push(*b"abc", 0, WritePace::Rate(20), false);
                line.push(*b"d", 0, WritePace::Rate(20), true);
                push(line, "x", 0);
            },
            &[(0, "a"), (50_000, "b"), (100_000, "c"), (150_000, "d"), (200_000, "x")],
        );
        check(
            |line| {
                line.has_messages = true;
                line.push(*b"abc", 0, WritePace::Rate(20), false);
                line.push(*b"abcde", 0, WritePace::Slices { size: 2, pause: 10 }, false);
            },
            &[(150_000, "abc"), (150_020, "abcde")],
        );
    }

    #[test]
    fn x3_overtaken_message_comes_after_the_next_after_its_time_or_at_the_end() {
        let hold = |line: &mut FaultLine, text: &str, count| {
            line.hold(text.as_bytes(), WritePace::Whole, count, 1_000, false);
        };
        check(
            |line| {
                hold(line, "first", 2);
                push(line, "a", 0);
                push(line, "b", 0);
                push(line, "c", 0);
            },
            &[(0, "a"), (0, "b"), (0, "first"), (0, "c")],
        );
        check(
            |line| {
                hold(line, "first", 2);
                push(line, "a", 0);
            },
            &[(0, "a"), (1_000, "first")],
        );
        check(
            |line| {
                hold(line, "first", 1);
                line.finish();
            },
            &[(0, "first"), (0, "End")],
        );
    }

    #[test]
    fn x3_stall_holds_everything_and_one_without_a_time_ends_with_the_stream() {
        check(
            |line| {
                push(line, "a", 0);
                line.stall(500);
                push(line, "b", 0);
                line.mark(FaultStep::HalfClose);
            },
            &[(0, "a"), (500, "b"), (500, "HalfClose")],
        );
        let mut line = FaultLine::default();
        push(&mut line, "before", 5);
        line.stall(NEVER);
        push(&mut line, "lost", 0);
        line.hold(*b"lost too", WritePace::Whole, 3, NEVER, true);
        assert!(line.is_stalled);
        assert_eq!(line.poll(0), FaultStep::Wait(Some(5)));
        line.finish();
        assert!(!line.is_stalled);
        assert_eq!(drain(&mut line, 0), [(5, "before".to_owned()), (5, "End".to_owned())]);
        assert_eq!((line.waiting, line.own), (0, 0));
        let mut line = FaultLine::default();
        line.stall(NEVER);
        assert_eq!(line.poll(NEVER - 1), FaultStep::Wait(None));
    }

    #[test]
    fn x3_x4_endless_stall_keeps_nothing_and_always_has_room() {
        let block = vec![b'x'; MOST_WAITING_BYTES];
        let mut line = FaultLine::default();
        line.push(block.clone(), 5, WritePace::Whole, true);
        assert!(!line.has_room() && !line.has_room_for_own());
        line.stall(NEVER);
        let before = line.waiting;
        for is_own in [false, true] {
            assert!(line.has_room() && line.has_room_for_own());
            line.push(block.clone(), 0, WritePace::Whole, is_own);
            line.hold(block.clone(), WritePace::Whole, 3, NEVER, is_own);
        }
        assert_eq!(line.waiting, before);
        line.mark(FaultStep::Kill(9));
        assert!(!line.has_room());
        assert_eq!(drain(&mut line, 5).len(), 2);
        assert_eq!((line.waiting, line.own), (0, 0));
    }

    #[test]
    fn x4_waiting_bytes_are_bounded() {
        let mut line = FaultLine::default();
        let block = vec![b'x'; 1024 * 1024];
        let mut count = 0;
        while line.has_room() {
            line.hold(block.clone(), WritePace::Whole, 1_000, NEVER - 1, false);
            count += 1;
            assert!(count <= 4, "{count} blocks");
        }
        // It would never be overtaken, because nothing else is read.
        assert!(line.overtaken.is_empty() && !line.has_room());
        assert_eq!(drain(&mut line, 0).len(), 4);
        assert!(line.has_room() && line.has_room_for_own());
        line.push(block.repeat(4), 0, WritePace::Whole, true);
        assert!(!line.has_room_for_own());
        line.clear();
        assert!(line.has_room() && line.has_room_for_own());
    }
}
