//! Local sockets: named pipes. Unix has Unix sockets in their place.
//!
//! Only the user of this process may connect, and no other machine. The first instance has to be the first of its name, so
//! that no other process can answer in this server's place. A further instance waits for the next client before a connected
//! one is handed out, so that no client finds the name missing.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::windows::named_pipe::{
    ClientOptions, NamedPipeClient, NamedPipeServer, ServerOptions,
};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::calls;
use crate::remote::Identity;

/// All instances wait for other clients (`ERROR_PIPE_BUSY`).
const BUSY: i32 = 231;

/// The pause before the next attempt to connect to a busy pipe, and the number of attempts: 5 s in total.
const PAUSE: Duration = Duration::from_millis(20);
const ATTEMPTS: u32 = 250;

/// A listening named pipe.
// Same name: the interface of `unix/local.rs`.
pub(crate) struct LocalListener {
    path: String,
    next: NextInstance,
    /// `true` once there was an instance, so that a further one is not the first.
    has_begun: bool,
}

/// The instance for the next client.
enum NextInstance {
    /// The listener was bound outside of a runtime, which an instance needs.
    Unmade,
    Made(NamedPipeServer),
    Waiting(Pin<Box<dyn Future<Output = io::Result<NamedPipeServer>> + Send>>),
}

/// An accepted connection. It is registered with the runtime that accepts, which runs as long as the listener.
// Same name: the interface of `unix/local.rs`.
pub(crate) struct LocalAccepted(NamedPipeServer);

/// A connected named pipe.
// Same name: the type of `unix/local.rs`.
pub(crate) enum LocalStream {
    Server(NamedPipeServer),
    Client(NamedPipeClient),
}

impl LocalListener {
    /// Listens at this name. Inside a runtime, this fails if another process has the name; otherwise the first attempt
    /// to accept does.
    pub(crate) fn bind_pipe(name: &str) -> io::Result<Self> {
        let mut listener =
            LocalListener { path: path(name), next: NextInstance::Unmade, has_begun: false };
        if Handle::try_current().is_ok() {
            listener.next = NextInstance::Made(listener.instance()?);
        }
        Ok(listener)
    }

    pub(crate) fn bind_unix(_: &Path) -> io::Result<Self> {
        Err(no_unix_sockets())
    }

    /// Users have no number here, so the list of users allows none.
    pub(crate) fn open_to_all(&self) -> io::Result<()> {
        Ok(())
    }

    /// `None`: a pipe has no file to remove.
    pub(crate) fn remover(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        None
    }

    fn instance(&mut self) -> io::Result<NamedPipeServer> {
        let mut options = ServerOptions::new();
        options.first_pipe_instance(!self.has_begun).reject_remote_clients(true);
        let made = calls::create_private_pipe(&options, &self.path)?;
        self.has_begun = true;
        Ok(made)
    }

    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<LocalAccepted>> {
        loop {
            self.next = match std::mem::replace(&mut self.next, NextInstance::Unmade) {
                NextInstance::Unmade => NextInstance::Made(self.instance()?),
                NextInstance::Made(server) => NextInstance::Waiting(Box::pin(async move {
                    server.connect().await?;
                    Ok(server)
                })),
                NextInstance::Waiting(mut waiting) => {
                    let Poll::Ready(connected) = waiting.as_mut().poll(cx) else {
                        self.next = NextInstance::Waiting(waiting);
                        return Poll::Pending;
                    };
                    let next = self.instance();
                    if let Ok(next) = next {
                        self.next = NextInstance::Made(next);
                    }
                    return Poll::Ready(connected.map(LocalAccepted));
                }
            };
        }
    }
}

impl LocalAccepted {
    /// `None`: the rights of the pipe let only one user connect.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        None
    }

    /// Writes these few bytes without waiting; nothing was written before. A pipe has no directions to close.
    pub(crate) fn write_last(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.try_write(bytes).map(drop)
    }

    /// Reads bytes that have come.
    pub(crate) fn read_now(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }

    pub(crate) fn into_stream(self) -> io::Result<LocalStream> {
        Ok(LocalStream::Server(self.0))
    }
}

/// Does the same with both ends of a pipe.
macro_rules! on_end {
    ($stream:expr, $end:ident => $does:expr) => {
        match $stream {
            LocalStream::Server($end) => $does,
            LocalStream::Client($end) => $does,
        }
    };
}

impl LocalStream {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_end!(self, end => end.poll_read_ready(cx))
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The end of a pipe is an error of the system.
        match on_end!(self.get_mut(), end => Pin::new(end).poll_read(cx, buffer)) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                Poll::Ready(Ok(()))
            }
            read => read,
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_end!(self.get_mut(), end => Pin::new(end).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_end!(self.get_mut(), end => Pin::new(end).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_end!(self.get_mut(), end => Pin::new(end).poll_shutdown(cx))
    }
}

pub(crate) async fn connect_unix(_: &Path) -> io::Result<LocalStream> {
    Err(no_unix_sockets())
}

fn no_unix_sockets() -> io::Error {
    let why = "this system has no Unix sockets: use a pipe:// address";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// Connects to the pipe of this name. The server learns who connects, but cannot act in that user's name.
pub(crate) async fn connect_pipe(name: &str) -> io::Result<LocalStream> {
    let path = path(name);
    for _ in 1..ATTEMPTS {
        match ClientOptions::new().open(&path) {
            Err(error) if error.raw_os_error() == Some(BUSY) => sleep(PAUSE).await,
            opened => return opened.map(LocalStream::Client),
        }
    }
    ClientOptions::new().open(&path).map(LocalStream::Client)
}

fn path(name: &str) -> String {
    format!(r"\\.\pipe\{name}")
}
