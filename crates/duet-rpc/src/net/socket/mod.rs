//! A connected socket: TCP, TLS over TCP, a Unix socket, or any other stream.

/// Does the same with the stream of any kind of socket.
macro_rules! on_stream {
    ($socket:expr, $stream:ident => $does:expr) => {
        match &mut $socket.stream {
            SocketStream::Tcp($stream) => $does,
            SocketStream::Local($stream) => $does,
            #[cfg(feature = "tls")]
            SocketStream::Tls($stream) => $does,
            SocketStream::Other($stream) => $does,
        }
    };
}

mod async_io;

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Sleep;

#[cfg(feature = "tls")]
use super::tls::TlsSocket;
#[cfg(feature = "tls")]
use crate::remote::Identity;
use crate::sys::HangUpWatch;
use crate::sys::local::LocalStream;
#[cfg(feature = "http")]
use crate::sys::tcp::is_quiet;
use crate::sys::tcp::keep_alive;
use crate::transport::{
    ExitReport, Inbox, Outbox, Received, Transport, buffer_pool, let_others_run,
};

/// Number of bytes that a connection reads or writes before other connections of the thread get their turn, even if a
/// large message has room for more.
const AT_ONCE: usize = 64 * 1024;

/// The time that a remote has to close after we have shut down our direction of the connection.
const SHUTDOWN_TIME: Duration = Duration::from_millis(25);

/// The same for a remote that is still sending a message that was refused.
#[cfg(any(feature = "http", feature = "websocket"))]
const LINGER: Duration = Duration::from_millis(500);

/// A connected socket: a transport of bytes, with the profile's framing.
///
/// While nothing comes it has no buffer, so thousands of idle connections cost little.
///
/// ```no_run
/// # async fn run() -> std::io::Result<()> {
/// use duet_rpc::{Peer, Profile, Router, transport::Socket};
///
/// let stream = tokio::net::TcpStream::connect("127.0.0.1:4000").await?;
/// let server = Peer::builder(Socket::tcp(stream)).profile(Profile::agent()).router(Router::new()).spawn();
/// # drop(server);
/// # Ok(())
/// # }
/// ```
pub struct Socket {
    stream: SocketStream,
    /// The bytes that were written since other connections had their turn.
    written: usize,
    /// Watches for the remote's end while nothing is read.
    watch: Option<Box<HangUpWatch>>,
    /// Watches for the end of the remote's process.
    reader_watch: Option<Box<HangUpWatch>>,
    /// Runs while the remote has time to read our last bytes.
    linger: Option<Box<Linger>>,
}

/// The end of our direction, and the time that the remote has left.
struct Linger {
    timer: Pin<Box<Sleep>>,
    is_shut: bool,
}

/// TCP and Unix sockets report when they are readable, so they need no buffer before that. The other streams report
/// it only through a read. They are boxed, so that a plain socket stays small.
enum SocketStream {
    Tcp(TcpStream),
    Local(LocalStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsSocket>),
    Other(Box<dyn AnyStream>),
}

/// A stream of any kind.
trait AnyStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> AnyStream for S {}

impl Socket {
    /// A TCP connection. Bytes leave immediately (`TCP_NODELAY`), and the system notices when the other
    /// machine disappears (keep-alive).
    pub fn tcp(stream: TcpStream) -> Self {
        // A socket works without this option too.
        let _ = stream.set_nodelay(true);
        keep_alive(&stream);
        Self::new(SocketStream::Tcp(stream))
    }

    /// A connection through a local socket.
    pub(crate) fn local(stream: LocalStream) -> Self {
        Self::new(SocketStream::Local(stream))
    }

    /// A stream that was connected in another way, such as a tunnel or an upgraded HTTP connection.
    ///
    /// Only a read notices the end of the remote. So while back-pressure stops reading, the end goes unnoticed.
    ///
    /// ```
    /// use duet_rpc::transport::Socket;
    ///
    /// let (ours, _theirs) = tokio::io::duplex(4096);
    /// let socket = Socket::from_stream(ours);
    /// # drop(socket);
    /// ```
    pub fn from_stream(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::new(SocketStream::Other(Box::new(stream)))
    }

    /// A TCP connection after the TLS handshake.
    #[cfg(feature = "tls")]
    pub(super) fn tls(stream: TlsSocket) -> Self {
        Self::new(SocketStream::Tls(Box::new(stream)))
    }

    /// The TCP connection of a plain socket, for a TLS handshake.
    #[cfg(feature = "tls")]
    pub(super) fn into_tcp(self) -> io::Result<TcpStream> {
        match self.stream {
            SocketStream::Tcp(stream) => Ok(stream),
            _ => Err(super::unsupported("TLS is served over TCP only")),
        }
    }

    /// The identity in the certificate of the remote, if the remote is a TLS client that has sent one and it was
    /// verified.
    #[cfg(feature = "tls")]
    pub fn certificate(&self) -> Option<Arc<Identity>> {
        match &self.stream {
            SocketStream::Tls(stream) => stream.certificate(),
            _ => None,
        }
    }

    fn new(stream: SocketStream) -> Self {
        Socket { stream, written: 0, watch: None, reader_watch: None, linger: None }
    }

