//! Transports to other programs, and the types that make and keep connections over them.
//!
//! | module | contents |
//! |---|---|
//! | `address` | addresses of servers, as text |
//! | `socket` | TCP, TLS and Unix sockets |
//! | `tls` | TLS over TCP: settings, handshake, errors |
//! | `websocket`, `http`, `web` | WebSocket and HTTP, and their heads, access policy and handshakes |
//! | `child` | programs that this process starts, and ends with all their processes |
//! | `listener`, `hub` | accepting connections; serving many with one router |
//! | `connector`, `client` | making one connection; reconnecting when it breaks |

mod address;
mod child;
mod client;
mod connector;
#[cfg(feature = "http")]
mod http;
mod hub;
mod listener;
mod socket;
#[cfg(feature = "tls")]
mod tls;
#[cfg(any(feature = "http", feature = "websocket"))]
mod web;
#[cfg(feature = "websocket")]
mod websocket;

use std::io;

pub use self::address::{Address, AddressError, Place, Security, Target};
pub(crate) use self::child::CannotStart;
pub use self::child::Child;
pub(crate) use self::child::at_exit;
pub use self::client::{Backoff, Client, ClientBuilder, ClientState, Connect};
pub use self::connector::Connector;
#[cfg(feature = "http")]
pub(crate) use self::connector::Dialer;
#[cfg(feature = "http")]
pub use self::http::{HttpBody, HttpClient, HttpService, ResponseFuture, service};
pub(crate) use self::hub::MOST_CONNECTIONS;
pub use self::hub::{Hub, HubBuilder};
use self::listener::RefusedUsers;
#[cfg(feature = "tls")]
pub use self::listener::TlsBinder;
pub use self::listener::{Incoming, Listener};
pub use self::socket::Socket;
#[cfg(feature = "tls")]
pub use self::tls::{ClientCertificates, TlsClient, TlsError, TlsErrorKind, TlsServer};
#[cfg(any(feature = "http", feature = "websocket"))]
pub use self::web::{
    AccessPolicy, OriginPattern, OriginPatternError, Refused, TokenFile, TokenFileError,
};
#[cfg(feature = "websocket")]
pub use self::websocket::WebSocket;

/// The reason why neither a connector nor a listener takes the address of a service behind a broker.
const NATS: &str = "nats:// needs the package duet-rpc-nats: its `NatsPeer` calls a service, its `Worker` serves one";

/// The error of an address that cannot be used here.
fn unsupported(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}
