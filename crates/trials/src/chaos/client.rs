//! A client of a daemon that listens, as plain as can be: one request, one answer, over each transport.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;

use super::frames::{Framing, Next};

/// A connection to where the daemon listens.
pub(super) struct Client {
    stream: Stream,
    scheme: String,
    authority: String,
    framing: Framing,
    read: Vec<u8>,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    /// Connects to an address as the daemon tells it. A read waits for this long at most.
    pub(super) fn connect(url: &str, framing: Framing, patience: Duration) -> io::Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let stream = if scheme == "unix" {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Stream::Unix(stream)
        } else {
            let stream = TcpStream::connect(authority)?;
            stream.set_read_timeout(Some(patience))?;
            stream.set_write_timeout(Some(patience))?;
            Stream::Tcp(stream)
        };
        let [scheme, authority] = [scheme, authority].map(str::to_owned);
        Ok(Client { stream, scheme, authority, framing, read: Vec::new() })
    }

    /// The bytes that carry a message, with what has to be said before the first one.
    pub(super) fn bytes_of(&self, text: &str) -> Vec<u8> {
        let host = &self.authority;
        match self.scheme.as_str() {
            "http" => {
                let length = text.len();
                let head = format!(
                    "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
                );
                format!("{head}Content-Length: {length}\r\n\r\n{text}").into_bytes()
            }
            "ws" => {
                let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n");
                let key = "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
                let hello = format!("{head}{key}Sec-WebSocket-Version: 13\r\n\r\n");
                // A text that is short, masked with zeros.
                let length = u8::try_from(text.len()).unwrap_or(0).min(125);
                let frame = [&[0x81, 0x80 | length][..], &[0; 4], text.as_bytes()].concat();
                [hello.as_bytes(), &frame].concat()
            }
            _ => self.framing.frame(text),
        }
    }

    /// Sends a part of a message, or all of it.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Reads until this finds what it looks for, or the end.
    fn read_until<T>(&mut self, mut find: impl FnMut(&[u8]) -> Option<T>) -> io::Result<T> {
        let mut chunk = [0; 16 * 1024];
        loop {
            if let Some(found) = find(&self.read) {
                return Ok(found);
            }
            let count = match &mut self.stream {
                Stream::Tcp(stream) => stream.read(&mut chunk)?,
                Stream::Unix(stream) => stream.read(&mut chunk)?,
            };
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.read.extend_from_slice(&chunk[..count]);
        }
    }

    /// The answer to a message that was the first on this connection.
    pub(super) fn answer(&mut self) -> io::Result<Value> {
        let bad = || io::Error::other("no answer, but something else");
        let begin = match self.scheme.as_str() {
            "http" | "ws" => self.read_until(|read| Some(find(read, b"\r\n\r\n")? + 4))?,
            _ => 0,
        };
        let scheme = self.scheme.clone();
        let framing = self.framing;
        self.read_until(move |read| {
            let rest = read.get(begin..)?;
            let body = match scheme.as_str() {
                // Answers here are short, and the last byte of one closes the object.
                "http" => rest.last().filter(|&&byte| byte == b'}').map(|_| rest)?,
                "ws" => match *rest.get(1)? {
                    126 => rest.get(
                        4..4 + usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?])),
                    )?,
                    length => rest.get(2..2 + usize::from(length))?,
                },
                _ => match framing.next(rest) {
                    Next::Message(message, _) => return Some(Ok(message)),
                    Next::Part => return None,
                    Next::Garbage(_) => return Some(Err(bad())),
                },
            };
            Some(serde_json::from_slice(body).map_err(|_| bad()))
        })?
    }

    /// Whether a question is answered.
    pub(super) fn is_served(&mut self) -> bool {
        let bytes = self.bytes_of(r#"{"jsonrpc":"2.0","id":7,"method":"version"}"#);
        let answer = self.send(&bytes).and_then(|()| self.answer());
        answer.is_ok_and(|answer| answer["id"] == 7 && answer["result"]["version"].is_string())
    }

    /// Whether the daemon has closed it, within the patience; what comes before is left out.
    pub(super) fn is_closed(&mut self) -> bool {
        let rest = self.read_until(|_| None::<()>);
        rest.is_err_and(|error| {
            !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        })
    }

    /// Has the connection broken off, and not closed, when it is dropped.
    pub(super) fn break_off(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.as_fd(), Some(Duration::ZERO));
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
