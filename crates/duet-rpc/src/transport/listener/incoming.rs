//! A connection that has come in.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
#[cfg(any(feature = "http", feature = "websocket"))]
use std::sync::Arc;
#[cfg(feature = "websocket")]
use std::sync::atomic::AtomicBool;
use std::task::{Poll, ready};
use std::time::Duration;

use duet_rpc_proto::Profile;
#[cfg(feature = "websocket")]
use duet_rpc_proto::ws::Role;
use tokio::time::timeout;

use super::frames::Frames;
use super::{Listener, Speaks};
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::transport::Gate;
#[cfg(feature = "http")]
use crate::transport::HttpServer;
#[cfg(feature = "websocket")]
use crate::transport::WebSocket;
#[cfg(feature = "websocket")]
use crate::transport::web::upgrade;
#[cfg(any(feature = "http", feature = "websocket"))]
use crate::transport::web::{Refusal, last_words};
use crate::transport::{Socket, Transport};

/// How long a remote that is refused may take to be told so.
const PATIENCE: Duration = Duration::from_millis(50);

/// A connection that has come in, and on which nothing has been said. It can be sent to another
/// runtime before it is [opened](Incoming::open).
#[must_use = "a connection that is dropped is closed"]
pub struct Incoming {
    accepted: Accepted,
    speaks: Speaks,
    #[cfg(any(feature = "http", feature = "websocket"))]
    gate: Arc<Gate>,
    #[cfg(feature = "websocket")]
    going_away: Arc<AtomicBool>,
}

/// A socket that no runtime knows.
pub(super) enum Accepted {
    Tcp(std::net::TcpStream, SocketAddr),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl Incoming {
    pub(super) fn new(accepted: Accepted, listener: &Listener) -> Self {
        Incoming {
            accepted,
            speaks: listener.speaks.clone(),
            #[cfg(any(feature = "http", feature = "websocket"))]
            gate: Arc::clone(&listener.gate),
            #[cfg(feature = "websocket")]
            going_away: Arc::clone(&listener.going_away),
        }
    }

    /// Who it is, if it came by TCP.
    pub fn remote(&self) -> Option<SocketAddr> {
        match &self.accepted {
            Accepted::Tcp(_, from) => Some(*from),
            #[cfg(unix)]
            Accepted::Unix(_) => None,
        }
    }

    /// Makes a transport of it: for WebSocket, once both sides have agreed on it, which takes no
    /// longer than the profile's [`read_timeout`](Profile::read_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with I/O and time enabled.
    #[cfg_attr(
        not(any(feature = "http", feature = "websocket")),
        expect(unused_variables, reason = "sockets alone need no settings")
    )]
    pub async fn open(self, profile: &Profile) -> io::Result<Box<dyn Transport>> {
        let is_tcp = matches!(self.accepted, Accepted::Tcp(..));
        let socket = self.accepted.into_socket()?;
        match self.speaks {
            Speaks::Frames if is_tcp => Ok(Box::new(Frames::new(socket))),
            Speaks::Frames => Ok(Box::new(socket)),
            #[cfg(feature = "http")]
            Speaks::Http(target) => {
                Ok(Box::new(HttpServer::new(socket, self.gate, &target, profile)))
            }
            #[cfg(feature = "websocket")]
            Speaks::WebSocket(target) => {
                let (path, limit) = (target.path(), profile.limits.header_bytes);
                let agreed = upgrade(socket, &self.gate, path, limit, profile.read_timeout);
                let (socket, behind) = agreed.await?;
                let transport = WebSocket::new(socket, Role::Server, profile, behind);
                Ok(Box::new(transport.going_away(self.going_away)))
            }
        }
    }

    /// Closes it with a word why: this, where frames are spoken, and what means the same elsewhere.
    /// Whether the remote hears it is not known.
    pub(crate) async fn refuse(self, frame: &[u8]) -> io::Result<()> {
        let words = match self.speaks {
            Speaks::Frames => Cow::Borrowed(frame),
            #[cfg(any(feature = "http", feature = "websocket"))]
            _ => Cow::Owned(last_words(&Refusal::BUSY)),
        };
        let mut words: &[u8] = &words;
        let mut socket = self.accepted.into_socket()?;
        let say = poll_fn(|cx| {
            while !words.is_empty() {
                let count = ready!(socket.poll_write(cx, words))?;
                words = words.get(count..).unwrap_or_default();
            }
            Poll::Ready(io::Result::Ok(()))
        });
        // A remote that does not take a few bytes at once does not hear them.
        if let Ok(said) = timeout(PATIENCE, say).await {
            said?;
        }
        poll_fn(|cx| socket.poll_farewell(cx)).await;
        Ok(())
    }
}

impl Accepted {
    fn into_socket(self) -> io::Result<Socket> {
        match self {
            Accepted::Tcp(stream, _) => tokio::net::TcpStream::from_std(stream).map(Socket::tcp),
            #[cfg(unix)]
            Accepted::Unix(stream) => tokio::net::UnixStream::from_std(stream).map(Socket::unix),
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("remote", &self.remote()).finish_non_exhaustive()
    }
}
