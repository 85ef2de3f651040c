//! A connected socket: TCP, TLS over TCP, a Unix socket, or any other stream.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::time::Sleep;

#[cfg(feature = "tls")]
use super::tls::TlsSocket;
#[cfg(feature = "tls")]
use crate::remote::Identity;
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
    #[cfg(unix)]
    watch: Option<hang_up::HangUpWatch>,
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
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsSocket>),
    Other(Box<dyn AnyStream>),
}

/// A stream of any kind.
trait AnyStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> AnyStream for S {}

/// Does the same with the stream of any kind of socket.
macro_rules! on_stream {
    ($socket:expr, $stream:ident => $does:expr) => {
        match &mut $socket.stream {
            SocketStream::Tcp($stream) => $does,
            #[cfg(unix)]
            SocketStream::Unix($stream) => $does,
            #[cfg(feature = "tls")]
            SocketStream::Tls($stream) => $does,
            SocketStream::Other($stream) => $does,
        }
    };
}

impl Socket {
    /// A TCP connection. Bytes leave immediately (`TCP_NODELAY`), and the system notices when the other
    /// machine disappears (keep-alive).
    pub fn tcp(stream: TcpStream) -> Self {
        // A socket works without this option too.
        let _ = stream.set_nodelay(true);
        #[cfg(unix)]
        keep_alive(&stream);
        Self::new(SocketStream::Tcp(stream))
    }

    /// A connection through a Unix socket.
    #[cfg(unix)]
    pub fn unix(stream: UnixStream) -> Self {
        Self::new(SocketStream::Unix(stream))
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
        Socket {
            stream,
            written: 0,
            #[cfg(unix)]
            watch: None,
            linger: None,
        }
    }

    /// Ready when there is something to read, or the end; immediately for a stream that cannot report this.
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(unix)]
        {
            self.watch = None;
        }
        match &mut self.stream {
            SocketStream::Tcp(stream) => stream.poll_read_ready(cx),
            #[cfg(unix)]
            SocketStream::Unix(stream) => stream.poll_read_ready(cx),
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

    /// Returns `true` if there is nothing to read, not even the end. It asks the system, because the runtime knows
    /// only the state at its last check.
    #[cfg(all(unix, feature = "http"))]
    pub(crate) fn is_quiet(&mut self) -> bool {
        use rustix::net::{RecvFlags, recv};

        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let seen = match &mut self.stream {
            SocketStream::Tcp(stream) => recv(&*stream, &mut byte[..], flags),
            SocketStream::Unix(stream) => recv(&*stream, &mut byte[..], flags),
            // The received bytes may belong to TLS alone. A byte that is lost here does no harm: the connection is
            // not used.
            _ => {
                let mut cx = Context::from_waker(std::task::Waker::noop());
                return AsyncRead::poll_read(Pin::new(self), &mut cx, &mut ReadBuf::new(&mut byte))
                    .is_pending();
            }
        };
        matches!(seen, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
    }

    /// Returns `true` if there is nothing to read. On this system only the runtime knows.
    #[cfg(all(not(unix), feature = "http"))]
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.poll_readable(&mut cx).is_pending()
    }

    /// Writes some of these bytes.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        self.poll_write_with(
            cx,
            |socket, cx| on_stream!(socket, stream => Pin::new(stream).poll_write(cx, bytes)),
        )
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl Fn(&mut Self, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.written >= AT_ONCE {
            self.written = 0;
            let_others_run(cx);
            return Poll::Pending;
        }
        loop {
            match ready!(write(self, cx)) {
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
    #[cfg(unix)]
    pub(crate) fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        use hang_up::HangUpWatch;

        if self.watch.is_none() {
            self.watch = match &self.stream {
                SocketStream::Tcp(stream) => HangUpWatch::new(stream).ok(),
                SocketStream::Unix(stream) => HangUpWatch::new(stream).ok(),
                #[cfg(feature = "tls")]
                SocketStream::Tls(stream) => HangUpWatch::new(stream.tcp()).ok(),
                SocketStream::Other(_) => None,
            };
        }
        match &self.watch {
            Some(watch) => watch.poll(cx),
            // There is no descriptor to watch, or none is free for it. The next write will notice the end.
            None => Poll::Pending,
        }
    }

    /// Ready when the remote has closed its end. On this system only a read can notice that, so it stays
    /// pending.
    #[cfg(not(unix))]
    pub(crate) fn poll_remote_closed(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
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

/// Turns on keep-alive probes, so that a connection to a machine that disappeared ends.
#[cfg(unix)]
fn keep_alive(stream: &TcpStream) {
    use rustix::net::sockopt;

    const QUIET: Duration = Duration::from_secs(60);
    const BETWEEN: Duration = Duration::from_secs(15);
    const PROBES: u32 = 4;

    let _ = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, QUIET))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, BETWEEN))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, PROBES));
}

/// Watches for the end of the remote's output, with a registration of its own. The registration for reading reports
/// only that there is something to read, and while nobody reads, it reports nothing more.
#[cfg(unix)]
mod hang_up {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};
    use std::task::{Context, Poll};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::transport::register;

    pub(super) struct HangUpWatch(AsyncFd<OwnedFd>);

    impl HangUpWatch {
        pub(super) fn new(stream: &impl AsFd) -> io::Result<Self> {
            register(stream.as_fd().try_clone_to_owned()?, Interest::READABLE).map(HangUpWatch)
        }

        pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                match self.0.poll_read_ready(cx) {
                    Poll::Ready(Ok(ready)) if ready.ready().is_read_closed() => {
                        return Poll::Ready(());
                    }
                    // Bytes, which wait for the next read.
                    Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                    // The runtime ends.
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
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

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.poll_shutdown(cx).map(|()| ExitReport::default())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        #[cfg(unix)]
        {
            self.watch = None;
        }
        on_stream!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            SocketStream::Other(stream) => stream.is_write_vectored(),
            _ => true,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").finish_non_exhaustive()
    }
}
