//! Responses: one request in, one response out.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut};
use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, CONTENT_TYPE,
    HeaderName, VARY,
};
#[cfg(feature = "websocket")]
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use tokio::time::timeout;

use super::body::HttpBody;
use super::events::{AnswerLast, EVENT_STREAM, EventBody, ResponsePart, expects_answer};
#[cfg(feature = "websocket")]
use super::handshake::NO_UPGRADE;
use super::rules::{Asked, BodyHeaders, Rules};
use super::session::{self, SESSION};
use super::wire::Progress;
use crate::error::CloseReason;
use crate::net::Hub;
#[cfg(feature = "websocket")]
use crate::net::web::Admitted;
use crate::net::web::HttpRefusal;
use crate::remote::{Identity, Remote, TokenMark};

/// Makes the responses to the requests of one client.
#[derive(Clone)]
pub(super) struct Responder {
    pub(super) rules: Arc<Rules>,
    /// The hub whose methods are served; `None` if only WebSockets are.
    pub(super) hub: Option<Hub>,
    pub(super) remote: Remote,
    /// Shared with the wire, which enforces the timeouts; `None` if this type enforces them.
    pub(super) progress: Option<Arc<Progress>>,
}

/// A connection that becomes a WebSocket: an extension of the response.
#[cfg(feature = "websocket")]
#[derive(Clone)]
pub(super) struct Handover {
    pub(super) upgrade: hyper::upgrade::OnUpgrade,
    pub(super) remote: Remote,
}

/// A request whose head is judged.
pub(super) struct Judged<B> {
    next: NextStep<B>,
    /// The value of `Access-Control-Allow-Origin` in the response.
    origin: Option<HeaderValue>,
    is_http1: bool,
}

enum NextStep<B> {
    /// Reads the message, and answers it.
    Answer(Post<B>),
    /// Skips the body if there is one, and refuses the request.
    Refuse {
        refusal: HttpRefusal,
        body: Option<B>,
        closes: bool,
    },
    Respond(Response<HttpBody>),
}

/// A request whose body is a message.
struct Post<B> {
    body: B,
    remote: Remote,
    takes_events: bool,
    /// `true` if its message may begin a session.
    needs_session: bool,
}

/// Maximum length of a refused request's body that is skipped. Skipping a longer body would cost more than a new
/// connection.
const SHORT: u64 = 8 * 1024;

/// The content type of messages.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Headers of the response to a preflight request.
const PREFLIGHT: &[(&str, &str)] = &[
    ("access-control-allow-methods", "POST"),
    (
        "access-control-allow-headers",
        "Authorization, Content-Type, Mcp-Protocol-Version, Mcp-Session-Id",
    ),
    ("access-control-allow-private-network", "true"),
    ("access-control-max-age", "600"),
];

/// The headers of a stream of events. A proxy must not hold events back.
const EVENTS: &[(&str, &str)] =
    &[("content-type", EVENT_STREAM), ("cache-control", "no-cache"), ("x-accel-buffering", "no")];

impl Responder {
    /// Judges the head of a request. The judgement is small, because it is kept while the handler runs.
    pub(super) fn judge<B: Body>(&self, request: Request<B>) -> Judged<B> {
        if let Some(progress) = &self.progress {
            progress.begin();
        }
        let (parts, body) = request.into_parts();
        let is_http1 = parts.version <= Version::HTTP_11;
        let judged = self.rules.check_head(&parts);
        let judged = judged.map(|headers| (self.rules.judge(&parts, &headers), headers));
        // An allowed page may read a refusal, too.
        let refuse = |refusal, body, closes| {
            let origin = self.rules.access.cors_origin(&parts);
            (NextStep::Refuse { refusal, body, closes }, origin)
        };
        let (next, origin) = match judged {
            Err(refusal) => refuse(refusal, None, true),
            Ok((Err(refusal), headers)) => {
                let closes = self.must_close(&headers, &refusal);
                let body = Some(body).filter(|_| !closes && headers.length.is_some());
                refuse(refusal, body, closes)
            }
            Ok((Ok((mut admitted, asked)), headers)) => {
                let origin = admitted.origin.take();
                let next = match asked {
                    Asked::Answer => {
                        let takes_events = headers.takes_events;
                        let needs_session = takes_events && !parts.headers.contains_key(SESSION);
                        let remote = self.remote_of(admitted.identity, admitted.mark);
                        let remote = remote.with_headers(parts.headers);
                        NextStep::Answer(Post { body, remote, takes_events, needs_session })
                    }
                    Asked::Preflight => {
                        let mut response = with_status(StatusCode::NO_CONTENT);
                        add_headers(response.headers_mut(), PREFLIGHT);
                        NextStep::Respond(response)
                    }
                    #[cfg(feature = "websocket")]
                    Asked::WebSocket(accept) => {
                        NextStep::Respond(self.hand_over(parts, admitted, accept))
                    }
                };
                (next, origin)
            }
        };
        Judged { next, origin, is_http1 }
    }

