//! HTTP client: a few connections to one server.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use duet_rpc_proto::message::Id;
use duet_rpc_proto::{Limits, Profile};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method};
use http_body_util::Full;

use super::connection::{ExchangeStep, HttpConnection, HttpExchange};
use super::session::SESSION;
use super::verdict::{HttpArrival, HttpFailure, id_of, is_batch_of_requests};
use crate::net::web::RequestHead;
use crate::net::{Dialer, Place, Socket, Target};
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// Sends each message as an HTTP request, and receives the messages in the responses.
///
/// A request holds its connection until it is answered or abandoned. So the client has up to eight connections, which
/// it opens on demand and reuses. Further requests wait. No request is sent twice, because a server may have read it
/// before its connection ended.
///
/// Requests run concurrently. A notification or a response waits until all earlier requests are written, and later
/// messages wait until the head of its response has come. So the server gets it before every later message.
///
/// A response is JSON, one message or a batch, or an event stream (`text/event-stream`): notifications, and then the
/// answer. A request in a response is ignored, because the client has no way to answer it. If the server names a
/// session (`Mcp-Session-Id`), the client sends the name with later requests.
///
/// A failure of one request fails one call, with an error of the kind [`Exchange`](crate::ErrorKind::Exchange): a
/// status such as 413 or 503, a connection that breaks, a response that is not a JSON-RPC answer. The connection of
/// the peer stays open, and the next call may succeed. If the failed message was a notification, and no later
/// exchange succeeded, closing the connection reports the failure. An error object in the body is the server's
/// answer, with any status, if it has the id of the request or no id.
///
/// A status that every request would get, 401, 403, 404, 405 or a redirect, ends the connection, with a
/// [`Refused`](crate::transport::Refused) in the reason. A server that can no longer be reached ends the connection,
/// too, and so does one that refuses the client's certificate.
pub struct HttpClient {
    server: ServerInfo,
    lines: Vec<HttpConnection>,
    /// Messages and failures that arrived while messages were sent.
    arrived: VecDeque<HttpArrival>,
    /// The error that ends the connection.
    end: Option<io::Error>,
    /// The error of the last exchange, if that was a notification. No caller waits for it, so closing reports it.
    undelivered: Option<io::Error>,
    /// Calls that were abandoned while they were in the outbox.
    abandoned: HashSet<Id>,
    /// The first message in the outbox is no request, so it waits until earlier requests are written.
    awaits_writing: bool,
    /// The number of messages in the outbox, when it was looked at last.
    waiting: usize,
    is_closing: bool,
    has_left: bool,
}

/// Makes a connection to the server.
pub(in crate::net) type Dial = Box<dyn Fn() -> Dialing + Send + Sync>;

/// A connection that is being made.
pub(in crate::net) type Dialing = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

/// The server of a client, and the requests to it.
pub(super) struct ServerInfo {
    pub(super) dial: Dial,
    pub(super) limits: Limits,
    head: RequestHead,
    /// The id that the server gave to the session.
    session: Option<HeaderValue>,
}

impl ServerInfo {
    fn exchange_of(&self, message: &[u8]) -> HttpExchange {
        let body = Full::new(Bytes::copy_from_slice(message));
        let mut request = self.head.request(Method::POST, body);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        let id = id_of(message);
        let is_request = id.is_some() || is_batch_of_requests(message);
        HttpExchange::new(id, is_request, request)
    }
}

/// Maximum number of connections.
const LINES: usize = 8;

/// Maximum number of messages that wait to be received. An event stream can bring any number of messages, so the
/// client leaves further messages unread.
const ARRIVED: usize = LINES;

/// Maximum number of abandoned calls to remember. An outbox is unlikely to hold more. A forgotten call is sent,
/// although nobody waits for its answer.
const ABANDONED: usize = 16 * 1024;

impl HttpClient {
    /// Connects to the server at this place. Its requests go to this target, and carry this token.
    pub async fn connect(
        place: &Place,
        target: &Target,
        token: Option<&str>,
        profile: &Profile,
    ) -> io::Result<Self> {
        let head = RequestHead::new(place, target, token, &[])?;
        HttpClient::open(Dialer::new(place, profile).into_dial(), head, profile).await
    }

    /// Makes the first connection. All requests have this head.
    pub(in crate::net) async fn open(
        dial: Dial,
        head: RequestHead,
        profile: &Profile,
    ) -> io::Result<Self> {
        let server = ServerInfo { dial, limits: profile.limits.usable(), head, session: None };
        Ok(HttpClient {
            lines: vec![HttpConnection::connect(&server).await?],
            server,
            arrived: VecDeque::new(),
            end: None,
            undelivered: None,
            abandoned: HashSet::new(),
            awaits_writing: false,
            waiting: 0,
            is_closing: false,
            has_left: false,
        })
    }

    /// Advances every connection: connects, writes and reads. Registers the waker for each connection that has to
    /// wait.
    fn advance(&mut self, cx: &mut Context<'_>) {
        let mut failed = Vec::new();
        for line in &mut self.lines {
            // Poll again after an answer: the server may have closed the connection after it.
            while self.arrived.len() < ARRIVED
                && let Poll::Ready(step) = line.poll(cx, &self.server)
            {
                match step {
                    ExchangeStep::Session(id) => self.server.session = Some(id),
                    ExchangeStep::Messages(messages) => {
                        self.arrived.extend(messages.into_iter().map(HttpArrival::Message));
                    }
                    ExchangeStep::Ended { outcome: Ok(()), .. } => self.undelivered = None,
                    ExchangeStep::Ended { outcome: Err(failure), .. } if failure.concerns_all() => {
                        self.end.get_or_insert_with(|| failure.into_error());
                    }
                    ExchangeStep::Ended { id, outcome: Err(failure) } => failed.push((id, failure)),
                }
            }
        }
        self.lines.retain(|line| !line.is_down());
        // The server is reachable if another connection to it is up.
        let is_there = self.lines.iter().any(HttpConnection::is_up);
        for (id, failure) in failed {
            match (&failure, id) {
                (HttpFailure::Unreachable(_), _) if !is_there => {
                    self.end.get_or_insert_with(|| failure.into_error());
                }
                (_, Some(id)) => {
                    self.arrived.push_back(HttpArrival::Failed(id, failure.into_error()));
                }
                (_, None) => {
                    tracing::warn!(error = %failure, "notification perhaps not delivered");
                    self.undelivered = Some(failure.into_error_of_notification());
                }
            }
        }
    }

