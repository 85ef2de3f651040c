//! Remote: address and identity of the other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    addr: Option<SocketAddr>,
    /// Shared, because over HTTP each request carries it.
    identity: Option<Arc<Identity>>,
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

    /// The address from which the remote connected over TCP, WebSocket or HTTP. Behind a proxy it is the
    /// address of the proxy.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// The authenticated identity of the remote; `None` if the server did not ask for one. Over HTTP each
    /// request with a token has its own identity, and the connection has one only by a client certificate.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
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
    /// The remote has shown a client certificate over TLS, signed by an authority that the server trusts for that, and
    /// has proved to have its key; see `TlsServer::client_ca`.
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
        match self {
            Identity::Token { name } => Some(name),
            Identity::UnixUser { .. } | Identity::Certificate { .. } => None,
        }
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
        match self {
            Identity::UnixUser { uid, .. } => Some(*uid),
            Identity::Token { .. } | Identity::Certificate { .. } => None,
        }
    }
}
