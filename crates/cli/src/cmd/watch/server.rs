//! Web server of the page: its files, and JSON-RPC over WebSocket at `/rpc`.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use duet_rpc::http::{HttpBody, HttpService};
use duet_rpc::transport::AccessPolicy;
use duet_rpc::{Hub, Profile};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower_service::Service;

use super::access::{PageAccess, Refused};
use super::assets;
use super::service::Page;
use super::sessions::Watch;

/// Maximum number of connections at the same time. A browser opens about six for a page.
const MOST_CONNECTIONS: usize = 256;

/// Time for the head of a request to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The page loads nothing from other servers, runs no inline scripts, and cannot be framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const NOT_FOUND: Refused = (StatusCode::NOT_FOUND, "There is no such file.");
const WRONG_METHOD: Refused = (StatusCode::METHOD_NOT_ALLOWED, "Use GET.");

type Body = Either<Full<Bytes>, HttpBody>;

/// A server that is bound to a port of this machine.
pub(super) struct PageServer {
    listener: std::net::TcpListener,
    access: PageAccess,
}

impl PageServer {
    /// Listens on a port; 0 picks a free one.
    pub(super) fn bind(port: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let access = PageAccess::new(listener.local_addr()?.port())?;
        Ok(PageServer { listener, access })
    }

    /// The address for a person to open, with the token.
    pub(super) fn url(&self) -> String {
        self.access.url()
    }

    /// Serves until the runtime ends.
    pub(super) async fn serve(self, watch: Arc<Watch>) -> io::Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        let hub = Hub::builder()
            .profile(Profile::agent())
            .router(Page(watch).into_router())
            .max_connections(MOST_CONNECTIONS)
            .build();
        let policy = AccessPolicy::default().token(self.access.token());
        let site = Arc::new(Site { rpc: hub.http_service().access(policy), access: self.access });
        let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { continue };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // No descriptor is free, or the client has gone: neither ends the server.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let site = Arc::clone(&site);
            tokio::spawn(async move {
                site.serve(stream).await;
                drop(permit);
            });
        }
    }
}

struct Site {
    rpc: HttpService,
    access: PageAccess,
}

impl Site {
    async fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let respond = service_fn(async |request| Ok::<_, Infallible>(self.respond(request).await));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        // A client that goes away needs no error.
        let _ = builder.serve_connection(TokioIo::new(stream), respond).with_upgrades().await;
    }

    async fn respond(&self, mut request: Request<Incoming>) -> Response<Body> {
        let granted = match self.access.check(request.uri(), request.headers()) {
            Ok(granted) => granted,
            Err(refused) => return refuse(refused),
        };
        if request.uri().path() == "/rpc" {
            if let Some(authorization) = self.access.authorization() {
                request.headers_mut().insert(AUTHORIZATION, authorization);
            }
            let response = match self.rpc.clone().call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            return response.map(Either::Right);
        }
        let is_head = request.method() == Method::HEAD;
        if !is_head && request.method() != Method::GET {
            return refuse(WRONG_METHOD);
        }
        let Some(asset) = assets::find(request.uri().path()) else { return refuse(NOT_FOUND) };
        let content = if is_head { "" } else { asset.content };
        let mut response = page(StatusCode::OK, asset.media_type, content);
        if granted.sets_cookie
            && let Some(cookie) = self.access.cookie()
        {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

fn refuse((status, reason): Refused) -> Response<Body> {
    page(status, "text/plain; charset=utf-8", reason)
}

fn page(status: StatusCode, media_type: &'static str, content: &'static str) -> Response<Body> {
    let body = Full::new(Bytes::from_static(content.as_bytes()));
    let mut response = Response::new(Either::Left(body));
    *response.status_mut() = status;
    let headers: [(HeaderName, &'static str); 7] = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // The next run of the server may have another version of the page on the same port.
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