    /// Starts waiting messages in their order, while connections are available. Nothing passes a notification or a
    /// response.
    fn begin(&mut self, outbox: &mut Outbox) {
        while self.end.is_none()
            && self.arrived.len() < ARRIVED
            && !self.lines.iter().any(HttpConnection::holds_up)
            && let Some(message) = outbox.message()
        {
            if !self.abandoned.is_empty()
                && id_of(message).is_some_and(|id| self.abandoned.remove(&id))
            {
                outbox.pop();
                continue;
            }
            let is_written = self.lines.iter().all(HttpConnection::is_sent);
            if self.awaits_writing && !is_written {
                break;
            }
            let free = self.lines.iter_mut().position(HttpConnection::is_free);
            if free.is_none() && !self.has_room() {
                break;
            }
            let exchange = self.server.exchange_of(message);
            self.awaits_writing = !exchange.is_request() && !is_written;
            if self.awaits_writing {
                break;
            }
            match free.and_then(|at| self.lines.get_mut(at)) {
                Some(line) => line.begin(exchange),
                None => self.lines.push(HttpConnection::dial(&self.server, exchange)),
            }
            outbox.pop();
        }
        if outbox.is_empty() {
            self.abandoned = HashSet::new();
        }
    }

    fn steps_left(&self) -> usize {
        self.lines.iter().map(HttpConnection::steps_left).sum()
    }

    /// Logs the messages that the server has not accepted, when the connection closes.
    fn log_lost(&mut self) {
        let unanswered = self.lines.iter().filter(|line| line.holds_up()).count();
        let count = self.waiting + unanswered;
        if !std::mem::replace(&mut self.has_left, true) && count > 0 {
            tracing::warn!(count, "messages lost: the server did not accept them before the end");
        }
    }

    /// Returns `true` if another connection may be opened. At the limit, drops a connection whose request is answered
    /// but whose response has not ended.
    fn has_room(&mut self) -> bool {
        // Some connections may have closed since the last check.
        self.lines.retain(|line| !line.is_down());
        if self.lines.len() >= LINES
            && let Some(at) = self.lines.iter().position(HttpConnection::is_idle)
        {
            self.lines.swap_remove(at);
        }
        self.lines.len() < LINES
    }

    /// Abandons a request: in HTTP that means closing its connection, which frees the slot.
    fn abandon(&mut self, id: Id) {
        match self.lines.iter().position(|line| line.carries(&id)) {
            Some(at) => drop(self.lines.swap_remove(at)),
            // The request is still in the outbox, unless its answer is being received now.
            None if self.abandoned.len() < ABANDONED => drop(self.abandoned.insert(id)),
            None => {}
        }
    }
}

impl Transport for HttpClient {
    fn kind(&self) -> TransportKind {
        TransportKind::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let before = self.steps_left();
        self.advance(cx);
        if self.arrived.is_empty() {
            if (self.waiting > 0 || self.is_closing) && self.steps_left() < before {
                // Wake the task, so that it sends again.
                cx.waker().wake_by_ref();
            }
            return self.end.take().map_or(Poll::Pending, |end| Poll::Ready(Err(end)));
        }
        for arrival in self.arrived.drain(..) {
            match arrival {
                HttpArrival::Message(message) => inbox.push(&message)?,
                HttpArrival::Failed(id, error) => inbox.fail_call(id, error)?,
            }
        }
        Poll::Ready(Ok(Received::Data))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        let before = (self.arrived.len(), self.end.is_some());
        self.is_closing = outbox.is_closing();
        while let Some(id) = outbox.next_abandoned() {
            self.abandon(id);
        }
        loop {
            let waiting = outbox.len();
            // An answer that arrives meanwhile frees a connection for the next request.
            self.advance(cx);
            self.begin(outbox);
            if outbox.len() == waiting {
                break;
            }
        }
        self.waiting = outbox.message_count();
        if self.is_closing
            && let Some(end) = self.end.take()
        {
            // Return the error here, because receiving may have stopped.
            return Poll::Ready(Err(end));
        }
        if before != (self.arrived.len(), self.end.is_some()) {
            // Wake the task, so that it receives again.
            cx.waker().wake_by_ref();
        }
        let is_done = match self.is_closing {
            true => HttpConnection::is_delivered,
            false => HttpConnection::is_sent,
        };
        if !outbox.is_empty() || !self.lines.iter().all(is_done) {
            return Poll::Pending;
        }
        let undelivered = if self.is_closing { self.undelivered.take() } else { None };
        Poll::Ready(undelivered.map_or(Ok(()), Err))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
        self.log_lost();
        self.lines.retain_mut(|line| line.poll_close(cx).is_pending());
        if self.lines.is_empty() { Poll::Ready(ExitReport::default()) } else { Poll::Pending }
    }
}

impl fmt::Debug for HttpClient {
    /// Shows the server, and not the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpClient");
        shown.field("head", &self.server.head).field("lines", &self.lines).finish_non_exhaustive()
    }
}
