//! Windows: handles that a thread blocks on, files that inherit the rights of their folder, no signals.
//!
//! No call tells that the reader of a pipe has gone before something is written to it. So a pump notices that with the next
//! bytes, which are lost; on Unix it notices immediately.

mod files;
mod watched;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;

pub(crate) use files::{create_file, create_folder, make_private, open_to_claim, state_folder};
pub(crate) use watched::{Wake, Watched};

/// The signals of `kill=`. This system can only end a process.
pub(crate) const SIGNALS: [(&str, i32); 1] = [("KILL", KILL)];

/// Its name, for an error message.
pub(crate) const EXPECTED_SIGNAL: &str = "KILL: Windows has no other signals";

/// The number of SIGKILL on other systems, as rules and traces have it.
pub(crate) const KILL: i32 = 9;

/// Bytes of one read.
const READ: usize = 64 * 1024;

/// An end of a pump: a file, a pipe or a socket that threads block on.
pub trait ByteStream {
    /// Reads once, and waits for bytes.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes once, and waits for room.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// A duplicate, for a thread that reads.
    fn duplicate(&self) -> io::Result<Box<dyn Read + Send>>;
}

impl ByteStream for File {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn duplicate(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl ByteStream for TcpStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn duplicate(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl<S: ByteStream + ?Sized> ByteStream for &S {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read(buffer)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (**self).write(bytes)
    }

    fn duplicate(&self) -> io::Result<Box<dyn Read + Send>> {
        (**self).duplicate()
    }
}

/// Reads once, into the free capacity of a buffer.
pub(crate) fn read(input: &impl ByteStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let (before, room) = (buffer.len(), buffer.capacity() - buffer.len());
    buffer.resize(before + room.min(READ), 0);
    let read = input.read(&mut buffer[before..]);
    buffer.truncate(before + *read.as_ref().unwrap_or(&0));
    read
}

/// Writes once.
pub(crate) fn write(output: &impl ByteStream, bytes: &[u8]) -> io::Result<usize> {
    output.write(bytes)
}

/// Nothing to wait for: the read waits.
pub(crate) fn wait_for_input(_: &impl ByteStream, _: &impl ByteStream) -> io::Result<()> {
    Ok(())
}

/// Nothing to wait for: the write waits.
pub(crate) fn wait_for_room(_: &impl ByteStream) -> io::Result<()> {
    Ok(())
}

/// Nothing to wait for: the read waits.
pub(crate) fn wait_for_bytes(_: &impl ByteStream) -> io::Result<()> {
    Ok(())
}
