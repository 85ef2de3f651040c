//! HTTP/1 connections: hyper serves requests on a socket, one after the other.

use std::convert::Infallible;
use std::future::poll_fn;
#[cfg(feature = "websocket")]
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(feature = "websocket")]
use duet_rpc_proto::Profile;
#[cfg(feature = "websocket")]
use duet_rpc_proto::ws::Role;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming as IncomingBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
#[cfg(feature = "websocket")]
use hyper::upgrade::Parts;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::body::HttpBody;
#[cfg(feature = "websocket")]
use super::respond::Handover;
use super::respond::Responder;
use super::rules::Rules;
use super::service::HttpService;
use super::wire::{HttpWire, Progress, Timeouts};
use crate::net::Socket;
use crate::net::web::HttpRefusal;
#[cfg(feature = "websocket")]
use crate::net::web::IDLE;
#[cfg(feature = "websocket")]
use crate::net::{Hub, WebSocket};
use crate::remote::Remote;
use crate::sync::lock;

/// Time for a client to read the reason for a refusal.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The service of one connection.
struct ConnectionService {
    responder: Responder,
    outcome: Mutex<ConnectionOutcome>,
}

/// The outcome of a connection.
#[derive(Default)]
struct ConnectionOutcome {
    #[cfg(feature = "websocket")]
    handover: Option<Handover>,
    /// The status of the last response.
    status: Option<StatusCode>,
}

impl ConnectionService {
    /// The response to a request. hyper keeps the future in memory that it allocates once for each connection, so a
    /// request does not pay for it.
    fn call(
        &self,
        request: Request<IncomingBody>,
    ) -> impl Future<Output = Result<Response<HttpBody>, Infallible>> {
        let judged = self.responder.judge(request);
        async move {
            #[cfg_attr(
                not(feature = "websocket"),
                expect(unused_mut, reason = "of WebSocket alone")
            )]
            let mut response = self.responder.respond(judged).await;
            let mut outcome = lock(&self.outcome);
            outcome.status = Some(response.status());
            #[cfg(feature = "websocket")]
            {
                outcome.handover = response.extensions_mut().remove();
            }
            Ok(response)
        }
    }
}

impl HttpService {
    /// Serves a connection that has its permit.
    pub(in crate::net) async fn serve_socket(&self, socket: Socket, remote: Remote) {
        let timeouts = Timeouts {
            read: self.hub.read_timeout(),
            idle: self.idle_timeout,
            budget: Some(Arc::clone(self.hub.budget())),
        };
        // Boxed, so that the memory is freed if the connection becomes a WebSocket.
        let outcome = Box::pin(serve(socket, self.responder(remote), timeouts)).await;
        #[cfg(feature = "websocket")]
        if let Some(handover) = outcome.handover {
            serve_web_socket(&self.hub, handover).await;
        }
        #[cfg(not(feature = "websocket"))]
        let _ = outcome;
    }
}

