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
use super::verdict::{HttpArrival, HttpFailure, id_of};
use crate::net::web::RequestHead;
use crate::net::{Dialer, Place, Socket, Target};
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// Sends each message as an HTTP request, and receives the messages in the responses.
///
/// A request holds its connection until it is answered or given up. So there are up to eight connections,
/// opened on demand and reused. Further requests wait. No request is sent twice, because a server may
/// have read it before its connection ended.
///
/// A response is JSON, one message or a batch, or an event stream (`text/event-stream`): notifications, and
/// then the answer. A request in it is ignored, because the client has no way to answer it. A server that
/// names a session (`Mcp-Session-Id`) gets the name back with later requests.
///
/// A failure of one request fails one call, with an error of the kind
/// [`Exchange`](crate::ErrorKind::Exchange): a status such as 413 or 503, a connection that breaks, a
/// response that is not a JSON-RPC answer. The connection stands, and the next call may go well. If it
/// was a notification, and no later exchange went well, closing the connection tells of it. An error
/// object in the body is the server's answer, whatever the status, if it has the id of the request or
/// none.
///
/// A status that every request would get, 401, 403, 404, 405 or a redirect, ends the connection: the
/// reason has a [`Refused`](crate::transport::Refused) in it. So does a server that cannot be reached any
/// more.
pub struct HttpClient {
    server: ServerInfo,
    lines: Vec<HttpConnection>,
    /// What came while messages were sent.
    arrived: VecDeque<HttpArrival>,
    /// Why this is the end, if it is.
    end: Option<io::Error>,
    /// Why the last exchange failed, if it was that of a notification: there is no caller to tell, so whoever
    /// closes is told.
    undelivered: Option<io::Error>,
    /// Calls that were given up before they were taken out of the outbox.
    abandoned: HashSet<Id>,
    is_closing: bool,
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
        HttpExchange::new(id_of(message), request)
    }
}

/// The most connections at once.
const LINES: usize = 8;

/// The most messages that wait to be received. A stream of events can bring any number of them, so further
/// ones stay with the server.
const ARRIVED: usize = LINES;

/// So many calls that were given up are remembered: more wait in no outbox, in all likelihood, and
/// one that is forgotten is sent in vain.
const ABANDONED: usize = 16 * 1024;

impl HttpClient {
    /// Connects to the server at this place. Its requests go to this target, and show this token.
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
            is_closing: false,
        })
    }

    /// Lets every connection do what it can: connect, write and read. Whoever calls this hears of
    /// whatever each of them waits for.
    fn advance(&mut self, cx: &mut Context<'_>) {
        let mut failed = Vec::new();
        for line in &mut self.lines {
            // One that was answered may have been closed behind it.
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
        // A server that others still speak to is there.
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

    /// Begins the requests for which there is a connection.
    fn begin(&mut self, outbox: &mut Outbox) {
        while self.arrived.len() < ARRIVED
            && let Some(message) = outbox.message()
        {
            if !self.abandoned.is_empty()
                && id_of(message).is_some_and(|id| self.abandoned.remove(&id))
            {
                outbox.pop();
                continue;
            }
            let free = self.lines.iter_mut().position(HttpConnection::is_free);
            if free.is_none() && !self.has_room() {
                break;
            }
            let exchange = self.server.exchange_of(message);
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

    /// Returns `true` if there may be one more connection. One whose request is answered, and whose response
    /// goes on all the same, gives way.
    fn has_room(&mut self) -> bool {
        // Some may have been closed since.
        self.lines.retain(|line| !line.is_down());
        if self.lines.len() >= LINES
            && let Some(at) = self.lines.iter().position(HttpConnection::is_idle)
        {
            self.lines.swap_remove(at);
        }
        self.lines.len() < LINES
    }

    /// Gives up a request: HTTP does that by closing its connection, which frees its place.
    fn abandon(&mut self, id: Id) {
        match self.lines.iter().position(|line| line.carries(&id)) {
            Some(at) => drop(self.lines.swap_remove(at)),
            // It waits in the outbox, unless its answer is being received now.
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
        self.advance(cx);
        if self.arrived.is_empty() {
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
            // What is answered meanwhile makes room for the next.
            self.advance(cx);
            self.begin(outbox);
            if outbox.len() == waiting {
                break;
            }
        }
        if self.is_closing
            && let Some(end) = self.end.take()
        {
            // There may be nobody who receives.
            return Poll::Ready(Err(end));
        }
        if before != (self.arrived.len(), self.end.is_some()) {
            // Who receives has to look.
            cx.waker().wake_by_ref();
        }
        let is_done = match self.is_closing {
            // Nobody waits for what a notification is answered with, but it may be that it was refused.
            true => HttpConnection::is_idle,
            false => HttpConnection::is_sent,
        };
        if !outbox.is_empty() || !self.lines.iter().all(is_done) {
            return Poll::Pending;
        }
        let undelivered = if self.is_closing { self.undelivered.take() } else { None };
        Poll::Ready(undelivered.map_or(Ok(()), Err))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<ExitReport> {
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
