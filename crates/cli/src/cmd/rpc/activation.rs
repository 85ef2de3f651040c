//! Socket activation: listening sockets inherited from the parent process, for example systemd.
//!
//! `LISTEN_FDS` holds their number, `LISTEN_PID` the process that they are for, and `LISTEN_FDNAMES` their
//! names. A socket at an address from the command line serves that address. Any other socket serves WebSocket
//! or HTTP if its name is `ws` or `http`, and frames otherwise; with TLS if its name is `tls`, `wss` or `https`.

use std::env::VarError;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;

use duet_rpc::transport::{Address, Listener, TlsServer};
use listenfd::ListenFd;

use super::tls;
use crate::exit::Problem;

/// Names of sockets that serve a protocol over TCP alone.
const OVER_TCP: [&str; 5] = ["ws", "http", "tls", "wss", "https"];

/// Maximum number of inherited sockets.
const MAX_SOCKETS: i32 = 1024;

/// Inherited sockets that are not in use yet.
pub(super) struct Inherited(Vec<Socket>);

enum Socket {
    Tcp(TcpListener, String),
    Unix(UnixListener),
}

/// Takes over the sockets for this process.
pub(super) fn inherited() -> Result<Inherited, Problem> {
    check_count()?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let mut handed_over = ListenFd::from_env();
    let mut sockets = Vec::new();
    for place in 0..handed_over.len() {
        let name = names.next().unwrap_or_default().to_owned();
        let socket = match handed_over.take_tcp_listener(place) {
            Ok(Some(socket)) => Ok(Socket::Tcp(socket, name)),
            Ok(None) => continue,
            Err(_) => match handed_over.take_unix_listener(place) {
                Ok(Some(_)) if OVER_TCP.contains(&&*name) => {
                    Err(format!("it is a Unix socket, and {name} is served over TCP"))
                }
                Ok(Some(socket)) => Ok(Socket::Unix(socket)),
                Ok(None) => continue,
                Err(error) => Err(error.to_string()),
            },
        };
        let socket = socket.and_then(|socket| match socket.listens() {
            true => Ok(socket),
            false => Err("it does not listen: systemd needs Accept=no for this".to_owned()),
        });
        sockets.push(socket.map_err(|why| {
            Problem::failure(format!("cannot use inherited socket {place}: {why}"))
        })?);
    }
    Ok(Inherited(sockets))
}

/// Refuses an absurd number of sockets. `listenfd` allocates a list of that length before it looks at the
/// first one.
fn check_count() -> Result<(), Problem> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<i32>().ok());
    let is_for_us = match std::env::var("LISTEN_PID") {
        Ok(pid) => pid.is_empty() || pid.parse() == Ok(std::process::id()),
        Err(error) => error == VarError::NotPresent,
    };
    let Some(count) = number("LISTEN_FDS").filter(|_| is_for_us) else { return Ok(()) };
    if count > MAX_SOCKETS {
        let told = format!("LISTEN_FDS promises {count} sockets");
        return Err(Problem::failure(format!("{told}: the limit is {MAX_SOCKETS}")));
    }
    // Some service managers set it to begin elsewhere than at 3.
    match number("LISTEN_FDS_FIRST_FD").unwrap_or(3).checked_add(count) {
        None => Err(Problem::failure("LISTEN_FDS_FIRST_FD is too large for a descriptor")),
        Some(_) => Ok(()),
    }
}

impl Inherited {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the socket that listens at this address, if there is one.
    pub(super) fn take(
        &mut self,
        address: &Address,
        tls: Option<&TlsServer>,
    ) -> Result<Option<Listener>, Problem> {
        let Some(place) = self.0.iter().position(|socket| socket.is_at(address)) else {
            return Ok(None);
        };
        self.0.swap_remove(place).into_listener(address, tls).map(Some)
    }

    /// Takes all other sockets.
    pub(super) fn rest(self, tls: Option<&TlsServer>) -> Result<Vec<Listener>, Problem> {
        let plain = |socket: Socket| {
            let scheme = match &socket {
                Socket::Tcp(_, name) if OVER_TCP.contains(&&**name) => name,
                _ => "tcp",
            };
            let address: Result<Address, _> = format!("{scheme}://127.0.0.1:0").parse();
            let address = address.map_err(|error| Problem::failure(format!("{error}")))?;
            let tls = tls::needed(&address, tls)?;
            socket.into_listener(&address, tls)
        };
        self.0.into_iter().map(plain).collect()
    }
}

impl Socket {
    fn listens(&self) -> bool {
        listens(match self {
            Socket::Tcp(socket, _) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        })
    }

    fn is_at(&self, address: &Address) -> bool {
        match (self, address) {
            (
                Socket::Tcp(socket, _),
                Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _),
            ) => socket.local_addr().is_ok_and(|at| {
                let mut wanted = (place.host.as_str(), place.port).to_socket_addrs();
                wanted.as_mut().is_ok_and(|wanted| wanted.any(|wanted| wanted == at))
            }),
            (Socket::Unix(socket), Address::Unix(path)) => {
                socket.local_addr().is_ok_and(|at| at.as_pathname() == Some(path))
            }
            _ => false,
        }
    }

    fn into_listener(
        self,
        address: &Address,
        tls: Option<&TlsServer>,
    ) -> Result<Listener, Problem> {
        let listener = match self {
            Socket::Tcp(socket, _) => match tls.cloned() {
                Some(tls) => Listener::tls(tls).take_tcp(socket, address),
                None => Listener::from_tcp(socket, address),
            },
            Socket::Unix(socket) => Listener::from_unix(socket),
        };
        listener
            .map_err(|error| Problem::failure(format!("cannot use an inherited socket: {error}")))
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
