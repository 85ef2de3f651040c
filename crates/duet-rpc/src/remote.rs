//! Remote: address and identity of the other end of a connection.

use std::fmt;
#[cfg(feature = "http")]
use std::hash::{BuildHasher, RandomState};
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
    trace_context: Option<Arc<str>>,
    #[cfg(feature = "http")]
    mark: Option<TokenMark>,
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

    /// Sets the [trace context](Remote::trace_context) of the request.
    #[must_use]
    pub fn with_trace_context(mut self, traceparent: &str) -> Self {
        self.trace_context = Some(traceparent.into());
        self
    }

    /// Sets the mark of a token without a name.
    #[cfg(feature = "http")]
    pub(crate) fn with_mark(mut self, mark: Option<TokenMark>) -> Self {
        self.mark = mark;
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

    /// The W3C trace context of the request, the value of its header `traceparent`: behind a NATS broker, over HTTP, and
    /// of the request that began a WebSocket. It is not checked, because a client can send any text.
    pub fn trace_context(&self) -> Option<&str> {
        #[cfg(feature = "http")]
        let in_headers = || self.headers()?.get("traceparent")?.to_str().ok();
        #[cfg(not(feature = "http"))]
        let in_headers = || None;
        self.trace_context.as_deref().or_else(in_headers)
    }

    /// The headers of the HTTP request, or of the request that began the WebSocket; `None` on other transports. Trust
    /// only headers that the access policy has checked: a client can send any header.
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.headers.as_deref().map(RequestHeaders::map)
    }

    /// Returns `true` if another request comes from the same client: it has the same identity and the same MCP
    /// session, or comes from the same address if it has neither. Returns `false` if it also has no address. Requests
    /// with different tokens are never of the same client, even if the tokens have no names.
    pub fn is_same_client(&self, other: &Remote) -> bool {
        let ip = |it: &Remote| it.addr.map(|addr| addr.ip());
        let is_named = self.identity.is_some() || self.session().is_some();
        #[cfg(feature = "http")]
        if self.mark != other.mark {
            return false;
        }
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

/// A number that tells apart tokens without a name, and reveals nothing about them.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenMark(u64);

#[cfg(feature = "http")]
impl TokenMark {
    pub(crate) fn new(secret: &str) -> Self {
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        TokenMark(KEYS.get_or_init(RandomState::new).hash_one(secret))
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
///
/// Its text is the text in the record `connection opened` of the log: `token:NAME`, `uid:NUMBER`, or `cert:SUBJECT`. A
/// certificate without a subject has its fingerprint instead.
///
/// ```
/// use duet_rpc::Identity;
///
/// assert_eq!(Identity::token("ada").to_string(), "token:ada");
/// ```
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
        self.uid().is_some() && self.uid() == crate::sys::files::own_user()
    }

    /// The user id, if the operating system proved it.
    pub fn uid(&self) -> Option<u32> {
        let Identity::UnixUser { uid, .. } = self else { return None };
        Some(*uid)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Token { name } => write!(f, "token:{name}"),
            Identity::UnixUser { uid, .. } => write!(f, "uid:{uid}"),
            Identity::Certificate { subject, fingerprint, .. } => {
                let shown = if subject.is_empty() { fingerprint } else { subject };
                write!(f, "cert:{shown}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;
    #[cfg(feature = "http")]
    use super::{Remote, TokenMark};

    #[test]
    fn t3_an_identity_has_one_line_of_text() {
        let certificate = |subject: &str| Identity::Certificate {
            subject: subject.to_owned(),
            names: vec!["alice.example".to_owned()],
            fingerprint: "0f1e".to_owned(),
        };
        for (identity, text) in [
            (Identity::token("ada"), "token:ada"),
            (Identity::UnixUser { uid: 65534, gid: 1, pid: Some(2) }, "uid:65534"),
            (certificate("CN=alice,O=Example"), "cert:CN=alice,O=Example"),
            (certificate(""), "cert:0f1e"),
        ] {
            assert_eq!(identity.to_string(), text);
        }
    }

    #[cfg(feature = "http")]
    #[test]
    fn t3_requests_with_different_tokens_are_never_of_the_same_client() {
        let remote = |token: Option<&str>, addr: &str| {
            let addr = addr.parse().expect("an address");
            Remote::new().with_addr(addr).with_mark(token.map(TokenMark::new))
        };
        let one = remote(Some("one"), "10.0.0.1:5");
        for (token, addr, is_same) in [
            (Some("one"), "10.0.0.1:6", true),
            (Some("two"), "10.0.0.1:5", false),
            (None, "10.0.0.1:5", false),
            (Some("one"), "10.0.0.2:5", false),
        ] {
            assert_eq!(one.is_same_client(&remote(token, addr)), is_same, "{token:?} {addr}");
        }
    }
}
