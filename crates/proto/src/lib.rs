//! The pure core of duet-rpc: JSON-RPC 2.0 for two programs that talk over pipes and streams,
//! with no I/O, no tasks and no clock.
//!
//! ```text
//!  bytes ──▶ frame::Decoder ──▶ text::Text ──▶ message::Incoming ──▶ you
//!                  │                                  │
//!                Fault ────────▶ message::Reply ◀── Invalid
//!                                     │
//!  bytes ◀── frame::write_frame ◀── message::write_* ◀── your answer
//! ```
//!
//! No input from a peer makes this code panic, grow past its [`Limits`], or lose the message after
//! a bad one.
//!
//! ```
//! use duet_rpc_proto::{Profile, frame::{Decoder, Event, Framing, write_frame}};
//! use duet_rpc_proto::message::{ErrorObject, Incoming, Reply, write_error, write_raw_result};
//!
//! # fn main() -> Result<(), &'static str> {
//! let profile = Profile::agent();
//! let mut decoder = Decoder::new(profile.framing, &profile.limits);
//! let mut out = Vec::new();
//! let chunk = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}\noops\n";
//! assert_eq!(decoder.feed(chunk), chunk.len());
//! while let Some(event) = decoder.next_event() {
//!     write_frame(Framing::Ndjson, &mut out, |out| {
//!         match event {
//!             Event::Fault(fault) => Reply::to_fault(&fault).write(out),
//!             Event::Frame(text) => match Incoming::classify(&text, profile.batch, &profile.limits) {
//!                 Incoming::Request(request) => match (&*request.method, request.params.as_raw()) {
//!                     ("echo", Some(params)) => write_raw_result(out, request.id, params),
//!                     _ => write_error(out, request.id, &ErrorObject::method_not_found(&request.method)),
//!                 },
//!                 Incoming::Invalid(reply) => reply.write(out),
//!                 _ => return Err("not in this example"),
//!             },
//!         }
//!         Ok(())
//!     })?;
//! }
//! assert_eq!(out, concat!(
//!     r#"{"jsonrpc":"2.0","id":1,"result":[1]}"#, "\n",
//!     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#, "\n",
//! ).as_bytes());
//! # Ok(())
//! # }
//! ```

// Input from outside must not end the process; a failing test may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod fault;
pub mod frame;
pub mod limits;
pub mod message;
pub mod notice;
pub mod policy;
mod prefixed;
pub mod session;
#[doc = include_str!("specification.md")]
pub mod specification {}
pub mod text;
pub mod ws;

pub use limits::Limits;
pub use policy::Profile;

/// Compiles and runs the code in the package's README like all other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
