//! Sockets of this machine that a tap stands between: Unix sockets.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use duet_rpc::transport::Address;
use rustix::fs::Mode;

/// A connected socket.
pub(crate) type LocalSocket = UnixStream;

/// A listening socket.
pub(crate) type LocalListener = UnixListener;

/// The place of such a socket.
pub(crate) type LocalPlace = PathBuf;

/// The place that an address names, if it is one of these.
pub(crate) fn place(address: &Address) -> Option<LocalPlace> {
    match address {
        Address::Unix(path) => Some(path.clone()),
        _ => None,
    }
}

/// The transports that a tap can stand between.
pub(crate) const TAPPED: &str = "tcp://, unix://, ws:// or http://";

pub(crate) fn connect(path: &LocalPlace) -> io::Result<LocalSocket> {
    UnixStream::connect(path)
}

/// Listens for this user only, from the first moment. Replaces the file of a tap that was ended.
pub(crate) fn bind(path: &LocalPlace) -> io::Result<LocalListener> {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let mut listener = UnixListener::bind(path);
    let is_used = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    if listener.as_ref().is_err_and(is_used) && is_abandoned(path) {
        let _ = std::fs::remove_file(path);
        listener = UnixListener::bind(path);
    }
    rustix::process::umask(before);
    listener
}

pub(crate) fn accept(listener: &LocalListener) -> io::Result<LocalSocket> {
    listener.accept().map(|(socket, _)| socket)
}

/// Removes the file of a listening socket.
pub(crate) fn remove(path: &LocalPlace) {
    let _ = std::fs::remove_file(path);
}

/// Returns `true` if nobody listens on a socket file: the tap that made it was ended.
fn is_abandoned(path: &Path) -> bool {
    let refused = UnixStream::connect(path).err().map(|error| error.kind());
    refused == Some(io::ErrorKind::ConnectionRefused)
        && std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
}

/// A connection of a tap.
pub(crate) enum TappedSocket {
    Tcp(TcpStream),
    Local(LocalSocket),
}

impl TappedSocket {
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails if the other side has closed the connection.
        let _ = match self {
            TappedSocket::Tcp(socket) => socket.shutdown(how),
            TappedSocket::Local(socket) => socket.shutdown(how),
        };
    }
}

impl AsFd for TappedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            TappedSocket::Tcp(socket) => socket.as_fd(),
            TappedSocket::Local(socket) => socket.as_fd(),
        }
    }
}
