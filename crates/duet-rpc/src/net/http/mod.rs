//! HTTP: each message is the body of a POST, and its answer is the response.
//!
//! There is no way back: what answers nothing cannot be sent to a client.

mod client;
mod clock;
mod connection;
mod intake;
mod reply;
mod server;
mod terms;
#[cfg(test)]
mod tests;
mod verdict;

pub use client::HttpClient;
pub use server::HttpServer;
