//! Forwards the bytes of one direction: read, write, hand over (W1, W2, W4).
//!
//! | event | result |
//! |---|---|
//! | bytes arrive | one write of exactly these bytes; then the recorder gets the buffer |
//! | the output does not take them | the write waits, and so nothing is read |
//! | the input ends | [`Stop::Eof`]; the caller closes the output |
//! | the reader of the output closes it | [`Stop::Closed`], even while no bytes pass; the caller closes the input |
//! | reading or writing fails | [`Stop::Failed`]; the caller closes both |
//!
//! A wait before each read notices a reader that has closed the output. Without it, the first bytes after
//! that would be taken from a sender that should get EPIPE for them. On Windows nothing can wait for both, so it
//! is so there.

use std::io::{self, ErrorKind};

use crate::queue::{BUFFER, Feed};
use crate::sys::{self, ByteStream};

/// The reason why a pump ended.
#[derive(Debug)]
pub enum Stop {
    /// The input ended.
    Eof,
    /// The reader of the output closed it.
    Closed,
    /// Reading or writing failed.
    Failed(io::Error),
}

impl Stop {
    /// The reason that an error stands for.
    pub(crate) fn from_error(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Stop::Closed,
            _ => Stop::Failed(error),
        }
    }

    /// The reason, for a record. A usual end has none.
    pub(crate) fn why(&self) -> Option<String> {
        match self {
            Stop::Eof => None,
            Stop::Closed => Some("the reader closed the stream".to_owned()),
            Stop::Failed(error) => Some(error.to_string()),
        }
    }
}

/// Forwards bytes until the input ends or the output is closed. Without a feed, nothing is recorded.
pub fn pump(input: impl ByteStream, output: impl ByteStream, mut feed: Option<&mut Feed>) -> Stop {
    let mut buffer = feed.as_mut().map_or_else(|| Vec::with_capacity(BUFFER), |it| it.buffer());
    let stop = loop {
        match step(&input, &output, &mut buffer, feed.as_deref_mut()) {
            Ok(true) => {}
            Ok(false) => break Stop::Eof,
            Err(error) => break Stop::from_error(error),
        }
    };
    if let Some(feed) = feed {
        feed.end(stop.why());
    }
    stop
}

/// Forwards the bytes of one read. `false` at the end of the input.
fn step(
    input: &impl ByteStream,
    output: &impl ByteStream,
    buffer: &mut Vec<u8>,
    feed: Option<&mut Feed>,
) -> io::Result<bool> {
    sys::wait_for_input(input, output)?;
    buffer.clear();
    match sys::read(input, buffer) {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(error) if is_passing(&error) => return Ok(true),
        Err(error) => return Err(error),
    }
    let at = feed.as_ref().map(|feed| feed.announce());
    let written = write_all(output, buffer);
    if let (Some(feed), Some(at)) = (feed, at) {
        // Bytes that could not be forwarded did not pass.
        buffer.truncate(written.as_ref().map_or_else(|(count, _)| *count, |()| buffer.len()));
        feed.pass(at, buffer);
    }
    written.map(|()| true).map_err(|(_, error)| error)
}

/// Returns `true` if the same call may succeed later.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

/// Writes all bytes, or returns the number that was written before the failure.
pub(crate) fn write_all(output: &impl ByteStream, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut count = 0;
    while count < bytes.len() {
        match sys::write(output, &bytes[count..]) {
            Ok(written) => count += written,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                sys::wait_for_room(output).map_err(|error| (count, error))?;
            }
            Err(error) => return Err((count, error)),
        }
    }
    Ok(())
}
