//! Remote: address and identity of the other end of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "http")]
use std::sync::OnceLock;

#[cfg(feature = "http")]
use http::{HeaderMap, HeaderName, HeaderValue};

/// The other end of a connection: its address, and its identity if it was authenticated.
///
/// [`Incoming::open`](crate::transport::Incoming::open) returns the remote of an accepted connection. Pass it to
/// [`PeerBuilder::remote`](crate::PeerBuilder::remote). If you accept connections without a listener of this
/// library, make a `Remote` yourself.
///
/// ```
/// use duet_rpc::{Identity, Remote};
///
/// let address = "192.0.2.1:4000".parse().expect("an address");
/// let remote = Remote::new().with_addr(address).with_identity(Identity::token("ci"));
/// assert_eq!(remote.addr(), Some(address));
/// assert_eq!(remote.identity().and_then(Identity::token_name), Some("ci"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Remote {
    addr: Option<SocketAddr>,
    /// Shared, because over HTTP each request carries it.
    identity: Option<Arc<Identity>>,
    #[cfg(feature = "http")]
    headers: Option<Arc<RequestHeaders>>,
}

impl Remote {
    /// A remote without address and identity.
    pub fn new() -> Self {
        Remote::default()
    }

    /// Sets the address from which the remote connected.
    #[must_use]
    pub fn with_addr(mut self, addr: SocketAddr) -> Self {
        self.addr = Some(addr);
        self
    }

    /// Sets the authenticated identity of the remote.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<Arc<Identity>>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the headers of the HTTP request, or of the request that began the WebSocket.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers =
            Some(Arc::new(RequestHeaders { packed: Box::default(), map: headers.into() }));
        self
    }

    /// Sets the headers of the request that began a connection. They are packed, because the connection may be idle for
    /// long, and a map would keep the buffer that they were read into.
    #[cfg(feature = "websocket")]
    pub(crate) fn with_packed_headers(mut self, headers: &HeaderMap) -> Self {
        let lines = headers.iter().map(|(name, value)| {
            [name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"].concat()
        });
        let packed = lines.collect::<Vec<_>>().concat().into_boxed_slice();
        self.headers = Some(Arc::new(RequestHeaders { packed, map: OnceLock::new() }));
        self
    }

    /// The address from which the remote connected over TCP, WebSocket or HTTP. Behind a proxy it is the
    /// address of the proxy.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// The authenticated identity of the remote; `None` if the server did not ask for one. Over HTTP, the token of a
    /// request comes before the certificate of its connection.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    /// The headers of the HTTP request, or of the request that began the WebSocket; `None` on other transports. Trust
    /// only headers that the access policy has checked: a client can send any header.
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.headers.as_deref().map(RequestHeaders::map)
    }

    /// Returns `true` if another request comes from the same client: it has the same identity and the same MCP
    /// session, or comes from the same address if it has neither. Returns `false` if it also has no address.
    pub(crate) fn is_same_client(&self, other: &Remote) -> bool {
        let ip = |it: &Remote| it.addr.map(|addr| addr.ip());
        let is_named = self.identity.is_some() || self.session().is_some();
        self.identity == other.identity
            && self.session() == other.session()
            && (is_named || (ip(self).is_some() && ip(self) == ip(other)))
    }

    /// The MCP session that the client names over HTTP.
    #[cfg(feature = "http")]
    fn session(&self) -> Option<&[u8]> {
        self.headers()?.get("mcp-session-id").map(HeaderValue::as_bytes)
    }

    #[cfg(not(feature = "http"))]
    fn session(&self) -> Option<&[u8]> {
        None
    }
}

/// The headers of a request, converted into a map on demand.
#[cfg(feature = "http")]
struct RequestHeaders {
    /// A line for each header. No value contains a line end.
    packed: Box<[u8]>,
    map: OnceLock<HeaderMap>,
}

#[cfg(feature = "http")]
impl RequestHeaders {
    fn map(&self) -> &HeaderMap {
        self.map.get_or_init(|| {
            let lines = self.packed.split(|byte| *byte == b'\n');
            let headers = lines.filter_map(|line| {
                let end = line.iter().position(|byte| *byte == b':')?;
                let (name, value) = (line.get(..end)?, line.get(end + 1..)?);
                Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
            });
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(name, value);
            }
            map
        })
    }
}

#[cfg(feature = "http")]
impl PartialEq for RequestHeaders {
    fn eq(&self, other: &Self) -> bool {
        self.map() == other.map()
    }
}

#[cfg(feature = "http")]
impl Eq for RequestHeaders {}

impl fmt::Debug for Remote {
    /// Shows no header, because some are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Remote");
        shown.field("addr", &self.addr).field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// An authenticated identity, for access decisions and audit logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// The remote has shown the token of this name over WebSocket or HTTP; see `AccessPolicy::named_token`.
    Token {
        /// The name of the token, which is not secret.
        name: String,
    },
    /// The remote is a process of this user, connected through a Unix socket. The operating system proves it.
    UnixUser {
        /// The effective user id of the process at the time of the connection.
        uid: u32,
        /// The effective group id of the process at that time.
        gid: u32,
        /// The process id, on systems that report it. The process may have ended since, and another process
        /// may have the same id: use it for logs, not for access decisions.
        pid: Option<u32>,
    },
    /// The remote has shown a client certificate over TLS. An authority that the server trusts for clients has signed
    /// the certificate, and the remote has proved to have its key; see `TlsServer::client_ca`.
    Certificate {
        /// The subject, as RFC 4514 writes it: `CN=alice,O=Example`. It is empty if the certificate has none.
        subject: String,
        /// The DNS names and URIs among the subject alternative names.
        names: Vec<String>,
        /// SHA-256 of the certificate, as 64 hexadecimal digits.
        fingerprint: String,
    },
}

impl Identity {
    /// The identity of a remote that sent the token of this name.
    pub fn token(name: impl Into<String>) -> Self {
        Identity::Token { name: name.into() }
    }

    /// The name of the token, if a token proved the identity.
    pub fn token_name(&self) -> Option<&str> {
        let Identity::Token { name } = self else { return None };
        Some(name)
    }

    /// Returns `true` if the remote runs as the user of this process: the operating system proved its user id,
    /// and the id is the effective user id of this process. A server on a Unix socket that serves one user checks
    /// this.
    pub fn is_own_user(&self) -> bool {
        #[cfg(unix)]
        let own = Some(rustix::process::geteuid().as_raw());
        #[cfg(not(unix))]
        let own = None;
        self.uid().is_some() && self.uid() == own
    }

    /// The user id, if the operating system proved it.
    pub fn uid(&self) -> Option<u32> {
        let Identity::UnixUser { uid, .. } = self else { return None };
        Some(*uid)
    }
}
