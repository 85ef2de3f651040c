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

use duet_rpc_proto::Profile;
#[cfg(feature = "websocket")]
use duet_rpc_proto::ws::Role;
#[cfg(unix)]
use tokio::net::unix::UCred;

use super::browser_guard::BrowserGuard;
#[cfg(feature = "tls")]
use super::secure::{REFUSAL, Secured};
use super::{Listener, Speaks};
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::net::AccessPolicy;
#[cfg(feature = "http")]
use crate::net::HttpServer;
use crate::net::Socket;
#[cfg(feature = "websocket")]
use crate::net::WebSocket;
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::net::web::{HttpRefusal, final_response};
#[cfg(feature = "websocket")]
use crate::net::web::{IDLE, Upgraded, upgrade};
#[cfg(unix)]
use crate::remote::Identity;
use crate::remote::Remote;
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
    #[cfg(any(feature = "http", feature = "websocket"))]
    access: Arc<AccessPolicy>,
    #[cfg(feature = "websocket")]
    going_away: Arc<AtomicBool>,
}

/// A socket that is not registered with a runtime.
pub(super) enum Accepted {
    Tcp(std::net::TcpStream, SocketAddr),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream, Option<UCred>),
}

impl Incoming {
    pub(super) fn new(accepted: Accepted, listener: &Listener) -> Self {
        Incoming {
            accepted,
            speaks: listener.speaks.clone(),
            #[cfg(feature = "tls")]
            secured: Secured::at(listener),
            #[cfg(any(feature = "http", feature = "websocket"))]
            access: Arc::clone(&listener.access),
            #[cfg(feature = "websocket")]
            going_away: Arc::clone(&listener.going_away),
        }
    }

    /// The remote, as far as it is known before it has sent anything: its address, or the user of a Unix
    /// socket. The identity of a WebSocket is known once it is [opened](Incoming::open).
    pub fn remote(&self) -> Remote {
        match &self.accepted {
            Accepted::Tcp(_, from) => Remote::new().with_addr(*from),
            #[cfg(unix)]
            Accepted::Unix(_, None) => Remote::new(),
            #[cfg(unix)]
            Accepted::Unix(_, Some(user)) => Remote::new().with_identity(Identity::UnixUser {
                uid: user.uid(),
                gid: user.gid(),
                pid: user.pid().and_then(|pid| pid.try_into().ok()),
            }),
        }
    }

    /// Opens the connection; returns its transport and its remote. This includes the handshakes of TLS and
    /// WebSocket, each of which takes no longer than the profile's [`read_timeout`](Profile::read_timeout), or
    /// than 30 s if it has none. Give the remote to [`PeerBuilder::remote`](crate::PeerBuilder::remote).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    #[cfg_attr(
        not(any(feature = "http", feature = "tls", feature = "websocket")),
        expect(unused_variables, reason = "sockets alone need no settings")
    )]
    pub async fn open(self, profile: &Profile) -> io::Result<(Box<dyn Transport>, Remote)> {
        let remote = self.remote();
        let is_tcp = matches!(self.accepted, Accepted::Tcp(..));
        let socket = self.accepted.into_socket()?;
        #[cfg(feature = "tls")]
        let (socket, remote) = match self.secured {
            Some(secured) => secured.open(socket, remote, profile).await?,
            None => (socket, remote),
        };
        match self.speaks {
            Speaks::Frames if is_tcp => Ok((Box::new(BrowserGuard::new(socket)), remote)),
            Speaks::Frames => Ok((Box::new(socket), remote)),
            #[cfg(feature = "http")]
            Speaks::Http(target) => {
                Ok((Box::new(HttpServer::new(socket, self.access, &target, profile)), remote))
            }
            #[cfg(feature = "websocket")]
            Speaks::WebSocket(target) => {
                let (path, limit) = (target.path(), profile.limits.header_bytes);
                let patience = profile.read_timeout.unwrap_or(IDLE);
                let agreed = upgrade(socket, &self.access, path, limit, patience);
                let Upgraded { socket, rest, identity } = agreed.await?;
                let transport = WebSocket::new(socket, Role::Server, profile, rest);
                let transport = transport.going_away(self.going_away);
                let remote = identity.into_iter().fold(remote, Remote::with_identity);
                Ok((Box::new(transport), remote))
            }
        }
    }

    /// Sends the reason for a refusal immediately: this frame, HTTP status 503, or an alert of TLS. Nothing was sent on
    /// the connection before, so the system takes these few bytes without a wait.
    pub(crate) fn refuse(self, frame: &[u8]) -> RefusedConnection {
        let reason = match self.speaks {
            #[cfg(feature = "tls")]
            _ if self.secured.is_some() => Cow::Borrowed(REFUSAL),
            Speaks::Frames => Cow::Borrowed(frame),
            #[cfg(any(feature = "http", feature = "websocket"))]
            _ => Cow::Owned(final_response(&HttpRefusal::BUSY)),
        };
        // A remote that is gone does not get it.
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

/// Methods that both kinds of sockets have without a common trait.
macro_rules! on_either {
    ($accepted:expr, $stream:ident => $does:expr) => {
        match $accepted {
            Accepted::Tcp($stream, _) => $does,
            #[cfg(unix)]
            Accepted::Unix($stream, _) => $does,
        }
    };
}

impl Accepted {
    /// Writes these bytes, and closes the direction of writing.
    fn write_last(&self, bytes: &[u8]) -> io::Result<()> {
        on_either!(self, stream => {
            let mut writer = stream;
            writer.write_all(bytes)?;
            stream.shutdown(Shutdown::Write)
        })
    }

    /// Reads and drops the bytes that have come, up to a bound.
    fn skip(&self) {
        let mut buffer = [0; 4096];
        for _ in 0..SKIPPED / buffer.len() {
            let read = on_either!(self, stream => {
                let mut reader = stream;
                reader.read(&mut buffer)
            });
            if !matches!(read, Ok(1..)) {
                break;
            }
        }
    }

    fn into_socket(self) -> io::Result<Socket> {
        match self {
            Accepted::Tcp(stream, _) => tokio::net::TcpStream::from_std(stream).map(Socket::tcp),
            #[cfg(unix)]
            Accepted::Unix(stream, _) => tokio::net::UnixStream::from_std(stream).map(Socket::unix),
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("remote", &self.remote()).finish_non_exhaustive()
    }
}
