//! A buffer to read into that all connections of a thread share: one at a time uses it, and while
//! nothing comes a connection needs none (P8). It also stays in the processor's cache, however many
//! connections there are.

use std::cell::Cell;

/// How much is read at once.
const SIZE: usize = 64 * 1024;

/// The largest that is kept.
const MOST: usize = 2 * 1024 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The buffer, empty. Give it back soon; whoever else asks for it meanwhile gets a new one.
pub(super) fn take() -> Vec<u8> {
    let mut buffer = BUFFER.take();
    buffer.clear();
    buffer.reserve_exact(SIZE);
    buffer
}

/// Gives it back, or one that has grown larger. One that a very large message has needed is let go.
pub(super) fn put_back(buffer: Vec<u8>) {
    if buffer.capacity() <= MOST {
        BUFFER.set(buffer);
    }
}
