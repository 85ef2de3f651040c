//! Socket of an HTTP connection. hyper reads and writes it. The client asks it for two facts that hyper does not
//! report: whether a request was sent, and whether the server has closed the connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Socket;
use crate::sync::lock;

/// A handle of the socket. One task polls both handles, so the lock is never contended.
#[derive(Clone)]
pub(super) struct SharedSocket(Arc<Mutex<SharedSocketState>>);

struct SharedSocketState {
    socket: Socket,
    /// `true` if a part of the current request was not sent yet.
    is_sending: bool,
    /// `true` if the server accepts no more bytes.
    is_cut: bool,
}

impl SharedSocket {
    pub(super) fn new(socket: Socket) -> Self {
        SharedSocket(Arc::new(Mutex::new(SharedSocketState {
            socket,
            is_sending: false,
            is_cut: false,
        })))
    }

    /// Records that hyper has a new request to send.
    pub(super) fn begin_request(&self) {
        lock(&self.0).is_sending = true;
    }

    /// Returns `true` if the whole request was sent, or if the rest will never be sent.
    pub(super) fn is_sent(&self) -> bool {
        !lock(&self.0).is_sending
    }

    /// Returns `true` if the server has accepted every byte. A server that answers before it has read a whole request
    /// does not read the rest.
    pub(super) fn is_whole(&self) -> bool {
        let state = lock(&self.0);
        !state.is_sending && !state.is_cut
    }

    /// Returns `true` if there is nothing to read, not even the end. It asks the system, because the runtime may not
    /// have noticed new bytes yet.
    pub(super) fn is_quiet(&self) -> bool {
        lock(&self.0).socket.is_quiet()
    }

    /// Shuts down our direction; ready when the server has had a moment to read the last sent bytes.
    pub(super) fn poll_leave(&self, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.0).socket.poll_shutdown(cx)
    }

    fn write(
        &self,
        length: usize,
        write: impl FnOnce(Pin<&mut Socket>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        if state.is_cut {
            return Poll::Ready(Ok(length));
        }
        match write(Pin::new(&mut state.socket)) {
            // A server that has refused a request may not read the rest, but its response can still be read. So hide
            // the write error from hyper. If there is no response, reading fails too.
            Poll::Ready(Err(_)) => {
                state.is_cut = true;
                Poll::Ready(Ok(length))
            }
            written => written,
        }
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut lock(&self.0).socket), cx, buffer)
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(bytes.len(), |socket| AsyncWrite::poll_write(socket, cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        self.write(length, |socket| socket.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).socket.is_write_vectored()
    }

    /// hyper flushes when it has written the whole request.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        let is_flushed = match state.is_cut {
            true => Poll::Ready(()),
            false => Pin::new(&mut state.socket).poll_flush(cx).map(|flushed| {
                state.is_cut = flushed.is_err();
            }),
        };
        is_flushed.map(|()| {
            state.is_sending = false;
            Ok(())
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut lock(&self.0).socket), cx)
    }
}
