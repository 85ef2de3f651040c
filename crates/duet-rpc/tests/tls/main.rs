//! Peers over TLS, on real sockets, with certificates made on the spot (T5).

#![cfg(all(feature = "tls", unix))]

#[path = "../support/certificates.rs"]
mod certificates;
mod clients;
mod errors;
mod files;
mod frames;
mod hostile;
#[path = "../support/log.rs"]
mod log;
mod renewal;
mod support;
#[cfg(feature = "websocket")]
mod web;
