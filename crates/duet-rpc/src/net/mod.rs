//! Transports to other programs, and the types that make and keep connections over them.
//!
//! | module | contents |
//! |---|---|
//! | `address` | addresses of servers, as text |
//! | `socket` | TCP and Unix sockets |
//! | `websocket`, `http`, `web` | WebSocket and HTTP, and their heads, access policy and handshakes |
//! | `child` | programs that are started, and ended with all their processes |
//! | `listener`, `hub` | accepting connections; serving many with one router |
//! | `connector`, `client` | making one connection; a connection that is made again when it breaks |

mod address;
mod child;
mod client;
mod connector;
#[cfg(feature = "http")]
mod http;
mod hub;
mod listener;
mod socket;
#[cfg(any(feature = "http", feature = "websocket"))]
mod web;
#[cfg(feature = "websocket")]
mod websocket;

use std::io;

pub use self::address::{Address, AddressError, Place, Target};
pub(crate) use self::child::CannotStart;
pub use self::child::Child;
#[cfg(unix)]
pub(crate) use self::child::{at_exit, descriptor_limit};
pub use self::client::{Backoff, Client, ClientBuilder, ClientState, Connect};
pub use self::connector::Connector;
#[cfg(feature = "http")]
pub use self::http::{HttpBody, HttpClient, HttpService, ResponseFuture, service};
#[cfg(unix)]
pub(crate) use self::hub::MOST_CONNECTIONS;
pub use self::hub::{Hub, HubBuilder};
#[cfg(unix)]
pub(crate) use self::listener::Reserve;
pub use self::listener::{Incoming, Listener};
pub use self::socket::Socket;
#[cfg(any(feature = "http", feature = "websocket"))]
pub use self::web::{
    AccessPolicy, OriginPattern, OriginPatternError, Refused, TokenFile, TokenFileError,
};
#[cfg(feature = "websocket")]
pub use self::websocket::WebSocket;

/// The error of an address that cannot be used here.
fn unsupported(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}
