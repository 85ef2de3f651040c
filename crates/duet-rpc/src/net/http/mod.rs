//! HTTP: each message is the body of a POST, and its answer is the response.
//!
//! | file | contents |
//! |---|---|
//! | `service` | the service that other web servers can mount |
//! | `serve`, `wire` | connections that the library accepts itself: hyper on a socket, and its timeouts |
//! | `rules`, `handshake` | which requests are served; the WebSocket handshake |
//! | `respond`, `body`, `events`, `session` | one request in, one response out, whole or as a stream of events |
//! | `client`, `connection`, `reply`, `event_stream`, `verdict` | the client |

mod body;
mod client;
mod connection;
mod event_stream;
mod events;
#[cfg(feature = "websocket")]
mod handshake;
mod reply;
mod respond;
mod rules;
mod serve;
mod service;
mod session;
#[cfg(all(test, feature = "websocket"))]
mod tests;
mod verdict;
mod wire;

pub use body::HttpBody;
pub(super) use client::Dial;
pub use client::HttpClient;
pub(super) use rules::{Protocols, Rules};
#[cfg(feature = "websocket")]
pub(super) use serve::handshake;
pub use service::{HttpService, ResponseFuture, service};
