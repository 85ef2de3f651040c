//! One connection of an HTTP client: one request at a time.
//!
//! ```text
//! Dialing ──▶ Up ──▶ Down        Waiting ──▶ Sent ──▶ Reading ──▶ ended
//!  the link                       the exchange
//! ```
//!
//! The client's task drives hyper itself. So nothing outlives the client, and dropping a connection closes it
//! immediately.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use duet_rpc_proto::message::Id;
use http::{HeaderValue, Request};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::client::{Dialing, ServerInfo};
use super::reply::HttpReply;
use super::session::SESSION;
use super::verdict::{Expected, HttpFailure, HttpMessages};
use crate::net::web::SharedSocket;

/// A connection, and the request that it is used for.
pub(super) struct HttpConnection {
    link: Link,
    /// The exchange that is under way, until its response has ended.
    exchange: Option<HttpExchange>,
}

enum Link {
    Dialing(Pin<Box<dyn Future<Output = io::Result<Box<HttpChannel>>> + Send>>),
    Up(Box<HttpChannel>),
    Down,
}

/// A connection that hyper drives.
struct HttpChannel {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` after the end.
    connection: Option<http1::Connection<TokioIo<SharedSocket>, Full<Bytes>>>,
    socket: SharedSocket,
}

/// A request, and the state of its response.
pub(super) struct HttpExchange {
    /// The id of the request; `None` if it expects no answer.
    id: Option<Id>,
    /// The message is a request, or a batch with a request: its answer may take long.
    is_request: bool,
    stage: ExchangeStage,
    /// The rest of the response does not matter: the answer has come, or none will come.
    is_answered: bool,
}

enum ExchangeStage {
    Waiting(Request<Full<Bytes>>),
    Sent(Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>),
    Reading(HttpReply),
    Ended,
}

/// A step of an exchange.
pub(super) enum ExchangeStep {
    /// The server gave the session this id.
    Session(HeaderValue),
    /// These messages came.
    Messages(Vec<Vec<u8>>),
    /// The response has ended, or the exchange has failed.
    Ended { id: Option<Id>, outcome: Result<(), HttpFailure> },
}

impl HttpExchange {
    /// A request that waits to be sent.
    pub(super) fn new(id: Option<Id>, is_request: bool, request: Request<Full<Bytes>>) -> Self {
        HttpExchange { id, is_request, stage: ExchangeStage::Waiting(request), is_answered: false }
    }

    pub(super) fn is_request(&self) -> bool {
        self.is_request
    }

    /// Returns `true` until the head of the response to a notification or a response has come.
    fn holds_up(&self) -> bool {
        !self.is_request && matches!(self.stage, ExchangeStage::Waiting(_) | ExchangeStage::Sent(_))
    }

    /// Sends the request, then reads the response, on this channel.
    fn advance(
        &mut self,
        channel: &mut HttpChannel,
        cx: &mut Context<'_>,
        server: &ServerInfo,
    ) -> Poll<ExchangeStep> {
        self.stage = match std::mem::replace(&mut self.stage, ExchangeStage::Ended) {
            ExchangeStage::Waiting(request) => channel.send(request),
            stage => stage,
        };
        // hyper continues to read only after the received part of the body was taken.
        if let Poll::Ready(step) = self.poll(cx, server) {
            return Poll::Ready(step);
        }
        channel.poll(cx);
        self.poll(cx, server)
    }

    /// Takes the received part of the response.
    fn poll(&mut self, cx: &mut Context<'_>, server: &ServerInfo) -> Poll<ExchangeStep> {
        loop {
            match &mut self.stage {
                ExchangeStage::Waiting(_) | ExchangeStage::Ended => return Poll::Pending,
                ExchangeStage::Sent(response) => match ready!(response.as_mut().poll(cx)) {
                    Err(error) => return self.end(Err(HttpFailure::from_head(error))),
                    Ok(mut response) => {
                        let session = response.headers_mut().remove(SESSION);
                        match HttpReply::new(response, server.limits.message_bytes) {
                            Err(failure) => return self.end(Err(failure)),
                            Ok(reply) => {
                                let session = session.filter(|_| reply.status.is_success());
                                // The start of a stream shows that the notification has arrived. The stream may never
                                // end.
                                self.is_answered = self.id.is_none() && reply.is_stream();
                                self.stage = ExchangeStage::Reading(reply);
                                if let Some(session) = session {
                                    return Poll::Ready(ExchangeStep::Session(session));
                                }
                            }
                        }
                    }
                },
                ExchangeStage::Reading(reply) => {
                    let text = match ready!(reply.poll_text(cx)) {
                        Some(Ok(text)) => text,
                        Some(Err(failure)) => return self.end(Err(failure)),
                        None => return self.end(Ok(())),
                    };
                    let (id, status) = (self.id.as_ref(), reply.status);
                    let expected = Expected { id, status, limits: &server.limits };
                    let judged = match reply.is_stream() {
                        true => expected.judge(text),
                        false => expected.judge_whole(text),
                    };
                    match judged {
                        Ok(HttpMessages { messages, has_answer }) => {
                            self.is_answered |= has_answer;
                            return Poll::Ready(ExchangeStep::Messages(messages));
                        }
                        Err(failure) => return self.end(Err(failure)),
                    }
                }
            }
        }
    }

    /// Ends the exchange. Failures after the answer are ignored.
    fn end(&mut self, outcome: Result<(), HttpFailure>) -> Poll<ExchangeStep> {
        self.stage = ExchangeStage::Ended;
        let id = self.id.take();
        let outcome = match (outcome, &id) {
            _ if self.is_answered => Ok(()),
            (Ok(()), Some(_)) => {
                Err(HttpFailure::Bad("the server took the request and did not answer it"))
            }
            (outcome, _) => outcome,
        };
        Poll::Ready(ExchangeStep::Ended { id, outcome })
    }
}

impl HttpChannel {
    async fn open(dialing: Dialing, header_bytes: usize) -> io::Result<Box<Self>> {
        let socket = SharedSocket::new(dialing.await?);
        let handshake = http1::Builder::new()
            .max_header_size(header_bytes)
            // Some servers recognise header names only in this form.
            .title_case_headers(true)
            .handshake(TokioIo::new(socket.clone()));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        Ok(Box::new(HttpChannel { sender, connection: Some(connection), socket }))
    }

    fn send(&mut self, request: Request<Full<Bytes>>) -> ExchangeStage {
        self.socket.begin_request();
        ExchangeStage::Sent(Box::pin(self.sender.send_request(request)))
    }

    /// Lets hyper write and read.
    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(cx).is_ready()
        {
            // The exchange reports the error, if there is one.
            self.connection = None;
        }
    }

    /// Returns `true` if a request can follow the last one, as far as hyper knows.
    fn is_kept(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready() && self.socket.is_whole()
    }
}

impl HttpConnection {
    /// Connects, and waits for the connection.
    pub(super) async fn connect(server: &ServerInfo) -> io::Result<Self> {
        let channel = HttpChannel::open((server.dial)(), server.limits.header_bytes).await?;
        Ok(HttpConnection { link: Link::Up(channel), exchange: None })
    }

    /// A connection that is being made, for this request.
    pub(super) fn dial(server: &ServerInfo, exchange: HttpExchange) -> Self {
        let opening = HttpChannel::open((server.dial)(), server.limits.header_bytes);
        HttpConnection { link: Link::Dialing(Box::pin(opening)), exchange: Some(exchange) }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.link, Link::Down)
    }

    /// Returns `true` if the whole request was sent, or if the rest will never be sent.
    pub(super) fn is_sent(&self) -> bool {
        match &self.link {
            Link::Dialing(_) => false,
            Link::Up(channel) => self.exchange.as_ref().is_none_or(|it| {
                !matches!(it.stage, ExchangeStage::Waiting(_)) && channel.socket.is_sent()
            }),
            Link::Down => true,
        }
    }

    /// Returns `true` while later messages have to wait for the message on this connection.
    pub(super) fn holds_up(&self) -> bool {
        !self.is_down() && self.exchange.as_ref().is_some_and(HttpExchange::holds_up)
    }

    /// Returns `true` if a request was sent, or if any other message was answered: that may be a refusal.
    pub(super) fn is_delivered(&self) -> bool {
        match self.exchange.as_ref().is_some_and(HttpExchange::is_request) {
            true => self.is_sent(),
            false => self.is_idle(),
        }
    }

    /// The number of steps until the message on this connection keeps no other message waiting.
    pub(super) fn steps_left(&self) -> usize {
        match (self.is_idle(), self.is_sent()) {
            (true, _) => 0,
            (_, true) => 1 + usize::from(self.holds_up()),
            (_, false) => 3,
        }
    }

    /// Returns `true` if no caller waits for a response on this connection.
    pub(super) fn is_idle(&self) -> bool {
        self.exchange.as_ref().is_none_or(|it| it.is_answered) || self.is_down()
    }

    /// Returns `true` if this connection carries the unanswered request with this id.
    pub(super) fn carries(&self, id: &Id) -> bool {
        self.exchange.as_ref().is_some_and(|it| !it.is_answered && it.id.as_ref() == Some(id))
    }

    /// Returns `true` if the connection can take a request. A connection that the server has closed cannot: the
    /// request would be lost there, and no request is sent twice.
    pub(super) fn is_free(&mut self) -> bool {
        match &self.link {
            Link::Up(channel) if self.exchange.is_none() => {
                let is_free = channel.is_kept() && channel.socket.is_quiet();
                if !is_free {
                    self.link = Link::Down;
                }
                is_free
            }
            _ => false,
        }
    }

    /// Takes a request, and sends nothing yet.
    pub(super) fn begin(&mut self, exchange: HttpExchange) {
        self.exchange = Some(exchange);
    }

    /// Connects, writes or reads, as the state requires; ready with a step of the exchange.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, server: &ServerInfo) -> Poll<ExchangeStep> {
        loop {
            match &mut self.link {
                Link::Down => return Poll::Pending,
                Link::Dialing(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(channel) => self.link = Link::Up(channel),
                    Err(error) => {
                        self.link = Link::Down;
                        let Some(mut exchange) = self.exchange.take() else { continue };
                        return exchange.end(Err(HttpFailure::Unreachable(error)));
                    }
                },
                Link::Up(channel) => {
                    let Some(exchange) = &mut self.exchange else {
                        channel.poll(cx);
                        if channel.connection.is_some() {
                            return Poll::Pending;
                        }
                        // The server closed the connection between two requests, or sent data without a request.
                        self.link = Link::Down;
                        continue;
                    };
                    let step = ready!(exchange.advance(channel, cx, server));
                    if matches!(step, ExchangeStep::Ended { .. }) {
                        self.exchange = None;
                        // Lets hyper notice that the response has ended.
                        channel.poll(cx);
                        if !channel.is_kept() {
                            self.link = Link::Down;
                        }
                    }
                    return Poll::Ready(step);
                }
            }
        }
    }

    /// Ready when the server has had a moment to read the last sent bytes.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.link {
            Link::Up(channel) if !self.is_idle() => channel.socket.poll_leave(cx),
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