    pub(super) async fn respond<B: Body>(&self, judged: Judged<B>) -> Response<HttpBody> {
        let Judged { next, origin, is_http1 } = judged;
        let mut response = match next {
            NextStep::Answer(post) => self.answer(post, is_http1).await,
            NextStep::Refuse { refusal, body, mut closes } => {
                if let Some(body) = body {
                    closes = self.read(body, SHORT as usize).await.is_err();
                }
                refuse(&refusal, closes && is_http1)
            }
            NextStep::Respond(response) => response,
        };
        if let Some(origin) = origin {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(progress) = &self.progress {
            progress.serve();
            response.body_mut().tell(Arc::clone(progress));
        }
        response
    }

    async fn answer<B: Body>(&self, post: Post<B>, is_http1: bool) -> Response<HttpBody> {
        let Post { body, remote, takes_events, needs_session } = post;
        let message = match self.read(body, self.rules.message_bytes()).await {
            Ok(message) => message,
            Err(refusal) => return refuse(&refusal, is_http1),
        };
        if let Some(progress) = &self.progress {
            progress.serve();
        }
        let Some(hub) = &self.hub else { return refuse(&HttpRefusal::NO_SUCH_PATH, is_http1) };
        // Without an answer there is no event stream, because the answer is its end.
        let takes_events = takes_events && expects_answer(&message);
        // Only MCP clients accept events, and other clients must not pay for sessions.
        let session = if needs_session { session::begin(&message) } else { None };
        let exchange = hub.exchange(message, remote, takes_events);
        let mut exchange = AnswerLast::new(exchange, takes_events);
        let answer = match poll_fn(|cx| exchange.poll_next(cx)).await {
            Some(ResponsePart::Event(first)) => {
                let events = EventBody::new(exchange, first, Arc::clone(hub.budget()));
                let mut response = Response::new(HttpBody::events(events));
                add_headers(response.headers_mut(), EVENTS);
                name_session(&mut response, session);
                return response;
            }
            Some(ResponsePart::Answer(answer)) => Some(answer),
            None => None,
        };
        let exchange = exchange.exchange();
        let mut response = match answer {
            Some(answer) => {
                let mut response = Response::new(HttpBody::message(answer, hub.budget()));
                response.headers_mut().insert(CONTENT_TYPE, JSON);
                name_session(&mut response, session);
                response
            }
            None if exchange.is_settled() => with_status(StatusCode::ACCEPTED),
            None => refuse(&HttpRefusal::STOPPING, is_http1),
        };
        if is_http1 && exchange.end().is_some_and(|end| end.reason() == CloseReason::Closed) {
            close(&mut response);
        }
        response
    }

    #[cfg(feature = "websocket")]
    fn hand_over(
        &self,
        mut parts: Parts,
        admitted: Admitted,
        accept: HeaderValue,
    ) -> Response<HttpBody> {
        use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

        let Some(upgrade) = parts.extensions.remove() else {
            return refuse(&NO_UPGRADE, true);
        };
        let mut response = with_status(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(subprotocol) = admitted.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, subprotocol);
        }
        let remote = self.remote_of(admitted.identity, admitted.mark);
        let remote = remote.with_packed_headers(&parts.headers);
        response.extensions_mut().insert(Handover { upgrade, remote });
        response
    }

