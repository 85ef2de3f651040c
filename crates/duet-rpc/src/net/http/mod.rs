//! HTTP: each message is the body of a POST, and its answer is the response.
//!
//! The server sends only answers: it cannot call a client.

mod client;
mod clock;
mod connection;
mod event_stream;
mod intake;
mod reply;
mod server;
mod shared_socket;
mod terms;
#[cfg(test)]
mod tests;
mod verdict;

pub(super) use client::Dial;
pub use client::HttpClient;
pub use server::HttpServer;
