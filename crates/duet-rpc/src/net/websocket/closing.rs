//! Closing handshake of a WebSocket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duet_rpc_proto::ws::{Control, ControlKind, Problem, Role, WsFrameWriter, close_code};
use tokio::time::Sleep;

use crate::net::Socket;
use crate::random;

/// The time after which a remote that reads nothing gets no close frame.
const PATIENCE: Duration = Duration::from_millis(50);

/// The contents of a close frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseFrame {
    /// `None` answers a close frame without a code.
    pub(super) code: Option<u16>,
    pub(super) reason: &'static str,
}

/// Sends the close frame, and waits a moment for the remote to read it.
pub(super) struct WebSocketClosing {
    frame: Vec<u8>,
    sent: usize,
    /// `true` if the remote may still be sending a message that was refused.
    is_refusal: bool,
    patience: Pin<Box<Sleep>>,
}

impl WebSocketClosing {
    pub(super) fn new(role: Role, close: Option<CloseFrame>) -> Self {
        let mut frame = Vec::new();
        if let Some(close) = close {
            let control = match close.code {
                Some(code) => Control::close(code, close.reason),
                None => Control::new(b""),
            };
            let mut writer = WsFrameWriter::new(role, random::seed());
            writer.write_control(&mut frame, ControlKind::Close, &control);
        }
        let is_refusal = close.is_some_and(|close| !close.reason.is_empty());
        WebSocketClosing {
            frame,
            sent: 0,
            is_refusal,
            patience: Box::pin(tokio::time::sleep(PATIENCE)),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>, socket: &mut Socket) -> Poll<()> {
        while let Some(rest) = self.frame.get(self.sent..)
            && !rest.is_empty()
        {
            match socket.poll_write(cx, rest) {
                Poll::Ready(Ok(count)) => self.sent += count,
                // The connection ends whether or not the frame arrives.
                Poll::Ready(Err(_)) => self.frame.clear(),
                Poll::Pending => {
                    ready!(self.patience.as_mut().poll(cx));
                    self.frame.clear();
                }
            }
        }
        match self.is_refusal {
            true => socket.poll_linger(cx),
            false => socket.poll_shutdown(cx),
        }
    }
}

/// The error for a close with this code. The remote's own reason is not shown: it may be anything.
pub(super) fn closed_with(code: u16) -> io::Error {
    let meaning = match code {
        close_code::PROTOCOL_ERROR => " (it received bytes that are not WebSocket)",
        close_code::INVALID_DATA => " (a message is not UTF-8)",
        close_code::POLICY => " (it does not want this connection)",
        close_code::TOO_LARGE => " (a message is too large for it)",
        _ => "",
    };
    let what = format!("the remote closed with code {code}{meaning}");
    io::Error::new(io::ErrorKind::ConnectionAborted, what)
}

/// The error for bytes that cannot be read.
pub(super) fn failed(problem: Problem, limit: usize) -> io::Error {
    let what = match problem {
        Problem::TooLarge(bytes) => {
            format!("a message of {bytes} bytes or more is over the limit of {limit}")
        }
        Problem::Protocol(_) | Problem::NotUtf8 => {
            format!("what came is not WebSocket: {}", problem.reason())
        }
    };
    io::Error::new(io::ErrorKind::InvalidData, what)
}
