//! Descriptor: one handle of stdin or stdout. Inherited handles are usually synchronous pipes, which no runtime can wait
//! for, so a thread drives them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::windows::io::OwnedHandle;

use super::Owned;
use crate::stdio::Stdio;

/// Bytes of one read.
const READ: usize = 64 * 1024;

/// An error code of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Same name: the type of `rustix`, for a system without it.
pub(crate) struct Errno(i32);

pub(crate) type IoResult<T> = Result<T, Errno>;

impl Errno {
    /// `WSAEWOULDBLOCK`, which no call here returns.
    pub(crate) const AGAIN: Errno = Errno(10_035);
    /// `ERROR_WRITE_FAULT`.
    pub(crate) const IO: Errno = Errno(29);
    /// `ERROR_BROKEN_PIPE`.
    pub(crate) const PIPE: Errno = Errno(109);

    fn new(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Errno::IO, Errno)
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.0)
    }
}

#[derive(Debug)]
// Same name: the interface of `unix/descriptor.rs`.
pub(crate) struct Descriptor(File);

impl Descriptor {
    pub(crate) fn new(handle: Owned) -> IoResult<Self> {
        Ok(Descriptor(handle.into()))
    }

    /// Returns `false`: only a thread can wait for it.
    pub(crate) fn can_be_polled(&self) -> bool {
        false
    }

    /// The part of these bytes for one write.
    pub(crate) fn piece<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes
    }

    /// Appends the available bytes, up to the capacity of `space`.
    pub(crate) fn read(&self, space: &mut Vec<u8>) -> IoResult<usize> {
        read(&self.0, space)
    }

    /// Reads, and waits for bytes, on a thread that may block. A pipe without a writer has ended.
    pub(crate) fn wait_and_read(&self, space: &mut Vec<u8>) -> IoResult<usize> {
        self.read(space)
    }

    /// Writes, and waits for room, on a thread that may block.
    pub(crate) fn wait_and_write(&self, bytes: &[u8]) -> IoResult<usize> {
        (&self.0).write(bytes).map_err(|error| Errno::new(&error))
    }

    /// `None`: no call reports that a pipe has lost its reader. The next write does.
    pub(crate) fn duplicate_to_watch(&self) -> Option<Owned> {
        None
    }

    /// Handles have no flags that other processes share.
    pub(crate) fn put_back(&self) {}
}

/// Waits for input, on a thread that may block.
pub(crate) fn blocking_read(input: &Owned, bytes: &mut Vec<u8>) -> IoResult<usize> {
    let input = input.try_clone().map_err(|error| Errno::new(&error))?;
    read(&File::from(input), bytes)
}

fn read(mut input: &File, space: &mut Vec<u8>) -> IoResult<usize> {
    let (before, room) = (space.len(), space.capacity() - space.len());
    space.resize(before + room.min(READ), 0);
    let read = loop {
        match input.read(&mut space[before..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    space.truncate(before + *read.as_ref().unwrap_or(&0));
    read.map_err(|error| Errno::new(&error))
}

impl Stdio {
    /// Reads from one handle and writes to the other, like [`take`](Self::take) with the standard ones. A read and a
    /// write of the same synchronous handle would wait for each other, so give two handles of two pipes.
    pub fn from_handles(input: OwnedHandle, output: OwnedHandle) -> io::Result<Self> {
        Self::over(input, output)
    }
}
