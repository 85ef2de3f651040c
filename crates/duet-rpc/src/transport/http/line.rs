//! One of a client's connections: a request at a time.

use std::convert::identity;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::reply::{Reply, Step};
use crate::transport::{Place, Socket};

/// A connection, and the request that it is used for.
pub(super) struct Line {
    link: Link,
    /// Head and body of the request, until it is answered.
    request: Vec<u8>,
    written: usize,
    /// Whether it answered a request already: it may be closed by now, and then the next request was
    /// not read, and is sent again.
    is_used: bool,
    reply: Reply,
    /// When the request was taken.
    since: Instant,
}

enum Link {
    Dialing(Dialing),
    Up(Socket),
    Down,
}

type Dialing = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// What is known of the server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) place: Place,
    pub(super) header_bytes: usize,
    pub(super) message_bytes: usize,
}

impl Server {
    /// Connects, in a future of its own.
    fn dial(&self) -> Dialing {
        let Place { host, port } = self.place.clone();
        Box::pin(async move { TcpStream::connect((host, port)).await })
    }
}

impl Line {
    /// A connection that is up.
    pub(super) fn up(socket: Socket) -> Self {
        Line::new(Link::Up(socket))
    }

    /// A connection that is being made.
    pub(super) fn dial(server: &Server) -> Self {
        Line::new(Link::Dialing(server.dial()))
    }

    fn new(link: Link) -> Self {
        let since = Instant::now();
        Line { link, request: Vec::new(), written: 0, is_used: false, reply: Reply::None, since }
    }

    /// Whether it can take a request.
    pub(super) fn is_free(&self) -> bool {
        matches!((&self.link, &self.reply), (Link::Up(_), Reply::None))
    }

    /// Since when it waits for the answer to its request.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// Takes a request; nothing is sent yet.
    pub(super) fn begin(&mut self, request: Vec<u8>, server: &Server) {
        self.request = request;
        self.written = 0;
        self.reply = Reply::awaited(server.header_bytes);
        self.since = Instant::now();
    }

    /// Connects and writes; ready when the whole request has left.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        server: &Server,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut self.link {
                Link::Dialing(dialing) => {
                    let stream = ready!(dialing.as_mut().poll(cx))?;
                    self.link = Link::Up(Socket::tcp(stream));
                    // Nobody has looked yet for what may come from there.
                    cx.waker().wake_by_ref();
                }
                Link::Down => return Poll::Ready(Ok(())),
                Link::Up(socket) => {
                    let rest = self.request.get(self.written..).unwrap_or_default();
                    if rest.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    match ready!(socket.poll_write(cx, rest)) {
                        Ok(count) => self.written += count,
                        Err(_) if self.can_retry() => self.retry(server),
                        // A server that has refused it may not read the rest, and its reason can
                        // still be read.
                        Err(_) => self.written = self.request.len(),
                    }
                }
            }
        }
    }

    /// Reads; ready with what a response carried, which is nothing if it says only that the request
    /// arrived.
    pub(super) fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        server: &Server,
    ) -> Poll<io::Result<Option<Vec<u8>>>> {
        loop {
            let Link::Up(socket) = &mut self.link else { return Poll::Pending };
            let reply = &mut self.reply;
            let read = ready!(socket.poll_read(cx, |piece| match piece {
                [] => reply.end().map(|step| (step, true)),
                _ => reply.take(piece, server.message_bytes).map(|step| (step, false)),
            }));
            let (step, is_end) = match read.and_then(identity) {
                Ok(step) => step,
                Err(_) if self.can_retry() => {
                    self.retry(server);
                    ready!(self.poll_write(cx, server))?;
                    continue;
                }
                Err(error) => return Poll::Ready(Err(error)),
            };
            match step {
                Step::More => {}
                Step::Unasked => {
                    // It ended between two requests, or it says what nobody asked for.
                    self.link = Link::Down;
                    return Poll::Pending;
                }
                Step::Done { message, keeps_alive } => {
                    // A server that answers before it has read all does not read the rest.
                    if is_end || !keeps_alive || self.written < self.request.len() {
                        self.link = Link::Down;
                    }
                    self.is_used = true;
                    self.reply = Reply::None;
                    self.request = Vec::new();
                    self.written = 0;
                    return Poll::Ready(Ok(message));
                }
            }
        }
    }

    /// Ready when the server has had a moment to take what was sent last.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Link::Up(socket) if !matches!(self.reply, Reply::None) => socket.poll_farewell(cx),
            _ => Poll::Ready(()),
        }
    }

    /// Whether the request can be sent again: on a connection that was kept, and ended before
    /// anything of the response came.
    fn can_retry(&self) -> bool {
        self.is_used && self.reply.has_not_begun()
    }

    fn retry(&mut self, server: &Server) {
        self.link = Link::Dialing(server.dial());
        self.is_used = false;
        self.written = 0;
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("is_free", &self.is_free()).finish_non_exhaustive()
    }
}
