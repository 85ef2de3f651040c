//! Buffer pool: buffers that all connections of a thread share. Only one connection at a time uses them,
//! and an idle connection needs none (P8). They also stay in the processor's cache, however many
//! connections there are.

use std::cell::Cell;
use std::thread::LocalKey;

/// Maximum number of bytes of one read.
const READ: usize = 64 * 1024;

/// The capacity of the largest buffer that is kept.
const MOST: usize = 2 * 1024 * 1024;

/// A connection keeps smaller buffers itself.
const LARGE: usize = 16 * 1024;

thread_local! {
    static READING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static INCOMING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static OUTGOING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes the empty read buffer. Give it back soon: until then, a second call makes a new buffer.
pub(crate) fn take() -> Vec<u8> {
    let mut buffer = READING.take();
    buffer.clear();
    buffer.reserve_exact(READ);
    buffer
}

/// Gives back a read buffer, which may have grown. A buffer for a very large message is freed.
pub(crate) fn put_back(buffer: Vec<u8>) {
    if buffer.capacity() <= MOST {
        READING.set(buffer);
    }
}

/// Large buffers for messages, which most connections never need.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spare {
    /// For a message that comes in pieces.
    Incoming,
    /// For messages to be sent.
    Outgoing,
}

impl Spare {
    fn place(self) -> &'static LocalKey<Cell<Vec<u8>>> {
        match self {
            Spare::Incoming => &INCOMING,
            Spare::Outgoing => &OUTGOING,
        }
    }

    /// Replaces an unallocated buffer with a recycled one, if there is one.
    #[inline]
    pub(crate) fn fill(self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0 {
            *buffer = self.place().take();
        }
    }

    /// Recycles an empty large buffer, for the next connection that needs one.
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
