//! Appends a body whose header is known only once the body is written.

/// Lets `body` append to `out`. If it fails or panics, `out` is cut back to `start`, which may
/// stand before the room for a header.
#[inline]
pub(crate) fn append<E>(
    out: &mut Vec<u8>,
    start: usize,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let mut unfinished = Unfinished { out, start };
    body(unfinished.out)?;
    unfinished.start = usize::MAX;
    Ok(())
}

/// Cuts `out` back to `start` when dropped.
struct Unfinished<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.start);
    }
}

/// Moves a body to the end of its header, if the guess of the header's size was wrong.
#[cold]
pub(crate) fn move_body(out: &mut Vec<u8>, from: usize, to: usize) {
    let body_length = out.len() - from;
    out.resize(out.len().max(to + body_length), 0);
    out.copy_within(from..from + body_length, to);
    out.truncate(to + body_length);
}
