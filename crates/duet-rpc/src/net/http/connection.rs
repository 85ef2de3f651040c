//! One connection of an HTTP client: one request at a time.

use std::cell::OnceCell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use duet_rpc_proto::Limits;
use duet_rpc_proto::message::Id;

use super::reply::{ResponseReader, ResponseStep};
use super::verdict::{HttpFailure, id_of, judge};
use crate::net::{Dialer, Socket};

/// A connection, and the request that it is used for.
pub(super) struct HttpConnection {
    link: Link,
    /// What is under way, until it is answered.
    exchange: Option<HttpExchange>,
}

enum Link {
    Dialing(Dialing),
    Up(Socket),
    Down,
}

type Dialing = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

/// A request, and what has come of its response.
pub(super) struct HttpExchange {
    /// Head and body, one behind the other.
    request: Vec<u8>,
    /// Where the body begins.
    message_at: usize,
    written: usize,
    /// The server takes nothing more of it.
    is_cut: bool,
    reply: ResponseReader,
    /// The id of the message, once somebody has asked for it.
    id: OnceCell<Option<Id>>,
}

/// What became of a request: the message that its response carried, if there was one.
pub(super) struct EndedExchange {
    pub(super) exchange: HttpExchange,
    pub(super) outcome: Result<Option<Vec<u8>>, HttpFailure>,
}

/// What is known of the server.
#[derive(Clone, Debug)]
pub(super) struct ServerInfo {
    pub(super) dialer: Dialer,
    pub(super) limits: Limits,
}

impl ServerInfo {
    /// Connects, in a future of its own.
    fn dial(&self) -> Dialing {
        let dialer = self.dialer.clone();
        Box::pin(async move { dialer.dial().await })
    }
}

impl HttpExchange {
    /// A request that waits to be sent. Its body begins there.
    pub(super) fn new(request: Vec<u8>, message_at: usize, server: &ServerInfo) -> Self {
        let reply = ResponseReader::awaited(server.limits.header_bytes);
        HttpExchange { request, message_at, written: 0, is_cut: false, reply, id: OnceCell::new() }
    }

    /// The id of the request; `None` if its message wants no answer.
    pub(super) fn id(&self) -> Option<&Id> {
        let message = || self.request.get(self.message_at..).unwrap_or_default();
        self.id.get_or_init(|| id_of(message())).as_ref()
    }

    fn is_written(&self) -> bool {
        self.written >= self.request.len()
    }

    /// Writes as much as can be written.
    fn write(&mut self, socket: &mut Socket, cx: &mut Context<'_>) {
        while !self.is_written() && !self.is_cut {
            let rest = self.request.get(self.written..).unwrap_or_default();
            match socket.poll_write(cx, rest) {
                Poll::Pending => return,
                Poll::Ready(Ok(count)) => self.written += count,
                // A server that has refused it may not read the rest, and its reason can still be
                // read. If there is none, reading says so.
                Poll::Ready(Err(_)) => self.is_cut = true,
            }
        }
        // Reading waits for the rest of a flush, too.
        let _ = socket.poll_flush(cx);
    }
}

impl HttpConnection {
    /// A connection that is up.
    pub(super) fn up(socket: Socket) -> Self {
        HttpConnection { link: Link::Up(socket), exchange: None }
    }

    /// A connection that is being made, for this request.
    pub(super) fn dial(server: &ServerInfo, exchange: HttpExchange) -> Self {
        HttpConnection { link: Link::Dialing(server.dial()), exchange: Some(exchange) }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// Returns `true` if all of its request has left, or nothing more of it will.
    pub(super) fn is_sent(&self) -> bool {
        self.exchange.as_ref().is_none_or(|it| it.is_written() || it.is_cut)
    }

    /// Returns `true` if no request is under way here.
    pub(super) fn is_idle(&self) -> bool {
        self.exchange.is_none() || self.is_down()
    }

    /// Returns `true` if the request of that id is under way here.
    pub(super) fn carries(&self, id: &Id) -> bool {
        self.exchange.as_ref().and_then(HttpExchange::id) == Some(id)
    }

    /// Returns `true` if it can take a request. A connection that the server has closed cannot: a request is
    /// never sent twice, so it must not be lost there. What has come is asked of the system itself, as
    /// the runtime may not have looked since.
    pub(super) fn is_free(&mut self) -> bool {
        match &mut self.link {
            Link::Up(socket) if self.exchange.is_none() => {
                let is_quiet = socket.is_quiet();
                if !is_quiet {
                    self.link = Link::Down;
                }
                is_quiet
            }
            _ => false,
        }
    }

    /// Takes a request; nothing is sent yet.
    pub(super) fn begin(&mut self, exchange: HttpExchange) {
        self.exchange = Some(exchange);
    }

    /// Connects, writes and reads, whichever it is time for; ready with what became of the request.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        server: &ServerInfo,
    ) -> Poll<EndedExchange> {
        loop {
            match &mut self.link {
                Link::Down => return Poll::Pending,
                Link::Dialing(dialing) => match ready!(dialing.as_mut().poll(cx)) {
                    Ok(socket) => self.link = Link::Up(socket),
                    Err(error) => {
                        self.link = Link::Down;
                        if let Some(exchange) = self.exchange.take() {
                            let outcome = Err(HttpFailure::Unreachable(error));
                            return Poll::Ready(EndedExchange { exchange, outcome });
                        }
                    }
                },
                Link::Up(socket) => {
                    let Some(exchange) = &mut self.exchange else {
                        // The end between two requests, or something that nobody asked for.
                        let _ = ready!(socket.poll_read(cx, |_| ()));
                        self.link = Link::Down;
                        continue;
                    };
                    exchange.write(socket, cx);
                    let reply = &mut exchange.reply;
                    let read = ready!(socket.poll_read(cx, |piece| match piece {
                        [] => reply.end(),
                        _ => reply.take(piece, server.limits.message_bytes),
                    }));
                    let step = read.unwrap_or_else(|_| Err(exchange.reply.broken()));
                    let (whole, keeps_alive) = match step {
                        Ok(ResponseStep::More) => continue,
                        Ok(ResponseStep::Done { status, body, keeps_alive }) => {
                            (Ok((status, body)), keeps_alive)
                        }
                        Err(failure) => (Err(failure), false),
                    };
                    // A server that answers before it has read all does not read the rest.
                    if !keeps_alive || !exchange.is_written() {
                        self.link = Link::Down;
                    }
                    if let Some(exchange) = self.exchange.take() {
                        let outcome = whole.and_then(|(status, body)| {
                            judge(status, body, || exchange.id(), &server.limits)
                        });
                        return Poll::Ready(EndedExchange { exchange, outcome });
                    }
                }
            }
        }
    }

    /// Ready when the server has had a moment to take what was sent last.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.link {
            Link::Up(socket) if self.exchange.is_some() => socket.poll_shutdown(cx),
            _ => Poll::Ready(()),
        }
    }
}

impl fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_busy = self.exchange.is_some();
        f.debug_struct("HttpConnection").field("is_busy", &is_busy).finish_non_exhaustive()
    }
}
