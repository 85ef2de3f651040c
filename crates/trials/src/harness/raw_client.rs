//! One blocking connection to a listening daemon, over every transport: bytes out, events in.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use rustix::net::sockopt::{self, Timeout};

use super::http;
use super::wire::Inbound;
use crate::harness::prelude::*;

/// A connection. Its socket is a `File`, because a file can read and write TCP, Unix sockets and pipes alike.
pub(crate) struct RawClient {
    pub(crate) socket: File,
    pub(crate) host: String,
    framing: Framing,
    inbound: Inbound,
    /// The WebSocket handshake, until it is sent.
    pub(crate) handshake: Vec<u8>,
}

impl RawClient {
    /// Connects to an address printed by the daemon. `stream` is the framing on TCP and Unix sockets.
    pub(crate) fn connect(url: &str, stream: Framing, patience: Duration) -> io::Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let host = rest.trim_end_matches('/').to_owned();
        let socket: OwnedFd = if scheme == "unix" {
            UnixStream::connect(rest)?.into()
        } else {
            let stream = TcpStream::connect(&host)?;
            // Each piece must leave separately.
            stream.set_nodelay(true)?;
            stream.into()
        };
        for timeout in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&socket, timeout, Some(patience))?;
        }
        Ok(match scheme {
            "ws" => {
                let handshake = ws::handshake(&host);
                RawClient { handshake, ..Self::new(socket, host, Framing::Ws) }
            }
            "http" => Self::new(socket, host, Framing::Http),
            _ => Self::new(socket, host, stream),
        })
    }

    /// A connection over this socket, or over the stdin of a daemon, which is only written to.
    pub(crate) fn new(socket: OwnedFd, host: String, framing: Framing) -> Self {
        let (socket, inbound, handshake) = (socket.into(), Inbound::new(framing), Vec::new());
        RawClient { socket, host, framing, inbound, handshake }
    }

    /// The bytes of a message, with the handshake before the first one.
    pub(crate) fn bytes_of(&mut self, text: &str) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.handshake);
        bytes.extend(match self.framing {
            Framing::Http => http::post(&self.host, text.as_bytes()),
            framing => framing.frame(text.as_bytes()),
        });
        bytes
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Receives the next event; `None` at the end of the connection.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Event>> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(event) = self.inbound.next().map_err(io::Error::other)? {
                return Ok(Some(event));
            }
            match self.socket.read(&mut chunk)? {
                0 if self.inbound.rest().is_empty() => return Ok(None),
                0 => return Err(io::Error::other(format!("cut: {:?}", self.inbound.rest()))),
                count => self.inbound.feed(&chunk[..count]),
            }
        }
    }

    /// Receives the text of the next answer, over any transport.
    pub(crate) fn answer(&mut self) -> io::Result<String> {
        match self.receive()? {
            Some(Event::Text(text) | Event::Response(200, text)) => Ok(text),
            other => Err(io::Error::other(format!("not an answer: {other:?}"))),
        }
    }

    /// Calls `version`. Fails if the answer is wrong or missing.
    pub(crate) fn ping(&mut self) -> io::Result<()> {
        let bytes = self.bytes_of(r#"{"jsonrpc":"2.0","id":7,"method":"version"}"#);
        self.send(&bytes)?;
        let text = self.answer()?;
        let answer = Message::read(&text).map_err(io::Error::other)?;
        match (answer.get("id"), answer.get("result")) {
            (Some("7"), Some(result)) if result.starts_with(r#"{"version":""#) => Ok(()),
            _ => Err(io::Error::other(format!("not the version: {text}"))),
        }
    }

    /// Returns true if the daemon closes the connection within the read timeout. Ignores earlier data.
    pub(crate) fn is_closed(&mut self) -> bool {
        let end = io::copy(&mut self.socket, &mut io::sink());
        !end.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        })
    }

    pub(crate) fn shut_down(&self, how: Shutdown) {
        let _ = rustix::net::shutdown(&self.socket, how);
    }

    /// Makes the drop reset the connection, instead of closing it in order.
    pub(crate) fn reset_on_drop(&self) {
        let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}
