//! HTTP service: a hub inside another web server, or on sockets that were accepted elsewhere.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use duet_rpc_proto::Profile;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::HttpBody;
use super::respond::{Responder, refuse};
use super::rules::{Protocols, Rules};
use crate::net::web::{AccessPolicy, HttpRefusal, IDLE};
use crate::net::{Hub, Socket};
use crate::remote::Remote;
use crate::router::Router;

/// Serves a router over HTTP, and with the feature `websocket` over WebSocket on the same path.
///
/// It is a `tower` service for a request with any body, so it can be a route of `axum`, `hyper` or another server,
/// over any version of HTTP. Each POST carries one message or batch. The status is 200 with the answer, or 202 if
/// there is none. Each request is a connection of its own: the [extensions](crate::Peer::extension), the
/// [identity](crate::Peer::identity) and the headers belong to it, and requests run at the same time. A client that
/// closes its connection cancels its handler, even if it closes only its own direction.
///
/// The surrounding server handles paths. It does not handle access: the default [access policy](HttpService::access)
/// accepts only requests to `localhost`, and refuses web pages. If the surrounding server knows the remote, it can
/// pass it on as a [`Remote`] in the extensions of the request.
///
/// ```
/// use duet_rpc::{Router, http};
/// use tower_service::Service;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let router = Router::new().method("add", |(a, b): (i64, i64)| a + b);
/// let mut service = http::service(router);
///
/// let call = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
/// let request = ::http::Request::post("/rpc").header("Host", "localhost");
/// let request = request.header("Content-Length", call.len()).body(call.to_owned()).expect("a request");
/// let response = service.call(request).await.expect("it never fails");
/// assert_eq!(response.status(), 200);
/// # }
/// ```
///
/// In an `axum` application: `Router::new().route_service("/rpc", duet_rpc::http::service(router))`.
#[derive(Clone)]
pub struct HttpService {
    pub(super) hub: Hub,
    pub(super) rules: Arc<Rules>,
    pub(super) idle_timeout: Option<Duration>,
}

/// Serves a router inside another web server, with [`Profile::agent`]; see [`HttpService`]. To set limits, or to stop
/// it gracefully, make a [`Hub`] and call [`http_service`](Hub::http_service).
pub fn service(router: Router) -> HttpService {
    Hub::builder().router(router).build().http_service()
}

/// The future of a response.
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

impl HttpService {
    pub(in crate::net) fn new(hub: Hub) -> Self {
        let rules = Rules::new(Arc::default(), None, Protocols::Both, hub.profile());
        HttpService { hub, rules: Arc::new(rules), idle_timeout: Some(IDLE) }
    }

    /// The service of a listener with these rules.
    pub(in crate::net) fn with_rules(hub: Hub, rules: Rules, idle: Option<Duration>) -> Self {
        HttpService { hub, rules: Arc::new(rules), idle_timeout: idle }
    }

    /// Sets the profile. Default: the profile of the hub.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        Arc::make_mut(&mut self.rules).set_limits(&profile);
        self.hub = self.hub.with_profile(profile);
        self
    }

    /// Sets the access policy. Default: only requests to this machine, and no web pages.
    #[must_use]
    pub fn access(mut self, access: AccessPolicy) -> Self {
        Arc::make_mut(&mut self.rules).access = Arc::new(access);
        self
    }

    /// Declares that clients reach the surrounding server over TLS. Then the server's own web pages have
    /// an `https://` origin.
    #[must_use]
    pub fn secure(mut self) -> Self {
        Arc::make_mut(&mut self.rules).is_secure = true;
        self
    }

    /// The time after which [`serve`](HttpService::serve) closes an idle connection. A connection is idle while no
    /// request follows its start or the last answer, or while the client reads nothing of an answer. Default: 30
    /// seconds. `None` turns it off. Without a read timeout in the profile, this is also the time for a request head
    /// to arrive.
    #[must_use]
    pub fn idle_timeout(mut self, idle_timeout: Option<Duration>) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Serves HTTP/1 on a connection that was accepted elsewhere, until it ends or the hub stops.
    pub async fn serve(self, socket: Socket, remote: Remote) {
        match self.hub.permit() {
            Some(_permit) => self.serve_socket(socket, remote).await,
            None => super::serve::refuse_socket(socket, self.no_permit()).await,
        }
    }

    /// The reason why a connection gets no permit.
    fn no_permit(&self) -> &'static HttpRefusal {
        if self.hub.is_stopping() { &HttpRefusal::STOPPING } else { &HttpRefusal::BUSY }
    }

    pub(super) fn responder(&self, remote: Remote) -> Responder {
        let (rules, hub) = (Arc::clone(&self.rules), Some(self.hub.clone()));
        Responder { rules, hub, remote, progress: None }
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture {
        let remote = request.extensions_mut().remove::<Remote>().unwrap_or_default();
        let Some(permit) = self.hub.permit() else {
            let refusal = self.no_permit();
            return Box::pin(async move { Ok(refuse(refusal, false)) });
        };
        let responder = self.responder(remote);
        let judged = responder.judge(request);
        Box::pin(async move {
            let mut response = responder.respond(judged).await;
            #[cfg(feature = "websocket")]
            if let (Some(handover), Some(hub)) = (response.extensions_mut().remove(), responder.hub)
            {
                tokio::spawn(async move {
                    let _permit = permit;
                    super::serve::serve_web_socket(&hub, handover).await;
                });
                return Ok(response);
            }
            response.body_mut().hold(permit);
            Ok(response)
        })
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("hub", &self.hub).finish_non_exhaustive()
    }
}
