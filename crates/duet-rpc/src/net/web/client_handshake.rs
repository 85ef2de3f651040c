//! WebSocket handshake of a client: one request over HTTP, whose response turns the connection into a WebSocket.
//!
//! hyper makes the exchange and gives the socket back, so an open WebSocket holds no part of hyper.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderValue, Method, Request, StatusCode, Version};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::accept_key::answer_to;
use super::headers::{lists, only};
use super::request::RequestHead;
use super::shared_socket::SharedSocket;
use super::status::Refused;
use crate::net::Socket;

/// A request for a WebSocket.
pub(in crate::net) struct Ask<'a> {
    pub(in crate::net) head: RequestHead,
    /// The subprotocol that the client offers.
    pub(in crate::net) subprotocol: Option<&'a str>,
    /// Bytes that nobody can predict.
    pub(in crate::net) nonce: [u8; 16],
}

/// The head of a response, reduced to the relevant parts.
type ResponseHead = http::response::Parts;

/// Asks a server for a WebSocket, within this time. Returns the socket, and the bytes that were read after the
/// response, which are frames.
pub(in crate::net) async fn ask_for_upgrade(
    socket: Socket,
    ask: &Ask<'_>,
    header_bytes: usize,
    patience: Option<Duration>,
) -> io::Result<(Socket, Vec<u8>)> {
    let request = ask.request()?;
    let work = async {
        let (response, socket, behind) = exchange(socket, request, header_bytes).await?;
        ask.check(&response)?;
        Ok((socket, behind.to_vec()))
    };
    let Some(patience) = patience else { return work.await };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
    timeout(patience, work).await.map_err(late)?
}

impl Ask<'_> {
    fn key(&self) -> String {
        STANDARD.encode(self.nonce)
    }

    fn request(&self) -> io::Result<Request<Empty<Bytes>>> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let mut request = self.head.request(Method::GET, Empty::new());
        let headers = request.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        let key = HeaderValue::try_from(self.key());
        headers.insert(SEC_WEBSOCKET_KEY, key.map_err(|_| invalid("the key is not text"))?);
        if let Some(name) = self.subprotocol {
            let value = HeaderValue::try_from(name).ok().filter(|_| is_token(name));
            let value = value.ok_or_else(|| invalid("the name of a subprotocol is one word"))?;
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
        Ok(request)
    }

    /// Checks that the server accepted the request.
    fn check(&self, response: &ResponseHead) -> io::Result<()> {
        if response.status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(Refused::new(response.status.as_u16()).into());
        }
        let bad = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        let headers = &response.headers;
        let is_web_socket = response.version == Version::HTTP_11
            && lists(headers, &UPGRADE, "websocket")
            && lists(headers, &CONNECTION, "upgrade")
            && only(headers, &SEC_WEBSOCKET_ACCEPT) == Some(&*answer_to(&self.key()))
            // No extension was offered, so none can have been chosen.
            && !headers.contains_key(SEC_WEBSOCKET_EXTENSIONS);
        if !is_web_socket {
            return bad("the server does not speak WebSocket");
        }
        let chosen = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
        if chosen && only(headers, &SEC_WEBSOCKET_PROTOCOL) != self.subprotocol {
            return bad("the server chose a subprotocol that was not offered");
        }
        Ok(())
    }
}

/// Sends the request. Returns the head of the response, the socket, and the bytes that were read after the head. The
/// body of a refusal is not read.
async fn exchange(
    socket: Socket,
    request: Request<Empty<Bytes>>,
    header_bytes: usize,
) -> io::Result<(ResponseHead, Socket, Bytes)> {
    let socket = SharedSocket::new(socket);
    socket.begin_request();
    let handshake = http1::Builder::new()
        .max_header_size(header_bytes)
        .title_case_headers(true)
        .handshake(TokioIo::new(socket));
    let (mut sender, mut connection) = handshake.await.map_err(cause_of)?;
    let mut response = pin!(sender.send_request(request));
    let mut is_over = false;
    let response = poll_fn(|cx| {
        // An error of the connection reaches the response.
        is_over = is_over || connection.poll_without_shutdown(cx).is_ready();
        response.as_mut().poll(cx)
    });
    let (head, _) = response.await.map_err(cause_of)?.into_parts();
    if head.status == StatusCode::SWITCHING_PROTOCOLS && !is_over {
        let ending = poll_fn(|cx| connection.poll_without_shutdown(cx));
        ending.await.map_err(cause_of)?;
    }
    let parts = connection.into_parts();
    let socket = parts.io.into_inner().into_socket();
    let socket = socket.ok_or_else(|| io::Error::other("the socket is still in use"))?;
    Ok((head, socket, parts.read_buf))
}

fn cause_of(error: hyper::Error) -> io::Error {
    if error.is_parse() {
        return io::Error::new(io::ErrorKind::InvalidData, "the server does not speak HTTP");
    }
    match error.source().and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(cause) => io::Error::new(cause.kind(), Interrupted(error)),
        None => io::ErrorKind::UnexpectedEof.into(),
    }
}

/// An I/O error that interrupted a handshake, shown as that error.
#[derive(Debug)]
struct Interrupted(hyper::Error);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.source() {
            Some(cause) => fmt::Display::fmt(cause, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl Error for Interrupted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Returns `true` if the text is a token of HTTP.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

#[cfg(test)]
#[path = "client_handshake_tests.rs"]
mod tests;
