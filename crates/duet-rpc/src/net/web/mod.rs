//! The common part of WebSocket and HTTP: the access policy, refusals, and the requests of a client.

mod access;
#[cfg(feature = "websocket")]
mod client_handshake;
#[cfg(feature = "websocket")]
mod handshake;
mod request;
mod status;

use std::time::Duration;

pub(super) use access::Admitted;
pub use access::{AccessPolicy, OriginPattern, OriginPatternError, TokenFile, TokenFileError};
#[cfg(feature = "websocket")]
pub(super) use client_handshake::{Ask, ask_for_upgrade};
#[cfg(feature = "websocket")]
pub(super) use handshake::answer_to;
pub(super) use request::RequestHead;
pub(super) use status::HttpRefusal;
pub use status::Refused;

/// The default time for which a connection may send no request, or only a part of its head.
pub(super) const IDLE: Duration = Duration::from_secs(30);
