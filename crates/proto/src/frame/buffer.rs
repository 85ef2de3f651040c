//! Input buffer: bytes that arrived and are not consumed yet.

/// Room that a read gets: the smallest at first, doubled while reads fill all of it.
const SMALLEST_READ: usize = 12 * 1024;
const LARGEST_READ: usize = 64 * 1024;

/// Contiguous bytes, with free room at the end for the next read.
///
/// It allocates ahead at most as many bytes as have arrived, or one read if that is more, and never
/// beyond the end of the current frame (F3).
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// The number of consumed bytes.
    done: usize,
    /// The length of `bytes` if the last read had filled all its room.
    full_at: usize,
    read_size: usize,
    /// True if the buffer shares memory with others that use it in turn.
    shares: bool,
    /// True if the memory in use was lent and has not grown since.
    is_lent: bool,
}

impl Buffer {
    /// The bytes that are not consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.done..]
    }

    /// Consumes bytes from the front, and returns their position for [`Buffer::dropped`].
    pub(super) fn drop_front(&mut self, count: usize) -> usize {
        let place = self.done;
        self.done = (self.done + count).min(self.bytes.len());
        place
    }

    /// Bytes that were just consumed. They stay in place until the next read.
    pub(super) fn dropped(&self, place: usize, length: usize) -> &[u8] {
        &self.bytes[place..place + length]
    }

    /// Room for a read. `expected` bounds the size of the current frame; `None` between frames.
    pub(super) fn space(&mut self, expected: Option<usize>) -> &mut Vec<u8> {
        if self.full_at > 0 && self.bytes.len() >= self.full_at {
            self.read_size = (self.read_size * 2).min(LARGEST_READ);
        }
        self.read_size = self.read_size.max(SMALLEST_READ);
        if self.done == self.bytes.len() {
            self.bytes.clear();
            self.done = 0;
        }
        let at_hand = self.bytes.len() - self.done;
        let expected = expected.unwrap_or(0);
        let wanted = match expected.saturating_sub(at_hand) {
            0 => self.read_size,
            missing if at_hand < self.read_size => missing.min(self.read_size),
            _ => next_step(expected, at_hand) - at_hand,
        };
        // Moving bytes pays only once most of the room is used. An empty buffer has nothing to
        // move.
        let least = if self.bytes.is_empty() { wanted } else { wanted.div_ceil(4) };
        if self.bytes.capacity() - self.bytes.len() < least {
            self.make_room(wanted);
        }
        self.full_at = self.bytes.capacity();
        &mut self.bytes
    }

    fn make_room(&mut self, wanted: usize) {
        self.bytes.drain(..self.done);
        self.done = 0;
        if self.bytes.capacity() - self.bytes.len() < wanted {
            self.bytes.reserve_exact(wanted);
            // The memory is new, so it is our own.
            self.is_lent = false;
        }
    }

    /// Uses `memory` if the buffer has none of its own; else returns it.
    pub(super) fn lend(&mut self, memory: Vec<u8>) -> Option<Vec<u8>> {
        self.shares = true;
        if self.bytes.capacity() > 0 {
            return Some(memory);
        }
        (self.bytes, self.done, self.is_lent) = (memory, 0, true);
        self.bytes.clear();
        None
    }

    /// Returns shared memory that no byte needs. A few unconsumed bytes move to memory of their
    /// own.
    pub(super) fn give_back(&mut self) -> Option<Vec<u8>> {
        let at_hand = self.bytes.len() - self.done;
        let is_lent = std::mem::take(&mut self.is_lent);
        // Moving many bytes would repeat with every read until their frame is whole.
        let are_few = at_hand == 0 || (is_lent && at_hand < self.bytes.capacity() / 4);
        if !self.shares || !are_few || self.bytes.capacity() == 0 {
            return None;
        }
        let rest = self.bytes().to_vec();
        (self.done, self.full_at) = (0, 0);
        Some(std::mem::replace(&mut self.bytes, rest))
    }

    /// Frees the memory that no byte uses.
    pub(super) fn shrink(&mut self) {
        self.bytes.drain(..self.done);
        self.bytes.shrink_to_fit();
        (self.done, self.full_at, self.read_size) = (0, 0, 0);
    }
}

/// The next target for reading a long frame: an eighth of it, a quarter, a half or the whole,
/// whichever is the first above `at_hand`.
fn next_step(whole: usize, at_hand: usize) -> usize {
    let mut step = whole;
    while step.div_ceil(2) > at_hand {
        step = step.div_ceil(2);
    }
    step
}

#[cfg(test)]
mod tests {
    use super::{Buffer, LARGEST_READ, SMALLEST_READ, next_step};

    /// The room that the next read gets.
    fn offered(buffer: &mut Buffer, expected: Option<usize>) -> usize {
        let space = buffer.space(expected);
        space.capacity() - space.len()
    }

    /// A read that fills all its room.
    fn fill(buffer: &mut Buffer, expected: Option<usize>) -> usize {
        let count = offered(buffer, expected);
        buffer.bytes.resize(buffer.bytes.capacity(), b'x');
        count
    }

    #[test]
    fn f3_read_size_grows_only_while_reads_fill_the_buffer() {
        let mut buffer = Buffer::default();
        assert_eq!(offered(&mut buffer, None), SMALLEST_READ);
        buffer.bytes.extend_from_slice(b"a little");
        buffer.drop_front(8);
        assert_eq!(offered(&mut buffer, None), SMALLEST_READ);
        let mut grows = Vec::new();
        for _ in 0..5 {
            grows.push(fill(&mut buffer, None));
            buffer.drop_front(usize::MAX / 2);
        }
        let twice = 2 * SMALLEST_READ;
        assert_eq!(grows, [SMALLEST_READ, twice, 2 * twice, LARGEST_READ, LARGEST_READ]);
    }

