//! The common part of WebSocket and HTTP: heads, bodies, the access policy, and refusals.
//!
//! The parsers take bytes in any pieces, and neither read nor write, so they are tested as rows of data.
//! Only the WebSocket handshakes in `upgrade` and `client_handshake` use a socket.

// Some parsers of responses have no user since the client speaks through hyper.
#![allow(dead_code, unused_imports)]

mod access;
mod body;
#[cfg(feature = "websocket")]
mod client_handshake;
#[cfg(feature = "websocket")]
mod handshake;
mod head;
mod headers;
mod request;
mod response;
mod status;
#[cfg(all(test, feature = "http", feature = "websocket"))]
mod tests;
#[cfg(feature = "websocket")]
mod upgrade;

use std::time::Duration;

pub use access::AccessPolicy;
pub(super) use body::{Body, Flaw};
#[cfg(feature = "websocket")]
pub(super) use client_handshake::{Ask, ask_for_upgrade};
pub(super) use head::{Expect, HeadReader, HttpRequest, Length, Response};
pub(super) use request::RequestHead;
pub(super) use response::{CONTINUE, JSON, OutgoingResponse, final_response};
pub use status::Refused;
pub(super) use status::{HttpRefusal, Status};
#[cfg(feature = "websocket")]
pub(super) use upgrade::{Upgraded, upgrade};

/// How long a connection may send no request, or a part of a head, unless it is said otherwise.
pub(super) const IDLE: Duration = Duration::from_secs(30);
