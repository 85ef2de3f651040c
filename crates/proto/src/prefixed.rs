//! Writing a body behind a header that is known only afterwards.

/// Has `body` append to `out`. If it fails or panics, what was appended from `start` on is taken back:
/// a header's room may stand there already.
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

/// Takes back what was appended, if writing fails or panics.
struct Unfinished<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.start);
    }
}

/// Moves a body to where its header ends, if the guess was wrong how long that is.
#[cold]
pub(crate) fn move_body(out: &mut Vec<u8>, from: usize, to: usize) {
    let body_length = out.len() - from;
    out.resize(out.len().max(to + body_length), 0);
    out.copy_within(from..from + body_length, to);
    out.truncate(to + body_length);
}
