//! The client's end: a few connections to one server.

use std::fmt;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use duet_rpc_proto::Profile;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep_until};

use super::line::{Line, Server};
use crate::transport::web::{JSON, authorization};
use crate::transport::{
    Carries, Farewell, Inbox, Outbox, Place, Received, Socket, Target, Transport,
};

/// Sends each message as a request, and receives what the responses carry.
///
/// A request holds its connection until it is answered, so there are up to eight, each opened when it
/// is needed and used again. More requests than that wait for their turn; one that has waited for its
/// answer longer than the profile's [`call_timeout`](Profile::call_timeout) then loses its connection
/// to the next.
///
/// A status that means no, such as 401, is the end: an error with a
/// [`Refused`](crate::transport::Refused) in it.
pub struct HttpClient {
    server: Server,
    /// The head of all requests, up to the length.
    head: Vec<u8>,
    lines: Vec<Line>,
    /// How long a request may wait for its answer while others wait for a connection.
    patience: Option<Duration>,
    /// Runs while requests wait for a connection.
    waiting: Option<Pin<Box<Sleep>>>,
}

/// The most connections at once.
const LINES: usize = 8;

impl HttpClient {
    /// Reaches the server at that place; its messages go to that target, and show that token.
    pub async fn connect(
        place: &Place,
        target: &Target,
        token: Option<&str>,
        profile: &Profile,
    ) -> io::Result<Self> {
        let authorization = authorization(token)?;
        let target = target.as_str();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: {place}\r\nContent-Type: {JSON}\r\nAccept: {JSON}\r\n\
             {authorization}Content-Length: "
        );
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
        let server = Server {
            place: place.clone(),
            header_bytes: profile.limits.header_bytes,
            message_bytes: profile.limits.message_bytes,
        };
        let lines = vec![Line::up(Socket::tcp(stream))];
        let (head, patience) = (head.into_bytes(), profile.call_timeout);
        Ok(HttpClient { server, head, lines, patience, waiting: None })
    }

    /// Ready with a connection for one more request.
    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if let Some(free) = self.lines.iter().position(Line::is_free) {
            return Poll::Ready(free);
        }
        if self.lines.len() >= LINES {
            // Nobody may be left who waits for the oldest of these answers.
            let oldest = self.lines.iter().enumerate().min_by_key(|(_, line)| line.since());
            let until = |line: &Line| line.since().checked_add(self.patience?);
            let Some((at, until)) = oldest.and_then(|(at, line)| Some((at, until(line)?))) else {
                return Poll::Pending;
            };
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(until)));
            waiting.as_mut().reset(until);
            ready!(waiting.as_mut().poll(cx));
            tracing::warn!("a request was not answered, and its connection is given up");
            self.lines.remove(at);
        }
        self.lines.push(Line::dial(&self.server));
        Poll::Ready(self.lines.len() - 1)
    }

    fn request_of(&self, message: &[u8]) -> Vec<u8> {
        let mut request = Vec::with_capacity(self.head.len() + message.len() + 16);
        request.extend_from_slice(&self.head);
        // Writing to a vector does not fail.
        let _ = write!(request, "{}\r\n\r\n", message.len());
        request.extend_from_slice(message);
        request
    }
}

impl Transport for HttpClient {
    fn carries(&self) -> Carries {
        Carries::Messages
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        inbox: &mut Inbox,
    ) -> Poll<io::Result<Received>> {
        let mut has_come = false;
        for line in &mut self.lines {
            // One that was answered may have been closed behind it.
            while let Poll::Ready(reply) = line.poll_reply(cx, &self.server) {
                if let Some(message) = reply? {
                    inbox.push(&message)?;
                    has_come = true;
                }
            }
        }
        self.lines.retain(|line| !line.is_down());
        if has_come { Poll::Ready(Ok(Received::Some)) } else { Poll::Pending }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<()>> {
        while let Some(message) = outbox.message() {
            let Poll::Ready(at) = self.poll_line(cx) else { break };
            let request = self.request_of(message);
            if let Some(line) = self.lines.get_mut(at) {
                line.begin(request, &self.server);
            }
            outbox.pop();
        }
        let mut has_sent_all = outbox.is_empty();
        if has_sent_all {
            self.waiting = None;
        }
        for line in &mut self.lines {
            has_sent_all &= line.poll_write(cx, &self.server)?.is_ready();
        }
        if has_sent_all { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Farewell> {
        self.lines.retain_mut(|line| line.poll_close(cx).is_pending());
        if self.lines.is_empty() { Poll::Ready(Farewell::default()) } else { Poll::Pending }
    }
}

impl fmt::Debug for HttpClient {
    /// Shows the server, and not the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpClient");
        shown.field("server", &self.server).field("lines", &self.lines).finish_non_exhaustive()
    }
}
