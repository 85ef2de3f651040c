//! Stream transport: any reader and writer of bytes.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

use super::{ExitReport, Inbox, Outbox, Received, Transport};

/// A transport over any reader and writer: a socket, a pipe, one end of
/// [`tokio::io::duplex`].
///
/// ```
/// use duet_rpc::transport::Stream;
///
/// let (here, there) = tokio::io::duplex(64 * 1024);
/// let (here, there) = (Stream::from_io(here), Stream::from_io(there));
/// # drop((here, there));
/// ```
pub struct Stream<R, W> {
    reader: R,
    writer: W,
    /// `true` if the writer may hold bytes that are not flushed.
    unflushed: bool,
    /// Runs while the writer closes.
    closing: Option<Pin<Box<Sleep>>>,
}

/// Time limit for closing the writer. A writer with bytes that nobody reads would never close.
const PATIENCE: Duration = Duration::from_millis(50);

impl<R, W> Stream<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// Reads from one and writes to the other.
    pub fn new(reader: R, writer: W) -> Self {
        Stream { reader, writer, unflushed: false, closing: None }
    }

    pub(crate) fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Drops the writer, and returns the reader.
    pub(crate) fn close_writer(self) -> R {
        self.reader
    }
}

impl<S> Stream<tokio::io::ReadHalf<S>, tokio::io::WriteHalf<S>>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    /// Reads from and writes to the same stream.
    pub fn from_io(stream: S) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Stream { reader, writer, unflushed: false, closing: None }
    }
}

impl<R, W> Transport for Stream<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let space = inbox.space()?;
        // Bytes go directly into the decoder's buffer; a pending read has taken none.
        let count = loop {
            match ready!(pin!(self.reader.read_buf(space)).poll(cx)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                count => break count?,
            }
        };
        Poll::Ready(Ok(match count {
            0 => Received::Eof,
            _ => Received::Data,
        }))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while !outbox.is_empty() {
            match ready!(Pin::new(&mut self.writer).poll_write(cx, outbox.bytes())) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => outbox.consume(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        // The connection ends even if the other end does not see it.
        if Pin::new(&mut self.writer).poll_shutdown(cx).is_pending() {
            let sleep = || Box::pin(tokio::time::sleep(PATIENCE));
            ready!(self.closing.get_or_insert_with(sleep).as_mut().poll(cx));
        }
        Poll::Ready(ExitReport::default())
    }
}

impl<R, W> fmt::Debug for Stream<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}
