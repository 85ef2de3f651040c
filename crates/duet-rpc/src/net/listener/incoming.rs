//! Incoming connection, before it is opened.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
#[cfg(any(feature = "http", feature = "websocket"))]
use std::sync::Arc;
#[cfg(feature = "websocket")]
use std::sync::atomic::AtomicBool;
#[cfg(feature = "http")]
use std::time::Duration;

use duet_rpc_proto::Profile;

use super::browser_guard::BrowserGuard;
#[cfg(feature = "tls")]
use super::secure::{REFUSAL, Secured};
use super::users::AllowedUsers;
use super::{Listener, Speaks};
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::net::AccessPolicy;
use crate::net::Socket;
#[cfg(feature = "websocket")]
use crate::net::http::handshake;
#[cfg(feature = "http")]
use crate::net::http::{Protocols, Rules};
#[cfg(feature = "http")]
use crate::net::web::HttpRefusal;
#[cfg(feature = "http")]
use crate::net::{HttpService, Hub, unsupported};
use crate::remote::Remote;
use crate::sys::local::LocalAccepted;
use crate::transport::Transport;

/// The number of bytes that are read from a refused remote.
const SKIPPED: usize = 64 * 1024;

/// An accepted connection on which nothing has been sent. It can move to another runtime before it is
/// [opened](Incoming::open).
#[must_use = "a connection that is dropped is closed"]
pub struct Incoming {
    accepted: Accepted,
    speaks: Speaks,
    #[cfg(feature = "tls")]
    secured: Option<Secured>,
    users: AllowedUsers,
    #[cfg(any(feature = "http", feature = "websocket"))]
    access: Arc<AccessPolicy>,
    #[cfg(feature = "http")]
    idle_timeout: Option<Duration>,
    #[cfg(feature = "websocket")]
    going_away: Arc<AtomicBool>,
}

/// A socket that is not registered with a runtime.
pub(super) enum Accepted {
    Tcp(std::net::TcpStream, SocketAddr),
    Local(LocalAccepted),
}

impl Incoming {
    pub(super) fn new(accepted: Accepted, listener: &Listener) -> Self {
        Incoming {
            accepted,
            speaks: listener.speaks.clone(),
            #[cfg(feature = "tls")]
            secured: Secured::at(listener),
            users: listener.users.clone(),
            #[cfg(any(feature = "http", feature = "websocket"))]
            access: Arc::clone(&listener.access),
            #[cfg(feature = "http")]
            idle_timeout: listener.idle_timeout,
            #[cfg(feature = "websocket")]
            going_away: Arc::clone(&listener.going_away),
        }
    }

    /// The remote, as far as it is known before it has sent anything: its address, or the user of a Unix
    /// socket. The identity of a WebSocket is known once it is [opened](Incoming::open).
    pub fn remote(&self) -> Remote {
        match &self.accepted {
            Accepted::Tcp(_, from) => Remote::new().with_addr(*from),
            Accepted::Local(socket) => {
                socket.identity().into_iter().fold(Remote::new(), Remote::with_identity)
            }
        }
    }

    /// Checks that the remote's user may connect. Only Unix sockets know the user.
    pub(crate) fn check_user(&self) -> io::Result<()> {
        match &self.accepted {
            Accepted::Tcp(..) => Ok(()),
            Accepted::Local(_) => self.users.check(&self.remote()),
        }
    }

