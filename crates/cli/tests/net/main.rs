//! The listening daemon: the real binary over TCP, Unix sockets, WebSocket and HTTP (sections 5 and 8 of the
//! contract).
#![cfg(unix)]

mod access;
mod activation;
mod addresses;
mod capacity;
#[path = "../../../duet-rpc/tests/support/certificates.rs"]
mod certificates;
mod client;
mod dialogues;
mod ends;
mod floods;
mod frames;
mod hostile;
mod http;
mod idle;
mod log_access;
mod many;
mod posts;
mod script;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tokens;
mod unix_sockets;
mod websocket;
