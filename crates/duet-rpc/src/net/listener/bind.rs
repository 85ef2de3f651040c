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

/// How many connections may wait to be accepted. The system has a limit of its own, and takes the
/// lesser.
#[cfg(unix)]
const BACKLOG: i32 = 4096;

/// The first of the host's addresses that can be listened at.
pub(super) fn tcp(place: &Place, reach: Reach) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = (place.host.as_str(), place.port).to_socket_addrs()?.collect();
    if !addresses.iter().all(|address| reach.allows(address)) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "other machines could reach it, and nobody has allowed that",
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

/// As the standard library does it, but with room for more who wait.
#[cfg(unix)]
fn listen(address: &SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = stream_socket(family)?;
    // A port whose last connections are still fading is free.
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

/// A Unix socket that is its user's alone (T3).
#[cfg(unix)]
pub(super) fn unix(path: &Path) -> io::Result<Bound> {
    use rustix::fs::Mode;
    use rustix::net::SocketAddrUnix;

    use super::file::{self, SocketFile};

    let address = SocketAddrUnix::new(path)?;
    // Of several that start at once, one looks and takes the place, and the others find it taken.
    let _turn = file::take_turn(path);
    file::make_way(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    let owners = Mode::RUSR | Mode::WUSR;
    // Where the system does that, the file is made with this mode. To set it afterwards goes by the path, at
    // which one who may write to the folder could have put a link to another file meanwhile.
    let _ = rustix::fs::fchmod(&socket, owners);
    rustix::net::bind(&socket, &address)?;
    let file = SocketFile::new(path)?;
    // Nobody can connect before it listens, so there is no moment at which others could.
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

/// A socket that no call waits on, and that no child inherits.
#[cfg(all(unix, not(target_vendor = "apple")))]
pub(super) fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// The same, where a socket cannot be made so in one step.
#[cfg(target_vendor = "apple")]
pub(super) fn stream_socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::ioctl_fioclex(&socket)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}
