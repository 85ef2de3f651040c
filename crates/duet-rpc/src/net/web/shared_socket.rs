//! Socket of a client's HTTP connection. hyper reads and writes it. The client asks it for two facts that hyper does not
//! report: whether a request was sent, and whether the server has closed the connection. A response that is there before
//! the request, and one to a request that the server does not read to its end, can be read.

use std::io::{self, IoSlice};
use std::pin::Pin;
#[cfg(feature = "websocket")]
use std::sync::PoisonError;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::Socket;
use crate::sync::lock;

/// A handle of the socket. One task polls both handles, so the lock is never contended.
#[derive(Clone)]
pub(in crate::net) struct SharedSocket(Arc<Mutex<SharedSocketState>>);

struct SharedSocketState {
    socket: Socket,
    sending: Sending,
    /// `true` if the server accepts no more bytes.
    is_cut: bool,
}

/// The state of the current request.
enum Sending {
    /// Nothing of it was written. Bytes that came before are the response of a server that refuses every request: a
    /// full server does. hyper would take them for an error, so it does not read them before it has written. Holds the
    /// waker of a read that waits for this.
    NotBegun(Option<Waker>),
    /// A part of it was not sent yet.
    Begun,
    /// It was sent, or there was none yet.
    Done,
}

impl SharedSocketState {
    /// Records that hyper has written a part of the request.
    fn begin(&mut self) {
        if let Sending::NotBegun(reader) = &mut self.sending {
            if let Some(reader) = reader.take() {
                reader.wake();
            }
            self.sending = Sending::Begun;
        }
    }
}

impl SharedSocket {
    pub(in crate::net) fn new(socket: Socket) -> Self {
        SharedSocket(Arc::new(Mutex::new(SharedSocketState {
            socket,
            sending: Sending::Done,
            is_cut: false,
        })))
    }

    /// The socket, if this is its last handle.
    #[cfg(feature = "websocket")]
    pub(in crate::net) fn into_socket(self) -> Option<Socket> {
        let state = Arc::into_inner(self.0)?;
        Some(state.into_inner().unwrap_or_else(PoisonError::into_inner).socket)
    }

    /// Records that hyper has a new request to send.
    pub(in crate::net) fn begin_request(&self) {
        lock(&self.0).sending = Sending::NotBegun(None);
    }

    /// Returns `true` if the whole request was sent, or if the rest will never be sent.
    pub(in crate::net) fn is_sent(&self) -> bool {
        matches!(lock(&self.0).sending, Sending::Done)
    }

    /// Returns `true` if the server has accepted every byte. A server that answers before it has read a whole request
    /// does not read the rest.
    pub(in crate::net) fn is_whole(&self) -> bool {
        let state = lock(&self.0);
        matches!(state.sending, Sending::Done) && !state.is_cut
    }

    /// Returns `true` if there is nothing to read, not even the end. It asks the system, because the runtime may not
    /// have noticed new bytes yet.
    pub(in crate::net) fn is_quiet(&self) -> bool {
        lock(&self.0).socket.is_quiet()
    }

    /// Shuts down our direction; ready when the server has had a moment to read the last sent bytes.
    pub(in crate::net) fn poll_leave(&self, cx: &mut Context<'_>) -> Poll<()> {
        lock(&self.0).socket.poll_shutdown(cx)
    }
}

impl AsyncRead for SharedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = lock(&self.0);
        if let Sending::NotBegun(reader) = &mut state.sending {
            *reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        AsyncRead::poll_read(Pin::new(&mut state.socket), cx, buffer)
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// A server that has refused a request may not read the rest, but its response can still be read. So hyper does
    /// not see an error of a write. If there is no response, reading fails too.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = lock(&self.0);
        if !state.is_cut {
            let written = Pin::new(&mut state.socket).poll_write_vectored(cx, slices);
            state.begin();
            match written {
                Poll::Ready(Err(_)) => state.is_cut = true,
                written => return written,
            }
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
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
            if matches!(state.sending, Sending::Begun) {
                state.sending = Sending::Done;
            }
            Ok(())
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut lock(&self.0).socket), cx)
    }
}
