//! Listener: accepts connections.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | a listening socket |
//! | `bind` | binding it safely |
//! | `browser_guard` | closes TCP connections that begin as HTTP |
//! | `incoming` | an accepted connection, and the protocol on it |
//! | `secure` | listeners with TLS, and their handshake |
//! | `users` | users that may connect to a Unix socket |

mod bind;
mod browser_guard;
mod incoming;
#[cfg(feature = "tls")]
mod secure;
mod speaks;
mod users;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
#[cfg(feature = "http")]
use std::time::Duration;

#[cfg(any(feature = "http", feature = "websocket"))]
use super::AccessPolicy;
#[cfg(feature = "tls")]
use super::TlsServer;
use super::address::resolve;
#[cfg(feature = "http")]
use super::web::IDLE;
use super::{Address, AddressError, NATS, Place, unsupported};
use crate::sys::local::LocalListener;
use incoming::Accepted;
pub use incoming::Incoming;
#[cfg(feature = "tls")]
pub use secure::TlsBinder;
use speaks::Speaks;
use users::AllowedUsers;
pub(in crate::net) use users::RefusedUsers;

/// A listening socket, for TCP, Unix sockets, named pipes, WebSocket or HTTP, and with TLS.
///
/// It is safe by default: it listens on this machine only unless asked otherwise, a Unix socket or a named pipe is for
/// its user alone, and WebSocket and HTTP, which web pages can reach, refuse web pages.
///
/// ```
/// use duet_rpc::{Peer, Profile, Router, transport::Listener};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
/// let mut listener = Listener::bind("tcp://127.0.0.1:0")?;
/// println!("listening on {}", listener.address());
/// # let address = listener.address().clone();
/// # tokio::spawn(async move {
/// #     duet_rpc::transport::Connector::new(address)?.connect(&Profile::agent()).await
/// # });
///
/// let incoming = listener.accept().await?;
/// let (transport, remote) = incoming.open(&Profile::agent()).await?;
/// let client = Peer::builder(transport).remote(remote).router(router.clone()).spawn();
/// # drop(client);
/// # Ok(())
/// # }
/// ```
pub struct Listener {
    address: Address,
    socket: Bound,
    speaks: Speaks,
    /// Set if and only if the address is secure.
    #[cfg(feature = "tls")]
    tls: Option<TlsServer>,
    users: AllowedUsers,
    #[cfg(any(feature = "http", feature = "websocket"))]
    access: Arc<AccessPolicy>,
    #[cfg(feature = "http")]
    idle_timeout: Option<Duration>,
    /// `true` if a close tells clients that this server goes away.
    #[cfg(feature = "websocket")]
    going_away: Arc<AtomicBool>,
}

/// A socket. It is registered with the runtime at the first attempt to accept.
enum Bound {
    Tcp(std::net::TcpListener),
    TcpActive(tokio::net::TcpListener),
    Local(LocalListener),
    Gone,
}

impl Listener {
    /// Listens at this address, if only this machine can reach it.
    pub fn bind(address: impl TryInto<Address, Error: Into<AddressError>>) -> io::Result<Self> {
        Self::bind_with(&must_be_plain(resolve(address)?)?, Reach::Loopback)
    }

    /// Listens at this address, even if other machines can reach it. Every program that can reach it can
    /// call it: TCP has no access control. For WebSocket and HTTP, set an `access` policy
    /// with a token.
    pub fn bind_anywhere(
        address: impl TryInto<Address, Error: Into<AddressError>>,
    ) -> io::Result<Self> {
        Self::bind_with(&must_be_plain(resolve(address)?)?, Reach::Anywhere)
    }

    fn bind_with(address: &Address, reach: Reach) -> io::Result<Self> {
        let speaks = Speaks::at(address)?;
        let (socket, address) = match address {
            Address::Stdio => return Err(unsupported("cannot listen on stdin and stdout")),
            Address::Nats(..) => return Err(unsupported(NATS)),
            Address::Unix(path) => {
                return Ok(Self::over_local(LocalListener::bind_unix(path)?, address.clone()));
            }
            Address::Pipe(name) => {
                return Ok(Self::over_local(LocalListener::bind_pipe(name)?, address.clone()));
            }
            Address::Tcp(place) | Address::WebSocket(place, _) | Address::Http(place, _) => {
                let socket = bind::tcp(place, reach)?;
                let port = socket.local_addr()?.port();
                (Bound::Tcp(socket), address.at_port(port))
            }
        };
        Ok(Self::new(address, socket, speaks))
    }

    /// Takes over a listening TCP socket, such as an inherited one, and speaks the protocol of this address on it.
    /// The host and port of the address are ignored; the socket has its own.
    pub fn from_tcp(
        socket: std::net::TcpListener,
        address: impl TryInto<Address, Error: Into<AddressError>>,
    ) -> io::Result<Self> {
        Self::over_tcp(socket, must_be_plain(resolve(address)?)?)
    }

    fn over_tcp(socket: std::net::TcpListener, address: Address) -> io::Result<Self> {
        let (speaks, at) = (Speaks::at(&address)?, socket.local_addr()?);
        socket.set_nonblocking(true)?;
        let place = Place::new(at.ip().to_string(), at.port());
        let address = match address {
            Address::WebSocket(given, target) => {
                Address::WebSocket(place.with(given.security), target)
            }
            Address::Http(given, target) => Address::Http(place.with(given.security), target),
            Address::Tcp(given) => Address::Tcp(place.with(given.security)),
            Address::Stdio | Address::Unix(_) | Address::Pipe(_) | Address::Nats(..) => {
                Address::Tcp(place)
            }
        };
        Ok(Self::new(address, Bound::Tcp(socket), speaks))
    }

