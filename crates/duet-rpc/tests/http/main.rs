//! HTTP over real sockets (T1–T3, F3): the server against clients that are written down byte by
//! byte, the client against servers that are, and both against each other.

#![cfg(feature = "http")]

mod by_hand;
mod client;
mod events;
mod idle;
mod mounted;
mod one_call;
mod order;
mod requests;
mod server;
mod streams;
mod support;
mod trouble;
