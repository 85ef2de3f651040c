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
//! `poll` before each read notices a reader that has closed the output. Without it, the first bytes after
//! that would be taken from a sender that should get EPIPE for them.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};

use crate::queue::{BUFFER, Feed};

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
    /// The reason, for a record. A usual end has none.
    fn why(&self) -> Option<String> {
        match self {
            Stop::Eof => None,
            Stop::Closed => Some("the reader closed the stream".to_owned()),
            Stop::Failed(error) => Some(error.to_string()),
        }
    }
}

/// Forwards bytes until the input ends or the output is closed. Without a feed, nothing is recorded.
pub fn pump(input: impl AsFd, output: impl AsFd, mut feed: Option<&mut Feed>) -> Stop {
    let mut buffer = feed.as_mut().map_or_else(|| Vec::with_capacity(BUFFER), |it| it.buffer());
    let stop = loop {
        match step(&input, &output, &mut buffer, feed.as_deref_mut()) {
            Ok(true) => {}
            Ok(false) => break Stop::Eof,
            Err(Errno::PIPE | Errno::CONNRESET) => break Stop::Closed,
            Err(error) => break Stop::Failed(error.into()),
        }
    };
    if let Some(feed) = feed {
        feed.end(stop.why());
    }
    stop
}

/// Forwards the bytes of one read. `false` at the end of the input.
fn step(
    input: &impl AsFd,
    output: &impl AsFd,
    buffer: &mut Vec<u8>,
    feed: Option<&mut Feed>,
) -> Result<bool, Errno> {
    wait_for_input(input, output)?;
    buffer.clear();
    match read(input, spare_capacity(buffer)) {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
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

/// Waits for input, or for the end of the output.
fn wait_for_input(input: &impl AsFd, output: &impl AsFd) -> Result<(), Errno> {
    loop {
        let mut fds = [PollFd::new(input, PollFlags::IN), PollFd::new(output, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        if fds[1].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(Errno::PIPE);
        }
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if fds[1].revents().contains(PollFlags::NVAL) {
            return Err(Errno::BADF);
        }
    }
}

/// Writes all bytes, or returns the number that was written before the failure.
fn write_all(output: &impl AsFd, bytes: &[u8]) -> Result<(), (usize, Errno)> {
    let mut count = 0;
    while count < bytes.len() {
        match write(output, &bytes[count..]) {
            Ok(written) => count += written,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Another process made the descriptor non-blocking.
                let mut fds = [PollFd::new(output, PollFlags::OUT)];
                match poll(&mut fds, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err((count, error)),
                }
            }
            Err(error) => return Err((count, error)),
        }
    }
    Ok(())
}