    /// Ready when there is something to read, or the end; immediately for a stream that cannot report this.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watch = None;
        match &mut self.stream {
            SocketStream::Tcp(stream) => stream.poll_read_ready(cx),
            SocketStream::Local(stream) => stream.poll_read_ready(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Reads into a buffer that all connections of a thread share, and lends it to `take`; an empty slice
    /// is the end.
    pub(crate) fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        ready!(self.poll_readable(cx))?;
        let mut bytes = buffer_pool::take();
        let read = self.poll_append(cx, &mut bytes);
        let taken = read.map_ok(|_| take(&bytes));
        buffer_pool::put_back(bytes);
        taken
    }

    /// Appends received bytes, up to the capacity, and returns their number.
    fn poll_append(&mut self, cx: &mut Context<'_>, into: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        loop {
            // A pending read has taken nothing.
            let read = on_stream!(self, stream => {
                pin!(stream.take(AT_ONCE as u64).read_buf(into)).poll(cx)
            });
            match ready!(read) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // TLS reports an error if the remote closes without announcing it. Frames mark their own ends, so a
                // truncated frame is noticed anyway, and many programs just exit.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                read => return Poll::Ready(read),
            }
        }
    }

    /// Returns `true` if there is nothing to read, not even the end.
    #[cfg(feature = "http")]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let quiet = match &self.stream {
            SocketStream::Tcp(stream) => is_quiet(stream),
            SocketStream::Local(stream) => is_quiet(stream),
            // The received bytes may belong to TLS alone. A byte that is lost here does no harm: the connection is
            // not used.
            _ => {
                let mut byte = [0];
                let mut cx = Context::from_waker(std::task::Waker::noop());
                let mut buffer = tokio::io::ReadBuf::new(&mut byte);
                return AsyncRead::poll_read(Pin::new(self), &mut cx, &mut buffer).is_pending();
            }
        };
        quiet.unwrap_or_else(|| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            self.poll_readable(&mut cx).is_pending()
        })
    }

    /// Writes some of these bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.written >= AT_ONCE {
            self.written = 0;
            let_others_run(cx);
            return Poll::Pending;
        }
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        loop {
            match ready!(on_stream!(self, stream => Pin::new(stream).poll_write(cx, bytes))) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.written += count;
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Ready when written bytes have left. TLS keeps encrypted bytes that the system did not take.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    /// Ready when the remote has closed its end, even while earlier bytes are unread.
    pub(crate) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.watch.is_none() {
            let watch = match &self.stream {
                SocketStream::Tcp(stream) => HangUpWatch::new(stream).ok(),
                SocketStream::Local(stream) => HangUpWatch::new(stream).ok(),
                #[cfg(feature = "tls")]
                SocketStream::Tls(stream) => HangUpWatch::new(stream.tcp()).ok(),
                SocketStream::Other(_) => None,
            };
            self.watch = watch.map(Box::new);
        }
        match &self.watch {
            Some(watch) => watch.poll(cx),
            // There is no descriptor to watch, or none is free for it. The next write will notice the end.
            None => Poll::Pending,
        }
    }

    /// Shuts down our direction, and gives the remote a moment to close. Closing while the remote still sends would
    /// reset the connection, and the remote might lose our last bytes.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_leave(cx, SHUTDOWN_TIME)
    }

    /// The same for a remote that is still sending a message that was refused. This takes longer.
    #[cfg(any(feature = "http", feature = "websocket"))]
    pub(crate) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_leave(cx, LINGER)
    }

    fn poll_leave(&mut self, cx: &mut Context<'_>, patience: Duration) -> Poll<()> {
        let timer = || Box::pin(tokio::time::sleep(patience));
        let new = || Box::new(Linger { timer: timer(), is_shut: false });
        if !self.linger.get_or_insert_with(new).is_shut {
            // TLS sends its last record before, and waits if the remote does not read.
            let shut = on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx));
            if let Some(linger) = &mut self.linger {
                linger.is_shut = shut.is_ready();
            }
        }
        // Bytes that still come are dropped, until the remote closes too.
        while let Poll::Ready(read) = self.poll_read(cx, |bytes| !bytes.is_empty()) {
            if !read.unwrap_or(false) {
                return Poll::Ready(());
            }
        }
        match &mut self.linger {
            Some(linger) => linger.timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl Transport for Socket {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        // Take a buffer only now: a connection that waits for bytes has none.
        ready!(self.poll_readable(cx))?;
        inbox.borrow_buffer();
        let Poll::Ready(count) = self.poll_append(cx, inbox.space()?) else {
            inbox.give_buffer_back();
            return Poll::Pending;
        };
        Poll::Ready(Ok(match count? {
            0 => Received::Eof,
            _ => Received::Data,
        }))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while !outbox.is_empty() {
            let count = ready!(self.poll_write(cx, outbox.bytes()))?;
            outbox.consume(count);
        }
        self.poll_flush(cx)
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Socket::poll_remote_closed(self, cx)
    }

    fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.reader_watch.is_none() {
            let watch = match &self.stream {
                SocketStream::Tcp(stream) => HangUpWatch::of_reader(stream).ok(),
                SocketStream::Local(stream) => HangUpWatch::of_reader(stream).ok(),
                #[cfg(feature = "tls")]
                SocketStream::Tls(stream) => HangUpWatch::of_reader(stream.tcp()).ok(),
                SocketStream::Other(_) => None,
            };
            self.reader_watch = watch.map(Box::new);
        }
        self.reader_watch.as_ref().map_or(Poll::Pending, |watch| watch.poll(cx))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.poll_shutdown(cx).map(|()| ExitReport::default())
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}
