//! The daemon as it listens: the real binary over TCP, Unix sockets, WebSocket and HTTP (sections 5 and
//! 8 of the contract).
#![cfg(unix)]

mod client;
mod dialogues;
mod http;
mod script;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod websocket;
