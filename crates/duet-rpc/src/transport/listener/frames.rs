//! A TCP connection on which frames are spoken, and no HTTP.
//!
//! A web page can have its user's browser send a request to any port of this machine. Where frames are
//! expected, the head of such a request is a fault, and behind a fault the next frame is served, which
//! may stand in the body: so the page could call. But a browser always begins with a request line, and
//! no stream of frames does. So a connection that begins so is closed (T3).

use std::io;
use std::task::{Context, Poll, ready};

use crate::meter::Meter;
use crate::transport::{Farewell, Inbox, Outbox, Received, Socket, Transport};

/// How requests begin, and what an encrypted one is behind: of that a page can choose a part too.
const BEGINNINGS: [&[u8]; 10] = [
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

pub(super) struct Frames {
    socket: Socket,
    /// How it begins, as long as that could become a request; `None` once it is known to be none.
    beginning: Option<Vec<u8>>,
}

impl Frames {
    pub(super) fn new(socket: Socket) -> Self {
        Frames { socket, beginning: Some(Vec::new()) }
    }

    /// Looks at what has come, as long as it is not known what it is.
    fn judge(&mut self, came: &[u8]) -> io::Result<()> {
        let Some(beginning) = &mut self.beginning else { return Ok(()) };
        beginning.extend(came.iter().take(LONGEST));
        let is_request = |it: &&[u8]| beginning.starts_with(it);
        let may_become_one = |it: &&[u8]| it.starts_with(beginning);
        if BEGINNINGS.iter().any(is_request) {
            static METER: Meter = Meter::new(20);
            METER.log("connections of browsers were closed", || {
                tracing::warn!("an HTTP request where frames are expected, perhaps of a web page");
            });
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the remote speaks HTTP"));
        }
        if !BEGINNINGS.iter().any(may_become_one) {
            self.beginning = None;
        }
        Ok(())
    }
}

impl Transport for Frames {
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

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Transport::poll_gone(&mut self.socket, cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        self.socket.poll_close(cx)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::Frames;
    use crate::transport::Socket;

    #[tokio::test]
    async fn t3_a_stream_that_begins_as_http_is_told_from_frames_however_it_is_cut() {
        for (stream, is_accepted) in [
            (&b"POST / HTTP/1.1\r\n"[..], false),
            (b"GET / HTTP/1.1\r\n", false),
            (b"OPTIONS * HTTP/1.1\r\n", false),
            (b"Content-Length: 2\r\n\r\n[]", true),
            (b"POSTED: 1\r\nContent-Length: 2\r\n\r\n[]", true),
            (b"get / HTTP/1.1\r\n", true),
            (b"\x16\x03\x01\x02\x00\x01", false),
            (b"{}\n", true),
            (b"\0\0\0\x02[]\n", true),
        ] {
            for cut in 0..stream.len() {
                let (socket, _other) = tokio::net::UnixStream::pair().expect("a pair");
                let mut frames = Frames::new(Socket::unix(socket));
                let (first, rest) = stream.split_at(cut);
                let judged = frames.judge(first).and_then(|()| frames.judge(rest));
                assert_eq!(judged.is_ok(), is_accepted, "{stream:?} cut at {cut}");
                assert_eq!(frames.beginning.is_none(), is_accepted, "{stream:?} cut at {cut}");
            }
        }
    }
}
