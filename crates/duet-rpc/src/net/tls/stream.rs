//! An encrypted TCP connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use super::error::explain_late_alert;
use crate::remote::Identity;

/// A TCP connection after the handshake, of either side. A remote may refuse after the handshake, as TLS 1.3 servers
/// do with a client certificate. Then the error has an explanation, too.
pub(in crate::net) struct TlsSocket {
    stream: TlsStream<TcpStream>,
    certificate: Option<Arc<Identity>>,
}

impl TlsSocket {
    pub(super) fn new(stream: TlsStream<TcpStream>, certificate: Option<Identity>) -> Self {
        TlsSocket { stream, certificate: certificate.map(Arc::new) }
    }

    /// The connection below, for its descriptor.
    pub(in crate::net) fn tcp(&self) -> &TcpStream {
        self.stream.get_ref().0
    }

    /// The identity of a client that has sent a certificate.
    pub(in crate::net) fn certificate(&self) -> Option<Arc<Identity>> {
        self.certificate.clone()
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match &self.stream {
            TlsStream::Client(_) => read.map_err(explain_late_alert),
            TlsStream::Server(_) => read,
        }
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
