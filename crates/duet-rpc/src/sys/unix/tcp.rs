//! TCP: listening sockets, keep-alive probes, and a look at waiting bytes.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::net::TcpStream;

/// The number of connections that may wait to be accepted. The system has its own limit, and uses the smaller one.
pub(super) const BACKLOG: i32 = 4096;

/// Listens like the standard library, but with a longer queue of waiting connections.
pub(crate) fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = stream_socket(family)?;
    // A port whose last connections are in TIME_WAIT is free.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A non-blocking socket that no child inherits.
#[cfg(not(target_vendor = "apple"))]
pub(super) fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// The same in separate steps, for systems without flags for it.
#[cfg(target_vendor = "apple")]
pub(super) fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::ioctl_fioclex(&socket)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Turns on keep-alive probes, so that a connection to a machine that disappeared ends.
pub(crate) fn keep_alive(stream: &TcpStream) {
    const QUIET: Duration = Duration::from_secs(60);
    const BETWEEN: Duration = Duration::from_secs(15);
    const PROBES: u32 = 4;

    let _ = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, QUIET))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, BETWEEN))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, PROBES));
}

/// Returns `true` if there is nothing to read, not even the end. It asks the system, because the runtime knows only the
/// state at its last check.
#[cfg(feature = "http")]
pub(crate) fn is_quiet(stream: &impl std::os::fd::AsFd) -> Option<bool> {
    use rustix::io::Errno;
    use rustix::net::{RecvFlags, recv};

    let mut byte = [0];
    let seen = recv(stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    Some(matches!(seen, Err(Errno::AGAIN | Errno::INTR)))
}
