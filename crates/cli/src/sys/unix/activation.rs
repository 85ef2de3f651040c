//! Listening sockets inherited from the parent process, for example systemd.

use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use duet_rpc::transport::{Address, Listener, TlsServer};
use listenfd::ListenFd;

/// An inherited socket.
pub(crate) enum InheritedSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Takes over the sockets for this process, each at its place, or the reason why one cannot be used.
pub(crate) fn take_inherited() -> Vec<(usize, Result<InheritedSocket, String>)> {
    let mut handed_over = ListenFd::from_env();
    let count = handed_over.len();
    let take = |place| {
        let socket = match handed_over.take_tcp_listener(place) {
            Ok(socket) => Ok(socket.map(InheritedSocket::Tcp)),
            Err(_) => match handed_over.take_unix_listener(place) {
                Ok(socket) => Ok(socket.map(InheritedSocket::Unix)),
                Err(error) => Err(error.to_string()),
            },
        };
        socket.transpose().map(|socket| (place, socket))
    };
    (0..count).filter_map(take).collect()
}

impl InheritedSocket {
    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, InheritedSocket::Tcp(_))
    }

    pub(crate) fn listens(&self) -> bool {
        listens(match self {
            InheritedSocket::Tcp(socket) => socket.as_fd(),
            InheritedSocket::Unix(socket) => socket.as_fd(),
        })
    }

    pub(crate) fn is_at(&self, address: &Address) -> bool {
        match (self, address) {
            (
                InheritedSocket::Tcp(socket),
                Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _),
            ) => socket.local_addr().is_ok_and(|at| {
                let mut wanted = (place.host.as_str(), place.port).to_socket_addrs();
                wanted.as_mut().is_ok_and(|wanted| wanted.any(|wanted| wanted == at))
            }),
            (InheritedSocket::Unix(socket), Address::Unix(path)) => {
                socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path))
            }
            _ => false,
        }
    }

    pub(crate) fn into_listener(
        self,
        address: &Address,
        tls: Option<&TlsServer>,
    ) -> io::Result<Listener> {
        match self {
            InheritedSocket::Tcp(socket) => match tls.cloned() {
                Some(tls) => Listener::tls(tls).take_tcp(socket, address),
                None => Listener::from_tcp(socket, address),
            },
            InheritedSocket::Unix(socket) => Listener::from_unix(socket),
        }
    }
}

#[cfg(not(target_vendor = "apple"))]
fn listens(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_acceptconn(socket).unwrap_or(false)
}

/// This system has no socket option for it, but a socket with a remote is a connection.
#[cfg(target_vendor = "apple")]
fn listens(socket: BorrowedFd<'_>) -> bool {
    rustix::net::getpeername(socket).is_err()
}