    /// Opens the connection; returns its transport and its remote. This includes the handshakes of TLS and
    /// WebSocket, each of which takes no longer than the profile's [`read_timeout`](Profile::read_timeout), or
    /// than 30 s if it has none. Give the remote to [`PeerBuilder::remote`](crate::PeerBuilder::remote).
    ///
    /// HTTP has no lasting connection, so it fails with `Unsupported` for a listener at an `http://` address.
    /// Use [`Hub::serve`](crate::Hub::serve), or an `HttpService`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    pub async fn open(self, profile: &Profile) -> io::Result<(Box<dyn Transport>, Remote)> {
        self.check_user()?;
        #[cfg(feature = "websocket")]
        let is_secure = self.is_secure();
        let (speaks, remote) = (self.speaks.clone(), self.remote());
        #[cfg(feature = "websocket")]
        let (access, going_away) = (Arc::clone(&self.access), Arc::clone(&self.going_away));
        let (socket, remote) = self.open_socket(remote, profile).await?;
        match speaks {
            Speaks::Frames => Ok((Box::new(BrowserGuard::new(socket)), remote)),
            #[cfg(feature = "http")]
            Speaks::Http(_) => Err(unsupported(
                "HTTP has no lasting connection: serve the listener with a Hub, or use http::service",
            )),
            #[cfg(feature = "websocket")]
            Speaks::WebSocket(target) => {
                let path = Some(target.path().into());
                let rules = Rules::new(access, path, Protocols::WebSocket, profile);
                let rules = rules.secure(is_secure);
                let (transport, remote) = handshake(socket, rules, remote, profile).await?;
                Ok((Box::new(transport.going_away(going_away)), remote))
            }
        }
    }

    /// Registers the socket with the runtime, and makes the handshake of TLS.
    async fn open_socket(self, remote: Remote, profile: &Profile) -> io::Result<(Socket, Remote)> {
        let socket = self.accepted.into_socket()?;
        #[cfg(feature = "tls")]
        if let Some(secured) = self.secured {
            return secured.open(socket, remote, profile).await;
        }
        #[cfg(not(feature = "tls"))]
        let _ = profile;
        Ok((socket, remote))
    }

    /// Returns `true` if it begins with the handshake of TLS.
    #[cfg(feature = "http")]
    fn is_secure(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.secured.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Returns `true` if it speaks HTTP.
    #[cfg(feature = "http")]
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.speaks, Speaks::Http(_))
    }

    /// Serves the requests of a connection that speaks HTTP.
    #[cfg(feature = "http")]
    pub(crate) async fn serve_http(self, hub: Hub) {
        let Speaks::Http(target) = &self.speaks else { return };
        let (access, path) = (Arc::clone(&self.access), Some(target.path().into()));
        let rules = Rules::new(access, path, Protocols::Http, hub.profile());
        let rules = rules.secure(self.is_secure());
        let service = HttpService::with_rules(hub.clone(), rules, self.idle_timeout);
        let remote = self.remote();
        // Boxed, so that the memory for opening is freed while the connection is open.
        let opening = Box::pin(self.open_socket(remote, hub.profile()));
        match hub.until_stop(opening).await {
            Some(Ok((socket, remote))) => service.serve_socket(socket, remote).await,
            Some(Err(error)) => tracing::debug!(%error, "cannot open a connection"),
            None => {}
        }
    }

    /// Sends the reason for a refusal immediately: this frame, HTTP status 503, or an alert of TLS. Nothing was sent on
    /// the connection before, so the system takes these few bytes without a wait.
    pub(crate) fn refuse(self, frame: &[u8]) -> RefusedConnection {
        let reason = match self.speaks {
            #[cfg(feature = "tls")]
            _ if self.secured.is_some() => Cow::Borrowed(REFUSAL),
            Speaks::Frames => Cow::Borrowed(frame),
            #[cfg(feature = "http")]
            _ => Cow::Owned(HttpRefusal::BUSY.to_bytes()),
        };
        // The remote may be gone, and then does not get the reason.
        let _ = self.accepted.write_last(&reason);
        RefusedConnection(self.accepted)
    }
}

/// A refused connection that is still to be closed. The reason has been sent.
pub(crate) struct RefusedConnection(Accepted);

impl RefusedConnection {
    /// Closes it when the remote has had a moment to read the reason. Closing while it still sends would
    /// reset the connection, and the remote might lose the reason.
    pub(crate) async fn linger(self) -> io::Result<()> {
        let mut socket = self.0.into_socket()?;
        poll_fn(|cx| socket.poll_shutdown(cx)).await;
        Ok(())
    }

    /// Closes it immediately. Bytes that have come are read first, so that they do not reset the
    /// connection.
    pub(crate) fn close(self) {
        self.0.skip();
    }
}

impl Accepted {
    /// Writes these bytes, and closes the direction of writing.
    fn write_last(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Accepted::Tcp(stream, _) => {
                { stream }.write_all(bytes)?;
                stream.shutdown(Shutdown::Write)
            }
            Accepted::Local(stream) => stream.write_last(bytes),
        }
    }

    /// Reads and drops the bytes that have come, up to a bound.
    fn skip(&self) {
        let mut buffer = [0; 4096];
        for _ in 0..SKIPPED / buffer.len() {
            let read = match self {
                Accepted::Tcp(stream, _) => { stream }.read(&mut buffer),
                Accepted::Local(stream) => stream.read_now(&mut buffer),
            };
            if !matches!(read, Ok(1..)) {
                break;
            }
        }
    }

    fn into_socket(self) -> io::Result<Socket> {
        match self {
            Accepted::Tcp(stream, _) => tokio::net::TcpStream::from_std(stream).map(Socket::tcp),
            Accepted::Local(stream) => stream.into_stream().map(Socket::local),
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("remote", &self.remote()).finish_non_exhaustive()
    }
}
