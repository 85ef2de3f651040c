//! `Sec-WebSocket-Accept`: the server's proof that it has understood the request for a WebSocket.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The same for every WebSocket.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The server's answer to a key.
pub(in crate::net) fn answer_to(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(MAGIC.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}