    #[test]
    fn f3_a_long_frame_is_read_in_steps_and_never_beyond_its_end() {
        // The smallest of a half, a quarter, an eighth … that is above the bytes at hand.
        let rows = [(80, 9, 10), (80, 10, 20), (80, 19, 20), (80, 39, 40), (80, 40, 80), (7, 3, 4)];
        for (whole, at_hand, expect) in rows {
            assert_eq!(next_step(whole, at_hand), expect, "{at_hand} of {whole}");
        }
        // Below the size of a read, a read gets that size or the missing bytes.
        let mut buffer = Buffer::default();
        assert_eq!(offered(&mut buffer, Some(100)), 100);
        let mut buffer = Buffer::default();
        assert_eq!(offered(&mut buffer, Some(1_000_000)), SMALLEST_READ);
        // Above it, reads go by steps: 15,625 is a sixty-fourth of the frame.
        buffer.bytes.resize(SMALLEST_READ, b'x');
        buffer.full_at = 0;
        assert_eq!(offered(&mut buffer, Some(1_000_000)), 15_625 - SMALLEST_READ);
        buffer.bytes.resize(600_000, b'x');
        buffer.bytes.shrink_to_fit();
        assert_eq!(offered(&mut buffer, Some(1_000_000)), 400_000);
        // Consumed bytes do not count.
        buffer.bytes.resize(700_000, b'x');
        buffer.bytes.shrink_to_fit();
        buffer.drop_front(500_000);
        buffer.full_at = 0;
        offered(&mut buffer, Some(300_000));
        assert_eq!((buffer.done, buffer.bytes.len()), (0, 200_000));
        assert_eq!(buffer.bytes.capacity(), 700_000, "there was room enough");
    }

    #[test]
    fn bytes_are_not_moved_before_most_of_the_room_is_used() {
        let mut buffer = Buffer::default();
        offered(&mut buffer, None);
        let quarter = SMALLEST_READ / 4;
        buffer.bytes.resize(SMALLEST_READ - quarter, b'x');
        buffer.drop_front(100);
        assert_eq!(offered(&mut buffer, None), quarter);
        assert_eq!(buffer.done, 100, "a quarter of the room is enough");
        buffer.bytes.push(b'x');
        offered(&mut buffer, None);
        assert_eq!(buffer.done, 0, "less room is not enough");
    }

    /// A buffer with lent memory of this capacity, filled by a read.
    fn lent(capacity: usize) -> Buffer {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.lend(Vec::with_capacity(capacity)), None);
        buffer.bytes.resize(capacity, b'x');
        buffer
    }

    #[test]
    fn p8_lent_memory_is_returned_when_few_bytes_remain() {
        const SIZE: usize = 20_000;
        let came_back = |mut buffer: Buffer, at_hand: usize| {
            buffer.drop_front(buffer.bytes.len() - at_hand);
            let memory = buffer.give_back().map(|memory| memory.capacity());
            assert_eq!(buffer.bytes().len(), at_hand, "unconsumed bytes stay");
            (memory, buffer)
        };
        for few in [0, 1, SIZE / 4 - 1] {
            let (memory, mut buffer) = came_back(lent(SIZE), few);
            assert_eq!(memory, Some(SIZE), "{few} bytes");
            assert_eq!((buffer.done, buffer.full_at), (0, 0));
            // It accepts memory again only if it has none of its own.
            let again = buffer.lend(Vec::with_capacity(SIZE)).map(|memory| memory.capacity());
            assert_eq!(again, (few > 0).then_some(SIZE));
        }
        for many in [SIZE / 4, SIZE] {
            let (memory, mut buffer) = came_back(lent(SIZE), many);
            assert_eq!(memory, None, "{many} bytes");
            // From now on the memory is its own, however few bytes remain. Once empty, it is shared
            // again.
            buffer.drop_front(many - 1);
            assert_eq!(buffer.give_back(), None);
            buffer.drop_front(1);
            assert_eq!(buffer.give_back().map(|memory| memory.capacity()), Some(SIZE));
            assert_eq!(buffer.give_back(), None, "there is nothing left");
        }
        // Lent memory may hold bytes of another buffer.
        let mut buffer = Buffer::default();
        assert_eq!(buffer.lend(b"of another".to_vec()), None);
        assert_eq!(buffer.bytes(), b"");
    }

    #[test]
    fn p8_memory_that_was_not_lent_or_has_grown_is_not_returned() {
        let mut buffer = Buffer::default();
        fill(&mut buffer, None);
        buffer.drop_front(usize::MAX / 2);
        assert_eq!(buffer.give_back(), None, "the memory was not lent");
        // The buffer has grown, so the memory is its own while a byte is unconsumed.
        let mut buffer = lent(1000);
        offered(&mut buffer, None);
        buffer.drop_front(999);
        assert_eq!(buffer.give_back(), None);
        // Moving bytes makes enough room here, so the memory does not grow.
        let mut buffer = lent(1000);
        buffer.drop_front(900);
        assert_eq!(offered(&mut buffer, Some(1000)), 900);
        assert_eq!(buffer.give_back().map(|memory| memory.capacity()), Some(1000));
    }

    #[test]
    fn memory_lent_again_gets_reads_of_the_smallest_size() {
        let mut buffer = Buffer::default();
        for _ in 0..5 {
            assert_eq!(buffer.lend(Vec::with_capacity(2 * LARGEST_READ)), None);
            buffer.space(None).extend_from_slice(b"a little");
            assert_eq!(buffer.read_size, SMALLEST_READ);
            buffer.drop_front(8);
            assert!(buffer.give_back().is_some());
        }
    }
}