    /// The remote of a request with this token.
    fn remote_of(&self, identity: Option<Arc<Identity>>, mark: Option<TokenMark>) -> Remote {
        let remote = self.remote.clone().with_mark(mark);
        identity.into_iter().fold(remote, Remote::with_identity)
    }

    /// Reads a body of at most `most` bytes.
    async fn read<B: Body>(&self, body: B, most: usize) -> Result<Vec<u8>, HttpRefusal> {
        let mut body = pin!(body);
        let mut message = Vec::new();
        let reading = poll_fn(|cx| {
            loop {
                let data = match ready!(body.as_mut().poll_frame(cx)) {
                    None => return Poll::Ready(Ok(())),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => data,
                        // Trailers are ignored.
                        Err(_) => continue,
                    },
                    Some(Err(_)) if self.is_late() => return Poll::Ready(Err(HttpRefusal::LATE)),
                    Some(Err(_)) => return Poll::Ready(Err(HttpRefusal::BROKEN_BODY)),
                };
                if data.remaining() > most.saturating_sub(message.len()) {
                    return Poll::Ready(Err(HttpRefusal::OVERSIZE));
                }
                message.put(data);
            }
        });
        match &self.hub {
            // In all other cases the wire enforces the timeout, and closes open connections when the hub stops.
            Some(hub) if self.progress.is_none() => {
                let read = hub.until_stop(within(hub.read_timeout(), reading)).await;
                read.unwrap_or(Err(HttpRefusal::STOPPING))?;
            }
            _ => reading.await?,
        }
        Ok(message)
    }

    fn is_late(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.is_late())
    }

    /// Returns `true` if the connection of a refused request cannot be used again, because its body is too long to
    /// skip, or may never come.
    fn must_close(&self, headers: &BodyHeaders, refusal: &HttpRefusal) -> bool {
        let length = headers.length.unwrap_or(0);
        self.rules.serves_web_sockets_alone()
            || refusal.status == StatusCode::PAYLOAD_TOO_LARGE
            || headers.is_chunked
            || length > SHORT
            // A client that waits for `100 Continue` may not send the body at all.
            || (length > 0 && headers.expects_continue.is_some())
    }
}

/// Reads within this time, or fails.
async fn within(
    patience: Option<Duration>,
    reading: impl Future<Output = Result<(), HttpRefusal>>,
) -> Result<(), HttpRefusal> {
    match patience {
        Some(patience) => timeout(patience, reading).await.unwrap_or(Err(HttpRefusal::LATE)),
        None => reading.await,
    }
}

fn with_status(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    response
}

/// The response to a refused request. Logs the refusal.
pub(super) fn refuse(refusal: &HttpRefusal, closes: bool) -> Response<HttpBody> {
    refusal.log();
    let mut response = with_status(refusal.status);
    let (content_type, body) = match refusal.status {
        // An oversized message gets the same JSON-RPC error on every transport.
        StatusCode::PAYLOAD_TOO_LARGE => {
            let mut body = Vec::new();
            let fault = Fault { kind: FaultKind::Oversize, body: None };
            message::Reply::to_fault(&fault).write(&mut body);
            (JSON, HttpBody::whole(body))
        }
        _ => {
            let text = HeaderValue::from_static("text/plain; charset=utf-8");
            (text, HttpBody::whole(format!("{}\n", refusal.why)))
        }
    };
    *response.body_mut() = body;
    add_headers(response.headers_mut(), refusal.headers);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    if closes {
        close(&mut response);
    }
    response
}

/// Tells the client the name of its session, even if the client is a web page of another origin.
fn name_session(response: &mut Response<HttpBody>, session: Option<HeaderValue>) {
    if let Some(session) = session {
        let headers = response.headers_mut();
        headers.insert(SESSION, session);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SESSION));
    }
}

fn close(response: &mut Response<HttpBody>) {
    response.headers_mut().append(CONNECTION, HeaderValue::from_static("close"));
}

fn add_headers(headers: &mut HeaderMap, added: &[(&'static str, &'static str)]) {
    for &(name, value) in added {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
