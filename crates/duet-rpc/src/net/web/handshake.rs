//! Key and answer of a WebSocket handshake, for both ends.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The constant that RFC 6455 adds to a key before it is hashed.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The answer of a server to a key. It proves that the server has understood the request.
pub(in crate::net) fn answer_to(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(MAGIC.as_bytes());
    STANDARD.encode(hash.digest().bytes())
}
