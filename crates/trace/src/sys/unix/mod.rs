//! Unix: descriptors that can be polled, file modes, signals.

mod files;
mod watched;

/// An end of a pump: a descriptor.
pub use std::os::fd::AsFd as ByteStream;

use std::io;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;

pub(crate) use files::{create_file, create_folder, make_private, open_to_claim, state_folder};
pub(crate) use watched::{Wake, Watched};

/// The signals of `kill=`.
pub(crate) const SIGNALS: [(&str, i32); 9] = [
    ("KILL", KILL),
    ("TERM", Signal::TERM.as_raw()),
    ("INT", Signal::INT.as_raw()),
    ("HUP", Signal::HUP.as_raw()),
    ("QUIT", Signal::QUIT.as_raw()),
    ("USR1", Signal::USR1.as_raw()),
    ("USR2", Signal::USR2.as_raw()),
    ("ABRT", Signal::ABORT.as_raw()),
    ("SEGV", Signal::SEGV.as_raw()),
];

/// Their names, for an error message.
pub(crate) const EXPECTED_SIGNAL: &str =
    "a signal (KILL, TERM, INT, HUP, QUIT, USR1, USR2, ABRT, SEGV)";

/// The signal that no process survives.
pub(crate) const KILL: i32 = Signal::KILL.as_raw();

/// Reads once, into the free capacity of a buffer.
pub(crate) fn read(input: &impl ByteStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(input, spare_capacity(buffer))?)
}

/// Writes once.
pub(crate) fn write(output: &impl ByteStream, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(output, bytes)?)
}

/// Waits for input, or for the end of the output.
pub(crate) fn wait_for_input(input: &impl ByteStream, output: &impl ByteStream) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(input, PollFlags::IN), PollFd::new(output, PollFlags::empty())];
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if fds[1].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(Errno::PIPE.into());
        }
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        if fds[1].revents().contains(PollFlags::NVAL) {
            return Err(Errno::BADF.into());
        }
    }
}

/// Waits for room in an output that another process made non-blocking.
pub(crate) fn wait_for_room(output: &impl ByteStream) -> io::Result<()> {
    wait_for(output, PollFlags::OUT)
}

/// Waits for input that another process made non-blocking.
pub(crate) fn wait_for_bytes(input: &impl ByteStream) -> io::Result<()> {
    wait_for(input, PollFlags::IN)
}

fn wait_for(stream: &impl ByteStream, flags: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(stream, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
