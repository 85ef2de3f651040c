//! The bytes that arrived and are not done with.

/// A read is offered this much at first, and more while reads take all that they are offered.
const SMALLEST_READ: usize = 12 * 1024;
const LARGEST_READ: usize = 64 * 1024;

/// Bytes in one piece, with a free end to read into.
///
/// It never allocates ahead of the bytes that have arrived by more than they are themselves or
/// one read, whichever is more, and never beyond the end of the frame at hand (F3).
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// How many of the bytes are done with.
    done: usize,
    /// How many bytes there would be if the last read had taken all that it was offered.
    full_at: usize,
    read_size: usize,
    /// Whether it shares memory with others, each using it in turn.
    shares: bool,
    /// Whether what it uses now was lent to it, and it has not grown since.
    is_lent: bool,
}

impl Buffer {
    /// The bytes at hand.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.done..]
    }

    /// Drops bytes from the front, and returns the place where they stood, for
    /// [`Buffer::dropped`].
    pub(super) fn drop_front(&mut self, count: usize) -> usize {
        let place = self.done;
        self.done = (self.done + count).min(self.bytes.len());
        place
    }

    /// Bytes that were just dropped: they stay where they are until there is a next read.
    pub(super) fn dropped(&self, place: usize, length: usize) -> &[u8] {
        &self.bytes[place..place + length]
    }

    /// Room for a read. `expected` bounds how many bytes the frame at hand has in all; `None`
    /// between frames.
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
        // Not before most of the room is used, as each move must be paid for by bytes that arrived;
        // but there is nothing to move in an empty one.
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
            // Whatever it was, it is ours now.
            self.is_lent = false;
        }
    }

    /// Uses this memory, if it has none of its own; else it comes back.
    pub(super) fn lend(&mut self, memory: Vec<u8>) -> Option<Vec<u8>> {
        self.shares = true;
        if self.bytes.capacity() > 0 {
            return Some(memory);
        }
        (self.bytes, self.done, self.is_lent) = (memory, 0, true);
        self.bytes.clear();
        None
    }

    /// The memory, if it is one that others may use in turn, and no byte needs it. A few that are not
    /// done with are moved to memory of their own.
    pub(super) fn give_back(&mut self) -> Option<Vec<u8>> {
        let at_hand = self.bytes.len() - self.done;
        let is_lent = std::mem::take(&mut self.is_lent);
        // Many would have to be moved again and again until their frame is whole.
        let are_few = at_hand == 0 || (is_lent && at_hand < self.bytes.capacity() / 4);
        if !self.shares || !are_few || self.bytes.capacity() == 0 {
            return None;
        }
        let rest = self.bytes().to_vec();
        (self.done, self.full_at) = (0, 0);
        Some(std::mem::replace(&mut self.bytes, rest))
    }

    /// Gives back the memory that no byte is using.
    pub(super) fn shrink(&mut self) {
        self.bytes.drain(..self.done);
        self.bytes.shrink_to_fit();
        (self.done, self.full_at, self.read_size) = (0, 0, 0);
    }
}

/// A long frame is read in steps to an eighth of it, a quarter, a half, the whole: the least of
/// these that is more than what is at hand.
fn next_step(whole: usize, at_hand: usize) -> usize {
    let mut step = whole;
    while step.div_ceil(2) > at_hand {
        step = step.div_ceil(2);
    }
    step
}
