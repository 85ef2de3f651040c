//! What WebSockets and HTTP have in common: how requests begin, who is let in, and what is said to
//! those who are not.
//!
//! Nothing here reads or writes. All of it takes bytes in any pieces, so that it is tested as rows
//! of data.

#[cfg(feature = "http")]
mod body;
mod farewell;
mod gate;
#[cfg(feature = "websocket")]
mod handshake;
mod head;
mod headers;
mod response;
mod status;
#[cfg(all(test, feature = "http", feature = "websocket"))]
mod tests;
#[cfg(feature = "websocket")]
mod upgrade;

#[cfg(feature = "http")]
pub(super) use body::{Body, Flaw};
pub(super) use farewell::turn_away;
pub use gate::Gate;
#[cfg(feature = "http")]
pub(super) use head::{Expect, HeadReader, Length, Request, Response};
#[cfg(feature = "http")]
pub(super) use response::{CONTINUE, JSON, Reply};
pub(super) use status::Refusal;
pub use status::Refused;
#[cfg(feature = "http")]
pub(super) use status::Status;
#[cfg(feature = "websocket")]
pub(super) use upgrade::{Ask, ask_for_upgrade, upgrade};

use std::io;

/// The header line that shows a token, if there is one. What is no token could end the line.
pub(super) fn authorization(token: Option<&str>) -> io::Result<String> {
    let Some(token) = token else { return Ok(String::new()) };
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = "a token is made of visible ASCII characters";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(format!("Authorization: Bearer {token}\r\n"))
}
