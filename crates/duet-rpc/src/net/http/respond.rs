//! Responses: one request in, one response out.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Buf;
use duet_rpc_proto::fault::{Fault, FaultKind};
use duet_rpc_proto::message;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONNECTION, CONTENT_TYPE,
    HeaderName, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use tokio::time::timeout;

use super::body::HttpBody;
use super::events::{AnswerLast, EVENT_STREAM, EventBody, ResponsePart};
#[cfg(feature = "websocket")]
use super::handshake::NO_UPGRADE;
use super::rules::{Asked, BodyHeaders, Rules};
use super::session::{self, SESSION};
use super::wire::Progress;
use crate::error::CloseReason;
use crate::net::Hub;
use crate::net::web::{Admitted, HttpRefusal};
use crate::remote::{Identity, Remote};

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

/// A response, and the next use of its connection.
pub(super) struct Responded {
    pub(super) response: Response<HttpBody>,
    /// The connection becomes a WebSocket.
    #[cfg(feature = "websocket")]
    pub(super) handover: Option<Handover>,
}

/// A connection that becomes a WebSocket.
#[cfg(feature = "websocket")]
pub(super) struct Handover {
    pub(super) upgrade: hyper::upgrade::OnUpgrade,
    pub(super) remote: Remote,
}

/// A request whose head is judged.
pub(super) struct Judged<B> {
    next: NextStep<B>,
    /// The value of `Access-Control-Allow-Origin` in the response.
    origin: Option<HeaderValue>,
}

enum NextStep<B> {
    /// Reads the message, and answers it.
    Answer(Post<B>),
    /// Skips the body, and refuses the request.
    Skip {
        body: B,
        refusal: HttpRefusal,
        is_http1: bool,
    },
    Respond(Responded),
}

/// A request whose body is a message.
struct Post<B> {
    body: B,
    remote: Remote,
    takes_events: bool,
    /// `true` if its message may begin a session.
    needs_session: bool,
    is_http1: bool,
}

/// The body of a refused request.
enum BodyToSkip {
    None,
    Short,
    /// Too long to skip, or its end is not known: the connection cannot be used again.
    Long,
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
    /// Judges the head of a request. What it returns is small, because it is kept while the handler runs.
    pub(super) fn judge<B: Body>(&self, request: Request<B>) -> Judged<B> {
        if let Some(progress) = &self.progress {
            progress.begin();
        }
        let (parts, body) = request.into_parts();
        let is_http1 = parts.version <= Version::HTTP_11;
        let headers = match self.rules.check_head(&parts) {
            Ok(headers) => headers,
            Err(refusal) => {
                let origin = self.rules.access.cors_origin(&parts);
                return Judged {
                    next: NextStep::Respond(refuse(&refusal, is_http1).into()),
                    origin,
                };
            }
        };
        match self.rules.judge(&parts, &headers) {
            Ok((Admitted { identity, origin, .. }, Asked::Answer)) => {
                let needs_session =
                    headers.takes_events && !parts.headers.contains_key(session::SESSION);
                let remote = with_identity(self.remote.clone(), identity);
                let remote = remote.with_headers(parts.headers);
                let takes_events = headers.takes_events;
                let post = Post { body, remote, takes_events, needs_session, is_http1 };
                Judged { next: NextStep::Answer(post), origin }
            }
            Ok((Admitted { origin, .. }, Asked::Preflight)) => {
                let mut response = with_status(StatusCode::NO_CONTENT);
                add_headers(response.headers_mut(), PREFLIGHT);
                Judged { next: NextStep::Respond(response.into()), origin }
            }
            #[cfg(feature = "websocket")]
            Ok((mut admitted, Asked::WebSocket(accept))) => {
                let origin = admitted.origin.take();
                Judged { next: NextStep::Respond(self.hand_over(parts, admitted, accept)), origin }
            }
            Err(refusal) => {
                // An allowed page may read a refusal, too.
                let origin = self.rules.access.cors_origin(&parts);
                let next = match self.body_to_skip(&headers, &refusal) {
                    BodyToSkip::None => NextStep::Respond(refuse(&refusal, false).into()),
                    BodyToSkip::Short => NextStep::Skip { body, refusal, is_http1 },
                    BodyToSkip::Long => NextStep::Respond(refuse(&refusal, is_http1).into()),
                };
                Judged { next, origin }
            }
        }
    }

