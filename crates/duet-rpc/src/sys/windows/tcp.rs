//! TCP: listening sockets. Keep-alive probes have the times of the system.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::task::{Context, Poll};

use tokio::net::TcpStream;

pub(crate) fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Nothing: the call for it has no safe wrapper here.
pub(crate) fn keep_alive(_: &TcpStream) {}

/// `None`: on this system only the runtime knows.
#[cfg(feature = "http")]
pub(crate) fn is_quiet<S>(_: &S) -> Option<bool> {
    None
}

/// Nothing here watches for the end of the remote's output: a read notices it.
// Same name: the interface of `unix/hang_up.rs`.
pub(crate) enum HangUpWatch {}

impl HangUpWatch {
    pub(crate) fn new<S>(_: &S) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn of_reader<S>(_: &S) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn poll(&self, _: &mut Context<'_>) -> Poll<()> {
        match *self {}
    }
}

/// No reserve is needed: a process may have millions of handles.
// Same name: the interface of `unix/reserve.rs`.
pub(crate) struct Reserve;

impl Reserve {
    pub(crate) fn new() -> Self {
        Reserve
    }

    pub(crate) fn is_needed(_: &io::Error) -> bool {
        false
    }

    pub(crate) fn lend<T>(&mut self, attempt: impl FnOnce() -> T) -> T {
        attempt()
    }
}
