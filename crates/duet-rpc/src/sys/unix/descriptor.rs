//! Descriptor: reads and writes one file descriptor without waiting.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketType};

use crate::stdio::Stdio;

/// Pipe capacity for large messages, so that one passes in few turns. For small messages the system's default
/// is better, because they stay in the processor's cache.
#[cfg(any(target_os = "linux", target_os = "android"))]
const PIPE_BYTES: usize = 1024 * 1024;

/// A message is large if this many of its bytes wait on one side of a pipe.
const LARGE: usize = 32 * 1024;

/// Maximum number of bytes of one write to a terminal. Such a write returns only when the reader has taken
/// all bytes, so larger writes would hide the progress of a slow reader (L5).
const TERMINAL_BYTES: usize = 1024;

/// Sending to a closed socket is an error of that call, and not a signal that ends the process.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    kind: DescriptorKind,
    /// `true` if the bytes of one write arrive in one read: then a short read does not mean that
    /// everything has been read.
    has_packets: bool,
    /// `true` if the descriptor must be made blocking again for the processes that share it.
    was_blocking: bool,
    /// Maximum number of bytes of one write.
    most_at_once: usize,
    /// `true` if the pipe's capacity was raised as far as allowed.
    is_wide: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DescriptorKind {
    Pipe,
    Socket,
    /// A file, a terminal, a directory: everything that the runtime cannot wait for, or only by changing it
    /// for other processes.
    Other,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd) -> rustix::io::Result<Self> {
        let mode = rustix::fs::fstat(&fd)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Fifo => Self::pipe(fd),
            FileType::Socket => {
                let has_packets = rustix::net::sockopt::socket_type(&fd)? != SocketType::STREAM;
                let most_at_once = usize::MAX;
                // Each call is non-blocking by its own flag.
                Ok(Descriptor {
                    fd,
                    kind: DescriptorKind::Socket,
                    has_packets,
                    was_blocking: false,
                    most_at_once,
                    is_wide: AtomicBool::new(false),
                })
            }
            _ => Ok(Self::of_unknown_kind(fd)),
        }
    }

    /// A descriptor that only a thread can drive.
    pub(crate) fn of_unknown_kind(fd: OwnedFd) -> Self {
        let most_at_once = if fd.is_terminal() { TERMINAL_BYTES } else { usize::MAX };
        Descriptor {
            fd,
            kind: DescriptorKind::Other,
            has_packets: true,
            was_blocking: false,
            most_at_once,
            is_wide: AtomicBool::new(false),
        }
    }

    fn pipe(fd: OwnedFd) -> rustix::io::Result<Self> {
        let most_at_once = usize::MAX;
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        let has_packets = is_of_packets(flags);
        if let Some(fd) = reopen(&fd, flags) {
            return Ok(Descriptor {
                fd,
                kind: DescriptorKind::Pipe,
                has_packets,
                was_blocking: false,
                most_at_once,
                is_wide: AtomicBool::new(false),
            });
        }
        let was_blocking = !flags.contains(OFlags::NONBLOCK);
        if was_blocking {
            rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        }
        let is_wide = AtomicBool::new(false);
        Ok(Descriptor {
            fd,
            kind: DescriptorKind::Pipe,
            has_packets,
            was_blocking,
            most_at_once,
            is_wide,
        })
    }

    /// Notes that this many bytes of one message wait on one side of the pipe. For a large message it raises
    /// the capacity. Returns `true` if it did so now.
    pub(crate) fn note_waiting(&self, bytes: usize) -> bool {
        let is_large = bytes >= LARGE && self.kind == DescriptorKind::Pipe;
        let widens = is_large && !self.is_wide.swap(true, Ordering::Relaxed);
        if widens {
            enlarge(&self.fd);
        }
        widens
    }

    /// Returns `true` if the runtime can wait for it, and no call blocks.
    pub(crate) fn can_be_polled(&self) -> bool {
        self.kind != DescriptorKind::Other
    }

    /// Returns `true` if this is or was a terminal. After its other side is gone, the system does not report
    /// it as a terminal any more.
    fn is_terminal(&self) -> bool {
        rustix::fs::fstat(&self.fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice)
    }

    /// Returns `true` if a short read has read everything, and a short write has filled all room. That
    /// saves the call that would only confirm it.
    pub(crate) fn short_means_done(&self) -> bool {
        !self.has_packets
    }

    /// Appends the available bytes, up to the capacity of `space`.
    pub(crate) fn read(&self, space: &mut Vec<u8>) -> rustix::io::Result<usize> {
        rustix::io::retry_on_intr(|| match self.kind {
            DescriptorKind::Socket => {
                let received =
                    rustix::net::recv(&self.fd, spare_capacity(space), RecvFlags::DONTWAIT);
                received.map(|(_, count)| count)
            }
            DescriptorKind::Pipe | DescriptorKind::Other => {
                rustix::io::read(&self.fd, spare_capacity(space))
            }
        })
    }

    /// Writes as many bytes as fit.
    pub(crate) fn write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        rustix::io::retry_on_intr(|| match self.kind {
            DescriptorKind::Socket => rustix::net::send(&self.fd, bytes, SEND),
            DescriptorKind::Pipe | DescriptorKind::Other => rustix::io::write(&self.fd, bytes),
        })
    }

    /// The part of these bytes for one write.
    pub(crate) fn piece<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        bytes.get(..self.most_at_once).unwrap_or(bytes)
    }

    /// The number of bytes that were written and not yet read, if the system reports it.
    pub(crate) fn unread(&self) -> Option<u64> {
        match self.kind {
            DescriptorKind::Pipe => rustix::io::ioctl_fionread(&self.fd).ok(),
            // For a socket, the system call would return the number of bytes that we have not read.
            DescriptorKind::Socket | DescriptorKind::Other => None,
        }
    }

    /// A descriptor of the same input in which a thread can block, if that changes nothing for other
    /// processes.
    pub(crate) fn to_wait_in(&self) -> Option<OwnedFd> {
        if self.has_packets || self.was_blocking {
            return None;
        }
        match self.kind {
            DescriptorKind::Pipe => {
                // Without the flag, opening the pipe would wait for a writer.
                let flags = rustix::fs::fcntl_getfl(&self.fd).ok()?;
                let fd = reopen(&self.fd, flags)?;
                rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::NONBLOCK)).ok()?;
                Some(fd)
            }
            // If another process has made a socket non-blocking, the first read shows it.
            DescriptorKind::Socket => self.fd.try_clone().ok(),
            DescriptorKind::Other => None,
        }
    }

    /// Reads, and waits for bytes, on a thread that may block.
    pub(crate) fn wait_and_read(&self, space: &mut Vec<u8>) -> rustix::io::Result<usize> {
        match self.wait_while_blocked(PollFlags::IN, || self.read(space)) {
            // A terminal whose other side is gone ends with this error.
            Err(Errno::IO) if self.is_terminal() => Ok(0),
            read => read,
        }
    }

    /// Writes, and waits for room, on a thread that may block.
    pub(crate) fn wait_and_write(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        self.wait_while_blocked(PollFlags::OUT, || self.write(bytes))
    }

    /// Repeats a call that would block. A terminal is shared, and another process may have made it
    /// non-blocking.
    fn wait_while_blocked(
        &self,
        events: PollFlags,
        mut act: impl FnMut() -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        loop {
            match act() {
                Err(Errno::AGAIN) => {}
                done => return done,
            }
            let mut fds = [PollFd::new(&self.fd, events)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))?;
        }
    }

    /// A duplicate, to watch for a lost reader.
    pub(crate) fn duplicate_to_watch(&self) -> Option<OwnedFd> {
        self.fd.try_clone().ok()
    }

    /// Restores the flags.
    pub(crate) fn put_back(&self) {
        if self.was_blocking {
            // Other processes may have changed the other flags since, so this restores only one flag. If it
            // fails, the descriptor is useless to them too.
            let flags = rustix::fs::fcntl_getfl(&self.fd);
            let _ = flags.and_then(|flags| {
                rustix::fs::fcntl_setfl(&self.fd, flags.difference(OFlags::NONBLOCK))
            });
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.put_back();
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens the same pipe a second time, so that it is non-blocking here and unchanged for other processes. That
/// fails without `/proc`, for a pipe of another user, and for writing to a named pipe that nobody reads.
///
/// The access mode stays the same. A process that has opened a named pipe for reading *and* writing wants
/// it to outlive its writers.
fn reopen(fd: &OwnedFd, flags: OFlags) -> Option<OwnedFd> {
    if cfg!(not(any(target_os = "linux", target_os = "android"))) {
        // On other systems such a path is only another name for the same open descriptor.
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let access = flags & OFlags::RWMODE;
    rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Raises the capacity of the pipe, if that is allowed.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn enlarge(fd: &OwnedFd) {
    // Do not shrink a larger pipe.
    if rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|bytes| bytes < PIPE_BYTES) {
        let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE_BYTES);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn enlarge(_: &OwnedFd) {}

/// Returns `true` if this is a pipe in Linux's packet mode.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_of_packets(flags: OFlags) -> bool {
    flags.contains(OFlags::DIRECT)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_of_packets(_: OFlags) -> bool {
    false
}

impl Stdio {
    /// Reads from one descriptor and writes to the other, like [`take`](Self::take) with the standard
    /// ones.
    ///
    /// # Panics
    ///
    /// In a tokio runtime that was built without its I/O driver.
    pub fn from_fds(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        Self::over(input, output)
    }
}
