//! The standard descriptors of a daemon: pipes, sockets, files, devices and terminals.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::harness::prelude::*;

/// One standard descriptor of the daemon.
pub(crate) enum Channel {
    /// A pipe whose other end is ours.
    Pipe,
    /// A socket, as Node gives its children.
    Socket,
    /// This descriptor; we have no other end.
    Given(OwnedFd),
    /// The daemon's end, and ours.
    Both(OwnedFd, OwnedFd),
}

/// Three pipes.
pub(crate) const PIPES: [Channel; 3] = [Channel::Pipe, Channel::Pipe, Channel::Pipe];

impl Channel {
    /// A file or device to read.
    pub(crate) fn reading(path: &str) -> io::Result<Self> {
        Ok(Channel::Given(File::open(path)?.into()))
    }

    /// A file or device to write.
    pub(crate) fn writing(path: &str) -> io::Result<Self> {
        Ok(Channel::Given(OpenOptions::new().write(true).open(path)?.into()))
    }

    /// Opens the channel: the daemon's end, and ours.
    pub(crate) fn open(self, is_input: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        Ok(match self {
            Channel::Pipe => {
                let (theirs, ours) = pipe(is_input)?;
                (theirs, Some(ours))
            }
            Channel::Socket => {
                let (theirs, ours) = UnixStream::pair()?;
                (theirs.into(), Some(ours.into()))
            }
            Channel::Given(theirs) => (theirs, None),
            Channel::Both(theirs, ours) => (theirs, Some(ours)),
        })
    }
}

/// Opens a pipe: the daemon's end, and ours.
pub(crate) fn pipe(is_input: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
    Ok(if is_input { (reader, writer) } else { (writer, reader) })
}

/// One descriptor as both stdin and stdout, such as a socket or a terminal; stderr is a pipe.
pub(crate) fn both_ways(theirs: &OwnedFd, ours: &OwnedFd) -> io::Result<[Channel; 3]> {
    let channel = || Ok::<_, io::Error>(Channel::Both(theirs.try_clone()?, ours.try_clone()?));
    Ok([channel()?, channel()?, Channel::Pipe])
}

/// Other systems have no flag for it: daemons that start at that moment inherit the descriptor.
#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: OpenptFlags = OpenptFlags::CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: OpenptFlags = OpenptFlags::empty();

/// Opens a terminal in raw mode: the daemon's end, and ours.
pub(crate) fn terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | CLOSE_ON_EXEC)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let path = ptsname(&screen, Vec::new())?.to_string_lossy().into_owned();
    let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits() as i32;
    let theirs = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    let mut settings = tcgetattr(&theirs)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    Ok((theirs.into(), screen))
}
