//! Browser guard: closes a TCP connection that begins as HTTP.
//!
//! A web page can have its user's browser send a request to any port of this machine. Where frames are
//! expected, the head of such a request is a fault, and behind a fault the next frame is served, which
//! may stand in the body: so the page could call. But a browser always begins with a request line, and
//! no stream of frames does. So a connection that begins so is closed (T3).
//!
//! The usual methods are known by their names, before the line is whole. But a page that has its own name
//! lead to this machine may make up a method without asking beforehand, so a request is also known by how
//! its line ends. No frame can be whole by then: a browser lets neither a line end nor a zero byte into it.

use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, ready};

use crate::log_limit::LogLimiter;
use crate::net::Socket;
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport};

/// How requests begin, and what an encrypted one is behind: of that a page can choose a part too.
const REQUEST_STARTS: [&[u8]; 10] = [
    b"\x16\x03",
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

/// The length of the longest of them.
const LONGEST: usize = 8;

pub(super) struct BrowserGuard {
    socket: Socket,
    /// What was seen of the first line, as long as that could become a request; `None` once it is known to
    /// be none.
    first_line: Option<FirstLine>,
}

#[derive(Default)]
struct FirstLine {
    /// The first bytes.
    first: Vec<u8>,
    /// Whether the first word is over.
    has_method: bool,
    /// The last bytes of the line, up to here.
    last: VecDeque<u8>,
}

/// What can be said of how a connection begins.
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

    /// Whether the line that is whole now ends like ` HTTP/1.1`.
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

/// How the line of a request ends; each 1 is any digit.
const VERSION: &[u8] = b" HTTP/1.1";

/// Whether the name of a method may have it.
fn is_of_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl BrowserGuard {
    pub(super) fn new(socket: Socket) -> Self {
        BrowserGuard { socket, first_line: Some(FirstLine::default()) }
    }

    /// Looks at what has come, as long as it is not known what it is.
    fn judge(&mut self, came: &[u8]) -> io::Result<()> {
        let Some(first_line) = &mut self.first_line else { return Ok(()) };
        let known =
            came.iter().map(|byte| first_line.take(*byte)).find(|it| *it != FirstLineKind::Unknown);
        match known {
            Some(FirstLineKind::Request) => {
                static METER: LogLimiter = LogLimiter::new(20);
                METER.log("connections of browsers were closed", || {
                    tracing::warn!(
                        "an HTTP request where frames are expected, perhaps of a web page"
                    );
                });
                Err(io::Error::new(io::ErrorKind::InvalidData, "the remote speaks HTTP"))
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

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.socket.poll_close(cx)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::BrowserGuard;
    use crate::net::Socket;

    #[tokio::test]
    async fn t3_a_stream_that_begins_as_http_is_told_from_frames_however_it_is_cut() {
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
