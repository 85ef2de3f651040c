//! Local sockets: Unix sockets. Windows has named pipes in their place.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix};
use tokio::net::UnixListener;
use tokio::net::unix::UCred;

use super::socket_file::{SocketFile, make_way, take_turn};
use super::tcp::{BACKLOG, stream_socket};
use crate::net::{Address, Listener, Socket};
use crate::remote::Identity;

/// A connected local socket.
pub(crate) type LocalStream = tokio::net::UnixStream;

/// A listening local socket. It is registered with the runtime at the first attempt to accept.
// Same name: the interface of `windows/local.rs`.
pub(crate) struct LocalListener {
    socket: ListeningSocket,
    file: SocketFile,
}

enum ListeningSocket {
    Waiting(StdListener),
    Active(UnixListener),
    Gone,
}

/// An accepted connection, not registered with a runtime. Without credentials it is still accepted: the mode of the file
/// controls access.
// Same name: the interface of `windows/local.rs`.
pub(crate) struct LocalAccepted(StdStream, Option<UCred>);

impl LocalListener {
    /// A Unix socket that only its user can connect to (T3).
    pub(crate) fn bind_unix(path: &Path) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        // Of several servers that start together, one takes the path, and the others find it in use.
        let _turn = take_turn(path);
        make_way(path)?;
        let socket = stream_socket(AddressFamily::UNIX)?;
        let owners = Mode::RUSR | Mode::WUSR;
        // If the system supports it, the file is created with this mode. Setting the mode afterwards would use the path,
        // where a user with write access to the folder could have put a link to another file.
        let _ = rustix::fs::fchmod(&socket, owners);
        rustix::net::bind(&socket, &address)?;
        let file = SocketFile::new(path)?;
        // Nobody can connect before it listens, so other users have no chance to connect.
        if !file.is_private() {
            rustix::fs::chmod(path, owners)?;
        }
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(LocalListener { socket: ListeningSocket::Waiting(socket.into()), file })
    }

    pub(crate) fn bind_pipe(_: &str) -> io::Result<Self> {
        Err(no_pipes())
    }

    /// Takes over a listening socket, and leaves its file alone. Returns its path, too.
    pub(crate) fn from_std(socket: StdListener) -> io::Result<(Self, PathBuf)> {
        socket.set_nonblocking(true)?;
        let at = socket.local_addr()?;
        let path = at.as_pathname().map_or_else(|| abstract_name(&at), Into::into);
        let socket = ListeningSocket::Waiting(socket);
        Ok((LocalListener { socket, file: SocketFile::of_another() }, path))
    }

    /// Lets every user connect.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        self.file.open_to_all()
    }

    /// A function that removes its file, for a forced exit, which drops nothing.
    pub(crate) fn remover(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        Some(Box::new(self.file.remover()))
    }

    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<LocalAccepted>> {
        if let ListeningSocket::Waiting(_) = self.socket {
            let waiting = std::mem::replace(&mut self.socket, ListeningSocket::Gone);
            if let ListeningSocket::Waiting(socket) = waiting {
                self.socket = ListeningSocket::Active(UnixListener::from_std(socket)?);
            }
        }
        let ListeningSocket::Active(socket) = &self.socket else {
            return Poll::Ready(Err(io::Error::other("the listener is closed")));
        };
        let (stream, _) = ready!(socket.poll_accept(cx))?;
        let user = stream.peer_cred().ok();
        Poll::Ready(stream.into_std().map(|stream| LocalAccepted(stream, user)))
    }
}

impl LocalAccepted {
    /// The user of the remote, if the system knows it.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        let user = self.1.as_ref()?;
        Some(Arc::new(Identity::UnixUser {
            uid: user.uid(),
            gid: user.gid(),
            pid: user.pid().and_then(|pid| pid.try_into().ok()),
        }))
    }

    /// Writes these bytes, and closes the direction of writing.
    pub(crate) fn write_last(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)?;
        self.0.shutdown(Shutdown::Write)
    }

    /// Reads bytes that have come.
    pub(crate) fn read_now(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }

    pub(crate) fn into_stream(self) -> io::Result<LocalStream> {
        LocalStream::from_std(self.0)
    }
}

pub(crate) async fn connect_unix(path: &Path) -> io::Result<LocalStream> {
    LocalStream::connect(path).await
}

pub(crate) async fn connect_pipe(_: &str) -> io::Result<LocalStream> {
    Err(no_pipes())
}

fn no_pipes() -> io::Error {
    let why = "named pipes are for Windows: use a unix:// address";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

impl Socket {
    /// A connection through a Unix socket.
    pub fn unix(stream: LocalStream) -> Self {
        Self::local(stream)
    }
}

impl Listener {
    /// Takes over a listening Unix socket. It leaves the socket's file alone, which belongs to the
    /// process that made it.
    pub fn from_unix(socket: StdListener) -> io::Result<Self> {
        LocalListener::from_std(socket)
            .map(|(socket, path)| Self::over_local(socket, Address::Unix(path)))
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

#[cfg(not(target_os = "linux"))]
fn abstract_name(_: &std::os::unix::net::SocketAddr) -> PathBuf {
    PathBuf::new()
}
