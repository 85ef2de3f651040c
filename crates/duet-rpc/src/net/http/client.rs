//! HTTP client: a few connections to one server.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io::{self, Write};
use std::task::{Context, Poll};

use duet_rpc_proto::Profile;
use duet_rpc_proto::message::Id;

use super::connection::{EndedExchange, HttpConnection, HttpExchange, ServerInfo};
use super::verdict::{HttpArrival, HttpFailure, id_of};
use crate::net::web::{JSON, authorization};
use crate::net::{Dialer, Place, Target};
use crate::transport::{ExitReport, Inbox, Outbox, Received, Transport, TransportKind};

/// Sends each message as an HTTP request, and receives the messages in the responses.
///
/// A request holds its connection until it is answered or given up. So there are up to eight connections,
/// opened on demand and reused. Further requests wait. No request is sent twice, because a server may
/// have read it before its connection ended.
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
    /// The head of all requests, up to the length.
    head: Vec<u8>,
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

/// The most connections at once.
const LINES: usize = 8;

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
        Self::dialed(Dialer::new(place, profile), target, token, profile).await
    }

    /// The same with a dialer, which makes all connections.
    pub(crate) async fn dialed(
        dialer: Dialer,
        target: &Target,
        token: Option<&str>,
        profile: &Profile,
    ) -> io::Result<Self> {
        let authorization = authorization(token)?;
        let (place, target) = (dialer.place(), target.as_str());
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {place}\r\nContent-Type: {JSON}\r\nAccept: {JSON}\r\n\
             {authorization}Content-Length: "
        );
        let socket = dialer.dial().await?;
        Ok(HttpClient {
            server: ServerInfo { dialer, limits: profile.limits.usable() },
            head: head.into_bytes(),
            lines: vec![HttpConnection::up(socket)],
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
            while let Poll::Ready(EndedExchange { exchange, outcome }) = line.poll(cx, &self.server)
            {
                match outcome {
                    Ok(message) => {
                        self.undelivered = None;
                        self.arrived.extend(message.map(HttpArrival::Message));
                    }
                    Err(failure) if failure.concerns_all() => {
                        self.end.get_or_insert_with(|| failure.into_error());
                    }
                    Err(failure) => failed.push((exchange, failure)),
                }
            }
        }
        self.lines.retain(|line| !line.is_down());
        // A server that others still speak to is there.
        let is_there = self.lines.iter().any(HttpConnection::is_up);
        for (exchange, failure) in failed {
            match (&failure, exchange.id()) {
                (HttpFailure::Unreachable(_), _) if !is_there => {
                    self.end.get_or_insert_with(|| failure.into_error());
                }
                (_, Some(id)) => {
                    self.arrived.push_back(HttpArrival::Failed(id.clone(), failure.into_error()));
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
        // What came and was not taken yet is bounded too.
        while self.arrived.len() < LINES
            && let Some(message) = outbox.message()
        {
            if !self.abandoned.is_empty()
                && id_of(message).is_some_and(|id| self.abandoned.remove(&id))
            {
                outbox.pop();
                continue;
            }
            let free = self.lines.iter_mut().position(HttpConnection::is_free);
            if free.is_none() {
                // Some may have been closed since.
                self.lines.retain(|line| !line.is_down());
                if self.lines.len() >= LINES {
                    break;
                }
            }
            let exchange = self.exchange_of(message);
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

    /// Gives up a request: HTTP does that by closing its connection, which frees its place.
    fn abandon(&mut self, id: Id) {
        match self.lines.iter().position(|line| line.carries(&id)) {
            Some(at) => drop(self.lines.swap_remove(at)),
            // It waits in the outbox, unless its answer is being received now.
            None if self.abandoned.len() < ABANDONED => drop(self.abandoned.insert(id)),
            None => {}
        }
    }

    fn exchange_of(&self, message: &[u8]) -> HttpExchange {
        let mut request = Vec::with_capacity(self.head.len() + message.len() + 16);
        request.extend_from_slice(&self.head);
        // Writing to a vector does not fail.
        let _ = write!(request, "{}\r\n\r\n", message.len());
        let message_at = request.len();
        request.extend_from_slice(message);
        HttpExchange::new(request, message_at, &self.server)
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
        shown.field("server", &self.server).field("lines", &self.lines).finish_non_exhaustive()
    }
}