/// Serves a connection until it ends, or becomes a WebSocket.
async fn serve(socket: Socket, mut responder: Responder, timeouts: Timeouts) -> ConnectionOutcome {
    let progress = Arc::new(Progress::default());
    responder.progress = Some(Arc::clone(&progress));
    let (hub, header_bytes) = (responder.hub.clone(), responder.rules.header_bytes());
    let service = ConnectionService { responder, outcome: Mutex::default() };
    let calls = service_fn(|request| service.call(request));
    let wire = TokioIo::new(HttpWire::new(socket, Arc::clone(&progress), timeouts));
    let mut builder = http1::Builder::new();
    builder.max_header_size(header_bytes);
    let mut connection = builder.serve_connection(wire, calls).with_upgrades();
    let served = match &hub {
        None => (&mut connection).await,
        Some(hub) => {
            let running = poll_fn(|cx| Pin::new(&mut connection).poll(cx));
            match hub.until_stop(running).await {
                Some(served) => served,
                None => {
                    Pin::new(&mut connection).graceful_shutdown();
                    let patience = hub.profile().drain_timeout;
                    match timeout(patience, &mut connection).await {
                        Ok(served) => served,
                        Err(_) => return ConnectionOutcome::default(),
                    }
                }
            }
        }
    };
    if let Err(error) = &served {
        tracing::debug!(%error, "connection ended");
    }
    if let Some(parts) = connection.into_parts() {
        let wire = parts.io.into_inner();
        let refusal = match &served {
            Err(error) if error.is_parse() && wire.is_between() => Some(Rules::refusal_of(error)),
            _ if progress.is_late() && wire.is_in_head() => Some(HttpRefusal::LATE),
            _ => None,
        };
        let socket = wire.into_socket();
        match refusal {
            Some(refusal) => {
                lock(&service.outcome).status = Some(refusal.status);
                refuse_socket(socket, &refusal).await;
            }
            None if hub.is_some_and(|hub| hub.is_stopping()) => close(socket).await,
            None => leave(socket).await,
        }
    }
    std::mem::take(&mut *lock(&service.outcome))
}

/// Sends a client the reason why it is not served, and closes the connection.
pub(super) async fn refuse_socket(mut socket: Socket, refusal: &HttpRefusal) {
    refusal.log();
    let told = timeout(LAST_WORD, socket.write_all(&refusal.to_bytes())).await;
    // A client that did not read the reason gets no graceful close.
    if matches!(told, Ok(Ok(()))) {
        leave(socket).await;
    }
}

/// Closes a connection of a server that stops.
async fn close(mut socket: Socket) {
    poll_fn(|cx| socket.poll_shutdown(cx)).await;
}

/// Closes a connection whose client may still be sending.
async fn leave(mut socket: Socket) {
    poll_fn(|cx| socket.poll_linger(cx)).await;
}

/// Serves a connection that has become a WebSocket.
#[cfg(feature = "websocket")]
pub(super) async fn serve_web_socket(hub: &Hub, handover: Handover) {
    match open_web_socket(handover, hub.profile()).await {
        Ok((transport, remote)) => {
            let transport = transport.going_away(hub.going_away());
            hub.connect(Box::new(transport), remote).await;
        }
        Err(error) => tracing::debug!(%error, "cannot open a connection"),
    }
}

/// Makes the WebSocket handshake on a socket. A refused remote gets the reason, and the connection is closed.
#[cfg(feature = "websocket")]
pub(in crate::net) async fn handshake(
    socket: Socket,
    rules: Rules,
    remote: Remote,
    profile: &Profile,
) -> io::Result<(WebSocket, Remote)> {
    let patience = profile.read_timeout.unwrap_or(IDLE);
    let responder = Responder { rules: Arc::new(rules), hub: None, remote, progress: None };
    let timeouts = Timeouts { read: Some(patience), idle: Some(patience), budget: None };
    let outcome = serve(socket, responder, timeouts).await;
    match (outcome.handover, outcome.status) {
        (Some(handover), _) => open_web_socket(handover, profile).await,
        (None, Some(status)) => Err(io::Error::other(format!("a client was refused: {status}"))),
        (None, None) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(feature = "websocket")]
async fn open_web_socket(handover: Handover, profile: &Profile) -> io::Result<(WebSocket, Remote)> {
    let Handover { upgrade, remote } = handover;
    let (socket, behind) = match upgrade.await.map_err(io::Error::other)?.downcast() {
        // Without hyper's buffers an idle WebSocket costs no more than any other connection.
        Ok(Parts { io, read_buf, .. }) => {
            let io: TokioIo<HttpWire> = io;
            (io.into_inner().into_socket(), read_buf.to_vec())
        }
        Err(upgraded) => (Socket::from_stream(TokioIo::new(upgraded)), Vec::new()),
    };
    Ok((WebSocket::new(socket, Role::Server, profile, behind), remote))
}
