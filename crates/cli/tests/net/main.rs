//! The listening daemon: the real binary over TCP, Unix sockets, WebSocket and HTTP (sections 5 and 8 of the
//! contract).
#![cfg(unix)]

mod activation;
mod addresses;
mod client;
mod crowd;
mod dialogues;
mod ends;
mod floods;
mod frames;
mod gate;
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
mod unix_sockets;
mod websocket;
