//! WebSocket handshake over HTTP, from both ends.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode};

use super::head::{HttpRequest, Response};
use super::status::{HttpRefusal, Refused};

/// Makes a key's answer; every WebSocket has this one.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const UPGRADE: HttpRefusal = HttpRefusal::new(
    StatusCode::UPGRADE_REQUIRED,
    "WebSockets are served here. Connect with a client of WebSockets.",
)
.with_headers(&[("upgrade", "websocket")]);
const VERSION: HttpRefusal = HttpRefusal::new(
    StatusCode::UPGRADE_REQUIRED,
    "This version of WebSockets is not served. Use 13.",
)
.with_headers(&[("upgrade", "websocket"), ("sec-websocket-version", "13")]);
const METHOD: HttpRefusal = HttpRefusal::new(
    StatusCode::METHOD_NOT_ALLOWED,
    "WebSockets are served here. Begin them with GET.",
)
.with_headers(&[("allow", "GET")]);
const KEY: HttpRefusal = HttpRefusal::malformed(
    "The head is malformed: Sec-WebSocket-Key has to be 16 bytes in base64.",
);
const BODY: HttpRefusal = HttpRefusal::malformed("A request that begins a WebSocket has no body.");

/// Takes a request that begins a WebSocket: what is sent then, and all behind it is frames. No
/// extension is chosen, whatever the client offers.
pub(super) fn accept(
    request: &HttpRequest<'_>,
    subprotocol: Option<&HeaderValue>,
) -> Result<Vec<u8>, HttpRefusal> {
    if request.method != "GET" {
        return Err(METHOD);
    }
    if !request.is_1_1 || !request.headers.names_websocket || !request.headers.upgrades {
        return Err(UPGRADE);
    }
    if request.headers.version != Some("13") {
        return Err(VERSION);
    }
    if !request.has_no_body() {
        return Err(BODY);
    }
    let key = request.headers.key.ok_or(KEY)?;
    if STANDARD.decode(key).map_or(true, |bytes| bytes.len() != 16) {
        return Err(KEY);
    }
    let accept = answer_to(key);
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    let subprotocol = subprotocol.and_then(|it| it.to_str().ok());
    let subprotocol =
        subprotocol.map(|it| format!("Sec-WebSocket-Protocol: {it}\r\n")).unwrap_or_default();
    Ok(format!("{head}Sec-WebSocket-Accept: {accept}\r\n{subprotocol}\r\n").into_bytes())
}

/// The request of a client, with 16 bytes that nobody can foretell, and further header lines.
pub(super) fn request_of(host: &str, path: &str, further: &str, nonce: [u8; 16]) -> Vec<u8> {
    let key = STANDARD.encode(nonce);
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{further}\r\n"
    )
    .into_bytes()
}

/// Returns `true` if the server took the request that was made with these bytes.
pub(super) fn check_answer(response: &Response<'_>, nonce: [u8; 16]) -> io::Result<()> {
    if response.status.0 != 101 {
        return Err(Refused::new(response.status.0).into());
    }
    let headers = &response.headers;
    let is_right = response.is_1_1
        && headers.names_websocket
        && headers.upgrades
        && headers.accept == Some(&answer_to(&STANDARD.encode(nonce)))
        // Nothing was offered, so nothing can have been chosen.
        && headers.extensions.is_none()
        && headers.protocol.is_none();
    if is_right {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the server does not speak WebSocket"))
}

/// What a server says to a key, which proves that it has understood the request.
fn answer_to(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(MAGIC.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}
