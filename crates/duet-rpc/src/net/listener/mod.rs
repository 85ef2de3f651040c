//! Listener: accepts connections.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | a listening socket |
//! | `bind` | binding it safely |
//! | `file` | the file of a Unix socket: when it may be replaced and removed |
//! | `browser_guard` | closes TCP connections that begin as HTTP |
//! | `incoming` | an accepted connection, and the protocol on it |
//! | `secure` | listeners with TLS, and their handshake |
//! | `users` | users that may connect to a Unix socket |
//! | `reserve` | a spare descriptor, to refuse connections when no other is free |

mod bind;
mod browser_guard;
mod file;
mod incoming;
#[cfg(unix)]
mod reserve;
#[cfg(feature = "tls")]
mod secure;
mod users;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
#[cfg(feature = "http")]
use std::time::Duration;

#[cfg(feature = "tls")]
use super::TlsServer;
use super::address::resolve;
#[cfg(feature = "http")]
use super::web::IDLE;
#[cfg(any(feature = "http", feature = "websocket"))]
use super::{AccessPolicy, Target};
use super::{Address, AddressError, Place, unsupported};
#[cfg(unix)]
use file::SocketFile;
use incoming::Accepted;
pub use incoming::Incoming;
#[cfg(unix)]
pub(crate) use reserve::Reserve;
#[cfg(feature = "tls")]
pub use secure::TlsBinder;
use users::AllowedUsers;

/// A listening socket, for TCP, Unix sockets, WebSocket or HTTP, and with TLS.
///
/// It is safe by default: it listens on this machine only unless asked otherwise, a Unix socket is for
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

/// The protocol of a connection.
#[derive(Clone)]
enum Speaks {
    /// Frames, in the framing of the profile.
    Frames,
    #[cfg(feature = "websocket")]
    WebSocket(Target),
    #[cfg(feature = "http")]
    Http(Target),
}

/// A socket. It is registered with the runtime at the first attempt to accept.
enum Bound {
    Tcp(std::net::TcpListener),
    TcpActive(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener, SocketFile),
    #[cfg(unix)]
    UnixActive(tokio::net::UnixListener, SocketFile),
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
            Address::Unix(path) => (bind::unix(path)?, address.clone()),
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
            Address::Stdio | Address::Unix(_) => Address::Tcp(place),
        };
        Ok(Self::new(address, Bound::Tcp(socket), speaks))
    }

    /// Takes over a listening Unix socket. It leaves the socket's file alone, which belongs to the
    /// process that made it.
    #[cfg(unix)]
    pub fn from_unix(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let at = socket.local_addr()?;
        let path = at.as_pathname().map_or_else(|| abstract_name(&at), Into::into);
        let socket = Bound::Unix(socket, SocketFile::of_another());
        Ok(Self::new(Address::Unix(path), socket, Speaks::Frames))
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
            Address::Stdio | Address::Tcp(_) | Address::Unix(_) => access,
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
        #[cfg(unix)]
        if let Bound::Unix(_, file) | Bound::UnixActive(_, file) = &self.socket
            && self.users.includes_others()
        {
            file.open_to_all()?;
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
        let accepted = match &self.socket {
            Bound::TcpActive(socket) => {
                let (stream, from) = ready!(socket.poll_accept(cx))?;
                Accepted::Tcp(stream.into_std()?, from)
            }
            #[cfg(unix)]
            Bound::UnixActive(socket, _) => {
                let (stream, _) = ready!(socket.poll_accept(cx))?;
                // Without credentials it is still accepted: the mode of the file controls access.
                let user = stream.peer_cred().ok();
                Accepted::Unix(stream.into_std()?, user)
            }
            _ => return Poll::Ready(Err(unsupported("the listener is closed"))),
        };
        Poll::Ready(Ok(Incoming::new(accepted, self)))
    }

    /// Registers the socket with the runtime.
    fn activate(&mut self) -> io::Result<()> {
        self.socket = match std::mem::replace(&mut self.socket, Bound::Gone) {
            Bound::Tcp(socket) => Bound::TcpActive(tokio::net::TcpListener::from_std(socket)?),
            #[cfg(unix)]
            Bound::Unix(socket, file) => {
                Bound::UnixActive(tokio::net::UnixListener::from_std(socket)?, file)
            }
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
    #[cfg(unix)]
    pub(crate) fn remover(&self) -> Option<impl Fn() + Send + Sync + use<>> {
        match &self.socket {
            Bound::Unix(_, file) | Bound::UnixActive(_, file) => Some(file.remover()),
            _ => None,
        }
    }
}

/// The name of a Unix socket without a path, with the `@` that systemd writes before it; empty if there
/// is none.
#[cfg(target_os = "linux")]
fn abstract_name(at: &std::os::unix::net::SocketAddr) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;

    let named = |name: &[u8]| OsStr::from_bytes(&[b"@", name].concat()).into();
    at.as_abstract_name().map(named).unwrap_or_default()
}

#[cfg(all(unix, not(target_os = "linux")))]
fn abstract_name(_: &std::os::unix::net::SocketAddr) -> PathBuf {
    PathBuf::new()
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

impl Speaks {
    fn at(address: &Address) -> io::Result<Speaks> {
        match address {
            Address::Stdio | Address::Tcp(_) | Address::Unix(_) => Ok(Speaks::Frames),
            #[cfg(feature = "websocket")]
            Address::WebSocket(_, target) => Ok(Speaks::WebSocket(target.clone())),
            #[cfg(not(feature = "websocket"))]
            Address::WebSocket(..) => Err(unsupported("the feature `websocket` is not built in")),
            #[cfg(feature = "http")]
            Address::Http(_, target) => Ok(Speaks::Http(target.clone())),
            #[cfg(not(feature = "http"))]
            Address::Http(..) => Err(unsupported("the feature `http` is not built in")),
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
