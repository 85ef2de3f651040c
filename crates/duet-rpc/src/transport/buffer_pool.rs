//! Buffers that all connections of a thread share: one at a time uses them, and while nothing comes a
//! connection needs none (P8). They also stay in the processor's cache, however many connections there
//! are.

use std::cell::Cell;
use std::thread::LocalKey;

/// How much is read at once.
const READ: usize = 64 * 1024;

/// The largest that is kept.
const MOST: usize = 2 * 1024 * 1024;

/// A connection keeps what is smaller for itself.
const LARGE: usize = 16 * 1024;

thread_local! {
    static READING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static INCOMING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUTGOING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The buffer to read into, empty. Give it back soon; whoever else asks for it meanwhile gets a new one.
pub(crate) fn take() -> Vec<u8> {
    let mut buffer = READING.take();
    buffer.clear();
    buffer.reserve_exact(READ);
    buffer
}

/// Gives it back, or one that has grown larger. One that a very large message has needed is let go.
pub(crate) fn put_back(buffer: Vec<u8>) {
    if buffer.capacity() <= MOST {
        READING.set(buffer);
    }
}

/// Large buffers for messages, of which most connections never need one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spare {
    /// For a message that comes in pieces.
    Incoming,
    /// For what is to be sent.
    Outgoing,
}

impl Spare {
    fn place(self) -> &'static LocalKey<Cell<Vec<u8>>> {
        match self {
            Spare::Incoming => &INCOMING,
            Spare::Outgoing => &OUTGOING,
        }
    }

    /// Gives a buffer that has none the one that another connection had laid aside, if there is one.
    #[inline]
    pub(crate) fn fill(self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0 {
            *buffer = self.place().take();
        }
    }

    /// Takes an empty buffer away, if it is a large one, for the next who needs it.
    #[inline]
    pub(crate) fn recycle(self, buffer: &mut Vec<u8>) {
        if buffer.is_empty() && buffer.capacity() > LARGE {
            let buffer = std::mem::take(buffer);
            if buffer.capacity() <= MOST {
                self.place().set(buffer);
            }
        }
    }
}
