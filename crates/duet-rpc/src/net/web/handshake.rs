//! WebSocket handshake over HTTP, from the server's end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::head::HttpRequest;
use super::status::{HttpRefusal, Status};

/// Makes a key's answer; every WebSocket has this one.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const UPGRADE: HttpRefusal = HttpRefusal::new(
    Status::UPGRADE_REQUIRED,
    "WebSockets are served here. Connect with a client of WebSockets.",
)
.with_header("Upgrade: websocket\r\n");
const VERSION: HttpRefusal =
    HttpRefusal::new(Status::UPGRADE_REQUIRED, "This version of WebSockets is not served. Use 13.")
        .with_header("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
const METHOD: HttpRefusal = HttpRefusal::new(
    Status::METHOD_NOT_ALLOWED,
    "WebSockets are served here. Begin them with GET.",
)
.with_header("Allow: GET\r\n");
const KEY: HttpRefusal = HttpRefusal::malformed(
    "The head is malformed: Sec-WebSocket-Key has to be 16 bytes in base64.",
);
const BODY: HttpRefusal = HttpRefusal::malformed("A request that begins a WebSocket has no body.");

/// Takes a request that begins a WebSocket: what is sent then, and all behind it is frames. No
/// protocol and no extension is chosen, whatever the client offers.
pub(super) fn accept(request: &HttpRequest<'_>) -> Result<Vec<u8>, HttpRefusal> {
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
    Ok(format!("{head}Sec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes())
}

/// What a server says to a key, which proves that it has understood the request.
pub(super) fn answer_to(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(MAGIC.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}
