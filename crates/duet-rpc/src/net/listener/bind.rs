//! Binding of a listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::path::Path;

#[cfg(unix)]
use rustix::net::{AddressFamily, SocketType};

use super::{Bound, Reach};
use crate::net::Place;

/// The number of connections that may wait to be accepted. The system has its own limit, and uses the smaller one.
#[cfg(unix)]
const BACKLOG: i32 = 4096;

/// Binds the first of the host's addresses that can be bound.
pub(super) fn tcp(place: &Place, reach: Reach) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (place.host.as_str(), place.port).to_socket_addrs()?.collect();
    if !addresses.iter().all(|address| reach.allows(address)) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "other machines could reach it; to allow that, use `bind_anywhere`",
        ));
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match listen(&address) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Listens like the standard library, but with a longer queue of waiting connections.
#[cfg(unix)]
fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = stream_socket(family)?;
    // A port whose last connections are in TIME_WAIT is free.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

#[cfg(not(unix))]
fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A Unix socket that only its user can connect to (T3).
#[cfg(unix)]
pub(super) fn unix(path: &Path) -> io::Result<Bound> {
    use rustix::fs::Mode;
    use rustix::net::SocketAddrUnix;

    use super::file::{self, SocketFile};

    let address = SocketAddrUnix::new(path)?;
    // Of several servers that start together, one takes the path, and the others find it in use.
    let _turn = file::take_turn(path);
    file::make_way(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    let owners = Mode::RUSR | Mode::WUSR;
    // If the system supports it, the file is created with this mode. Setting the mode afterwards would use the path,
    // where a user with write access to the folder could have put a link to another file.
    let _ = rustix::fs::fchmod(&socket, owners);
    rustix::net::bind(&socket, &address)?;
    let file = SocketFile::new(path)?;
    // Nobody can connect before it listens, so other users have no chance to connect.
    if !file.is_private() {
        rustix::fs::chmod(path, owners)?;
    }
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Bound::Unix(socket.into(), file))
}

#[cfg(not(unix))]
pub(super) fn unix(_: &Path) -> io::Result<Bound> {
    Err(super::unsupported("this system has no Unix sockets"))
}

/// A non-blocking socket that no child inherits.
#[cfg(all(unix, not(target_vendor = "apple")))]
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
