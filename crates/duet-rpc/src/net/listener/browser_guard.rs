//! Browser guard: closes a connection of frames that begins as HTTP.
//!
//! A web page can make its user's browser send a request to any port of this machine. The decoder treats the head
//! of that request as a fault, and then serves the next frame. A page could put a frame into the request body, and so
//! call methods. But a browser always begins with a request line, and no stream of frames does. So a connection that
//! begins with a request line is closed (rule T3). A browser reaches a Unix socket through a proxy, so the guard is
//! there, too.
//!
//! The usual methods are recognised by name, before the line is whole. But a page that has made its own
//! host name point to this machine may use any method name without a preflight. So a request is also
//! recognised by the end of its line. No frame can be complete before the end of that line, because a
//! browser allows neither a line end nor a zero byte in it.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use crate::log_limit::LogLimiter;
use crate::net::Socket;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport};

/// The first bytes of a TLS handshake.
const TLS: &[u8] = b"\x16\x03";

/// The first bytes of HTTP requests, and of a TLS handshake, because a page can choose a part of the handshake.
const REQUEST_STARTS: [&[u8]; 10] = [
    TLS,
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"OPTIONS ",
    b"PUT ",
    b"DELETE ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
];

/// The length of the longest entry of `REQUEST_STARTS`.
const LONGEST: usize = 8;

pub(super) struct BrowserGuard {
    socket: Socket,
    /// The first line so far, while it could become a request line; `None` once it cannot.
    first_line: Option<FirstLine>,
}

#[derive(Default)]
struct FirstLine {
    /// The first bytes of the line.
    first: Vec<u8>,
    /// `true` after the end of the first word.
    has_method: bool,
    /// The last bytes of the line so far.
    last: VecDeque<u8>,
}

/// The verdict on the beginning of a connection.
#[derive(Debug, PartialEq, Eq)]
enum FirstLineKind {
    Unknown,
    Frames,
    Request,
}

impl FirstLine {
    fn take(&mut self, byte: u8) -> FirstLineKind {
        if self.first.len() < LONGEST {
            self.first.push(byte);
        }
        let is_request = |it: &&[u8]| self.first.starts_with(it);
        let may_become_one = |it: &&[u8]| it.starts_with(&self.first);
        if REQUEST_STARTS.iter().any(is_request) {
            return FirstLineKind::Request;
        }
        match byte {
            b'\n' => {
                return if self.is_request_line() {
                    FirstLineKind::Request
                } else {
                    FirstLineKind::Frames
                };
            }
            b' ' if !self.first.starts_with(b" ") => self.has_method = true,
            _ if self.has_method || is_of_method(byte) => {}
            _ if REQUEST_STARTS.iter().any(may_become_one) => {}
            _ => return FirstLineKind::Frames,
        }
        if self.last.len() == VERSION.len() + 1 {
            self.last.pop_front();
        }
        self.last.push_back(byte);
        FirstLineKind::Unknown
    }

    /// Returns `true` if the line, which is whole now, ends like ` HTTP/1.1`.
    fn is_request_line(&self) -> bool {
        let line = self.last.iter().rev().skip_while(|byte| **byte == b'\r');
        let is_like = |(like, byte): (&u8, &u8)| match like {
            b'1' => byte.is_ascii_digit(),
            _ => like == byte,
        };
        let count = VERSION.iter().rev().zip(line).filter(|pair| is_like(*pair)).count();
        self.has_method && count == VERSION.len()
    }
}

/// The end of a request line; each 1 stands for any digit.
const VERSION: &[u8] = b" HTTP/1.1";

/// Returns `true` if the name of a method may contain this byte.
fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl BrowserGuard {
    pub(super) fn new(socket: Socket) -> Self {
        BrowserGuard { socket, first_line: Some(FirstLine::default()) }
    }

    /// Inspects received bytes until the verdict is known.
    fn judge(&mut self, came: &[u8]) -> io::Result<()> {
        let Some(first_line) = &mut self.first_line else { return Ok(()) };
        let known =
            came.iter().map(|byte| first_line.take(*byte)).find(|it| *it != FirstLineKind::Unknown);
        match known {
            Some(FirstLineKind::Request) => {
                static METER: LogLimiter = LogLimiter::new(20);
                let is_tls = first_line.first.starts_with(TLS);
                METER.log("browser connections closed", || match is_tls {
                    true => tracing::warn!(
                        "connection closed: TLS handshake where plain frames are expected"
                    ),
                    false => tracing::warn!(
                        "connection closed: HTTP request where frames are expected, perhaps from a web page"
                    ),
                });
                let what = if is_tls { "the remote speaks TLS" } else { "the remote speaks HTTP" };
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
            Some(_) => {
                self.first_line = None;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Transport for BrowserGuard {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let before = inbox.at_hand().len();
        let received = ready!(self.socket.poll_receive(cx, inbox))?;
        self.judge(inbox.at_hand().get(before..).unwrap_or_default())?;
        Poll::Ready(Ok(received))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        self.socket.poll_send(cx, outbox)
    }

    fn poll_remote_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Transport::poll_remote_closed(&mut self.socket, cx)
    }

    fn poll_reader_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_reader_gone(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.socket.poll_close(cx)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::BrowserGuard;
    use crate::net::Socket;

    #[tokio::test]
    async fn t3_stream_that_begins_as_http_is_recognised_wherever_it_is_split() {
        for (stream, is_accepted) in [
            (&b"POST / HTTP/1.1\r\n"[..], false),
            (b"GET / HTTP/1.1\r\n", false),
            (b"OPTIONS * HTTP/1.1\r\n", false),
            (b"Content-Length: 2\r\n\r\n[]", true),
            (b"POSTED: 1\r\nContent-Length: 2\r\n\r\n[]", true),
            (b"get / HTTP/1.1\r\n", false),
            (b"FOO /?a=b:c HTTP/1.1\r\n", false),
            (b"x!-~ /\xff HTTP/1.0\n", false),
            (b"PRI * HTTP/2.0\r\n", false),
            (b"a stray line\r\n", true),
            (b"a stray line of HTTP/1.1 or so\r\n", true),
            (b"aHTTP/1.1\n", true),
            (b"X: HTTP/1.1\r\n", true),
            (b" FOO / HTTP/1.1\r\n", true),
            (b"\x16\x03\x01\x02\x00\x01", false),
            (b"{}\n", true),
            (b"\0\0\0\x02[]\n", true),
        ] {
            for cut in 0..stream.len() {
                let (socket, _other) = tokio::net::UnixStream::pair().expect("a pair");
                let mut guard = BrowserGuard::new(Socket::unix(socket));
                let (first, rest) = stream.split_at(cut);
                let judged = guard.judge(first).and_then(|()| guard.judge(rest));
                assert_eq!(judged.is_ok(), is_accepted, "{stream:?} cut at {cut}");
                assert_eq!(guard.first_line.is_none(), is_accepted, "{stream:?} cut at {cut}");
            }
        }
    }
}
