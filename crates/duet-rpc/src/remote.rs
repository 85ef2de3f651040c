//! Remote: the other end of a connection, as far as it is known.

use std::net::SocketAddr;
use std::sync::Arc;

/// The other end of a connection: its address, and its identity if it was authenticated.
///
/// [`Incoming::open`](crate::transport::Incoming::open) tells it of a connection that came in. If you
/// accept connections yourself, make one, and give it to
/// [`PeerBuilder::remote`](crate::PeerBuilder::remote).
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
    /// Shared, because HTTP tells it with each request.
    identity: Option<Arc<Identity>>,
}

impl Remote {
    /// A remote of which nothing is known.
    pub fn new() -> Self {
        Remote::default()
    }

    /// Sets the address that it connected from.
    #[must_use]
    pub fn with_addr(mut self, addr: SocketAddr) -> Self {
        self.addr = Some(addr);
        self
    }

    /// Sets the identity that it has proved.
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<Arc<Identity>>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The address that it connected from, over TCP, WebSocket and HTTP. Behind a proxy that is the
    /// address of the proxy.
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// The identity that it has proved; `None` if it did not have to. Over HTTP each request has an
    /// identity of its own, and the connection has none.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }
}

/// An identity that was authenticated, for access decisions and audit logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Identity {
    /// The remote has shown the token of this name over WebSocket or HTTP; see `AccessPolicy::named_token`.
    Token {
        /// The name of the token, which is not secret.
        name: String,
    },
    /// The remote is a process of this user, connected through a Unix socket. The system vouches for it.
    UnixUser {
        /// The effective user id that the process had when it connected.
        uid: u32,
        /// Its effective group id at that time.
        gid: u32,
        /// Its process id, where the system tells it. The process may have ended since, and another may
        /// have its id: log this, and base no decision on it.
        pid: Option<u32>,
    },
}

impl Identity {
    /// The identity of whoever has shown the token of this name.
    pub fn token(name: impl Into<String>) -> Self {
        Identity::Token { name: name.into() }
    }

    /// The name of the token, if a token proved it.
    pub fn token_name(&self) -> Option<&str> {
        match self {
            Identity::Token { name } => Some(name),
            Identity::UnixUser { .. } => None,
        }
    }

    /// Whether it is the user of this process: the system proved it, and the user id is the effective one of this
    /// process. For a server on a Unix socket that serves one user.
    pub fn is_own_user(&self) -> bool {
        #[cfg(unix)]
        let own = Some(rustix::process::geteuid().as_raw());
        #[cfg(not(unix))]
        let own = None;
        self.uid().is_some() && self.uid() == own
    }

    /// The user id, if the system proved it.
    pub fn uid(&self) -> Option<u32> {
        match self {
            Identity::UnixUser { uid, .. } => Some(*uid),
            Identity::Token { .. } => None,
        }
    }
}