    /// A listener over a local socket at this address.
    pub(crate) fn over_local(socket: LocalListener, address: Address) -> Self {
        Self::new(address, Bound::Local(socket), Speaks::Frames)
    }

    fn new(address: Address, socket: Bound, speaks: Speaks) -> Self {
        let listener = Listener {
            address,
            socket,
            speaks,
            #[cfg(feature = "tls")]
            tls: None,
            users: AllowedUsers::default(),
            #[cfg(any(feature = "http", feature = "websocket"))]
            access: Arc::default(),
            #[cfg(feature = "http")]
            idle_timeout: Some(IDLE),
            #[cfg(feature = "websocket")]
            going_away: Arc::default(),
        };
        #[cfg(any(feature = "http", feature = "websocket"))]
        let listener = listener.access(AccessPolicy::default());
        listener
    }

    /// Sets the access policy for WebSocket and HTTP.
    #[cfg(any(feature = "http", feature = "websocket"))]
    #[must_use]
    pub fn access(mut self, access: AccessPolicy) -> Self {
        let access = match &self.address {
            // Clients that connect by this name send it as their `Host`.
            Address::WebSocket(place, _) | Address::Http(place, _) => {
                access.allow_host(&place.host)
            }
            Address::Stdio
            | Address::Tcp(_)
            | Address::Unix(_)
            | Address::Pipe(_)
            | Address::Nats(..) => access,
        };
        self.access = Arc::new(match self.local_ip() {
            Some(ip) => access.bound_to(ip),
            None => access,
        });
        self
    }

    /// Sets the idle timeout of HTTP connections; see [`HttpService::idle_timeout`](crate::http::HttpService::idle_timeout).
    #[cfg(feature = "http")]
    #[must_use]
    pub fn idle_timeout(mut self, idle_timeout: Option<Duration>) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Accepts only processes of these users on a Unix socket. The operating system proves the user id. A
    /// [`Hub`](crate::Hub) answers others with an error, and logs their user id; [`Incoming::open`] fails. The user of
    /// this process has to be in the list, too. Other transports do not know the user, and ignore this.
    ///
    /// If the list contains another user, the mode of the socket's file becomes 0666, so that the user can connect: the
    /// list takes over from the mode. The mode of a socket that another process made stays.
    ///
    /// ```no_run
    /// use duet_rpc::transport::Listener;
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("unix:///run/agent/socket")?.allow_uids([0, 1000])?;
    /// # drop(listener);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_uids(mut self, uids: impl IntoIterator<Item = u32>) -> io::Result<Self> {
        self.users = AllowedUsers::new(uids);
        if let Bound::Local(socket) = &self.socket
            && self.users.includes_others()
        {
            socket.open_to_all()?;
        }
        Ok(self)
    }

    /// The address that it listens at, with its actual port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns `true` if only programs on this machine can reach it.
    pub fn is_local(&self) -> bool {
        self.local_ip().is_none_or(|ip| ip.is_loopback())
    }

    fn local_ip(&self) -> Option<IpAddr> {
        let at = match &self.socket {
            Bound::Tcp(socket) => socket.local_addr(),
            Bound::TcpActive(socket) => socket.local_addr(),
            _ => return None,
        };
        // An address that cannot be read is not known to be safe.
        Some(at.map_or(IpAddr::from([0, 0, 0, 0]), |at| at.ip()))
    }

    /// Waits for a connection. It may be called again after an error: the connection may be gone already,
    /// or the process may have too many open files at the moment.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O enabled.
    pub async fn accept(&mut self) -> io::Result<Incoming> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Polls for a connection; see [`accept`](Self::accept).
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Incoming>> {
        self.activate()?;
        let accepted = match &mut self.socket {
            Bound::TcpActive(socket) => {
                let (stream, from) = ready!(socket.poll_accept(cx))?;
                Accepted::Tcp(stream.into_std()?, from)
            }
            Bound::Local(socket) => Accepted::Local(ready!(socket.poll_accept(cx))?),
            _ => return Poll::Ready(Err(unsupported("the listener is closed"))),
        };
        Poll::Ready(Ok(Incoming::new(accepted, self)))
    }

    /// Registers the socket with the runtime.
    fn activate(&mut self) -> io::Result<()> {
        self.socket = match std::mem::replace(&mut self.socket, Bound::Gone) {
            Bound::Tcp(socket) => Bound::TcpActive(tokio::net::TcpListener::from_std(socket)?),
            active => active,
        };
        Ok(())
    }

    /// Once this flag is set, closing a connection tells its client that this server goes away.
    pub(crate) fn leave_with(&mut self, going_away: &Arc<AtomicBool>) {
        #[cfg(feature = "websocket")]
        {
            self.going_away = Arc::clone(going_away);
        }
        #[cfg(not(feature = "websocket"))]
        let _ = going_away;
    }

    /// A function that removes the file of a Unix socket, for a forced exit, which drops nothing.
    pub(crate) fn remover(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        match &self.socket {
            Bound::Local(socket) => socket.remover(),
            _ => None,
        }
    }
}

/// Fails for an address with TLS, which needs a certificate.
fn must_be_plain(address: Address) -> io::Result<Address> {
    if !address.is_secure() {
        return Ok(address);
    }
    #[cfg(feature = "tls")]
    let why = "TLS needs a certificate and a key: bind it with `Listener::tls`";
    #[cfg(not(feature = "tls"))]
    let why = "the feature `tls` is not built in";
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("cannot listen on {address}: {why}")))
}

/// The programs that can reach a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Loopback,
    Anywhere,
}

impl Reach {
    fn allows(self, address: &SocketAddr) -> bool {
        self == Reach::Anywhere || address.ip().is_loopback()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