    pub(super) async fn respond<B: Body>(&self, judged: Judged<B>) -> Responded {
        let Judged { next, origin } = judged;
        let mut responded: Responded = match next {
            NextStep::Answer(post) => self.answer(post).await.into(),
            NextStep::Skip { body, refusal, is_http1 } => {
                let is_skipped = self.read(body, SHORT as usize).await.is_ok();
                refuse(&refusal, is_http1 && !is_skipped).into()
            }
            NextStep::Respond(responded) => responded,
        };
        let response = &mut responded.response;
        if let Some(origin) = origin {
            response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            response.headers_mut().insert(VARY, HeaderValue::from_static("Origin"));
        }
        if let Some(progress) = &self.progress {
            progress.serve();
            response.body_mut().tell(Arc::clone(progress));
        }
        responded
    }

    async fn answer<B: Body>(&self, post: Post<B>) -> Response<HttpBody> {
        let Post { body, remote, takes_events, needs_session, is_http1 } = post;
        let message = match self.read(body, self.rules.message_bytes()).await {
            Ok(message) => message,
            Err(refusal) => return refuse(&refusal, is_http1),
        };
        if let Some(progress) = &self.progress {
            progress.serve();
        }
        let Some(hub) = &self.hub else { return refuse(&HttpRefusal::NO_SUCH_PATH, is_http1) };
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
    fn hand_over(&self, mut parts: Parts, admitted: Admitted, accept: HeaderValue) -> Responded {
        use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

        let Some(upgrade) = parts.extensions.remove() else {
            return refuse(&NO_UPGRADE, true).into();
        };
        let mut response = with_status(StatusCode::SWITCHING_PROTOCOLS);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        if let Some(subprotocol) = admitted.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, subprotocol);
        }
        let remote = with_identity(self.remote.clone(), admitted.identity);
        let remote = remote.with_packed_headers(&parts.headers);
        Responded { response, handover: Some(Handover { upgrade, remote }) }
    }

    /// Reads a body of at most `most` bytes.
    async fn read<B: Body>(&self, body: B, most: usize) -> Result<Vec<u8>, HttpRefusal> {
        let mut body = pin!(body);
        let mut message = Vec::new();
        let reading = poll_fn(|cx| {
            loop {
                let mut data = match ready!(body.as_mut().poll_frame(cx)) {
                    None => return Poll::Ready(Ok(())),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => data,
                        // Trailers are ignored.
                        Err(_) => continue,
                    },
                    Some(Err(_)) if self.is_late() => return Poll::Ready(Err(HttpRefusal::LATE)),
                    Some(Err(_)) => return Poll::Ready(Err(HttpRefusal::CHUNKS)),
                };
                if data.remaining() > most.saturating_sub(message.len()) {
                    return Poll::Ready(Err(HttpRefusal::OVERSIZE));
                }
                while data.has_remaining() {
                    let chunk = data.chunk();
                    message.extend_from_slice(chunk);
                    let length = chunk.len();
                    data.advance(length);
                }
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

    /// Decides about the body of a refused request.
    fn body_to_skip(&self, headers: &BodyHeaders, refusal: &HttpRefusal) -> BodyToSkip {
        let is_last = self.rules.serves_web_sockets_alone()
            || refusal.status == StatusCode::PAYLOAD_TOO_LARGE
            || headers.is_chunked;
        match headers.length.unwrap_or(0) {
            _ if is_last => BodyToSkip::Long,
            0 => BodyToSkip::None,
            // A client that waits for `100 Continue` may not send the body at all.
            length if length <= SHORT && headers.expects_continue.is_none() => BodyToSkip::Short,
            _ => BodyToSkip::Long,
        }
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

impl From<Response<HttpBody>> for Responded {
    fn from(response: Response<HttpBody>) -> Self {
        Responded {
            response,
            #[cfg(feature = "websocket")]
            handover: None,
        }
    }
}

fn with_identity(remote: Remote, identity: Option<Arc<Identity>>) -> Remote {
    identity.into_iter().fold(remote, Remote::with_identity)
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
