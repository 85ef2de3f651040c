//! The common part of WebSocket and HTTP: the access policy, refusals, and the requests and sockets of a
//! client.

#[cfg(feature = "websocket")]
mod accept_key;
mod access;
#[cfg(feature = "websocket")]
mod client_handshake;
mod headers;
mod request;
mod shared_socket;
mod status;

use std::time::Duration;

#[cfg(feature = "websocket")]
pub(super) use accept_key::answer_to;
pub(super) use access::Admitted;
pub use access::{AccessPolicy, OriginPattern, OriginPatternError, TokenFile, TokenFileError};
#[cfg(feature = "websocket")]
pub(super) use client_handshake::{Ask, ask_for_upgrade};
pub(super) use headers::lists_type;
#[cfg(feature = "websocket")]
pub(super) use headers::{lists, only};
pub(super) use request::RequestHead;
pub(super) use shared_socket::SharedSocket;
pub(super) use status::HttpRefusal;
pub use status::Refused;

/// The default time for which a connection may send no request, or only a part of its head.
pub(super) const IDLE: Duration = Duration::from_secs(30);
