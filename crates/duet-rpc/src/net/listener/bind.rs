//! Binding of a listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use super::Reach;
use crate::net::Place;
use crate::sys::tcp::listen;

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
