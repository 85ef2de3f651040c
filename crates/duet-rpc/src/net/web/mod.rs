//! The common part of WebSocket and HTTP: heads, bodies, the access policy, and refusals.
//!
//! The parsers take bytes in any pieces, and neither read nor write, so they are tested as rows of data.
//! Only the WebSocket handshakes in `upgrade` use a socket.

// What only one of the two needs is not marked as such.
#![cfg_attr(not(all(feature = "http", feature = "websocket")), allow(dead_code, unused_imports))]

mod access;
mod body;
#[cfg(feature = "websocket")]
mod handshake;
mod head;
mod headers;
mod status;
#[cfg(all(test, feature = "http", feature = "websocket"))]
mod tests;
#[cfg(feature = "websocket")]
mod upgrade;

use std::io;
use std::time::Duration;

pub(super) use access::Admitted;
pub use access::{AccessPolicy, OriginPattern, OriginPatternError, TokenFile, TokenFileError};
pub(super) use body::{Body, Flaw};
#[cfg(feature = "websocket")]
pub(super) use handshake::answer_to;
pub(super) use head::{HeadReader, Response};
pub use status::Refused;
pub(super) use status::{HttpRefusal, Status};
#[cfg(feature = "websocket")]
pub(super) use upgrade::{Ask, ask_for_upgrade};

/// How long a connection may send no request, or a part of a head, unless it is said otherwise.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// The header line that shows a token, if there is one. What is no token could end the line.
pub(super) fn authorization(token: Option<&str>) -> io::Result<String> {
    let Some(token) = token else { return Ok(String::new()) };
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = "a token is made of visible ASCII characters";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(format!("Authorization: Bearer {token}\r\n"))
}
