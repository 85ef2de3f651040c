//! WebSocket handshake of a client.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::head::Response;
use super::status::Refused;

/// Makes a key's answer; every WebSocket has this one.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

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
pub(in crate::net) fn answer_to(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(MAGIC.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}
