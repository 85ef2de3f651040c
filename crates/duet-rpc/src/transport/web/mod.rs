//! What WebSockets and HTTP have in common: how requests begin, who is let in, and what is said to
//! those who are not.
//!
//! Nothing here reads or writes. All of it takes bytes in any pieces, so that it is tested as rows
//! of data.

#[cfg(feature = "http")]
mod body;
mod gate;
#[cfg(feature = "websocket")]
mod handshake;
mod head;
mod headers;
mod response;
mod status;
#[cfg(all(test, feature = "http", feature = "websocket"))]
mod tests;

#[cfg(feature = "http")]
pub(super) use body::{Body, Flaw};
pub use gate::Gate;
#[cfg(feature = "websocket")]
pub(super) use handshake::{accept, check_answer, request_of};
#[cfg(feature = "http")]
pub(super) use head::{Expect, Length};
pub(super) use head::{HeadReader, Request, Response};
pub(super) use response::Reply;
#[cfg(feature = "http")]
pub(super) use response::{CONTINUE, JSON};
pub use status::Refused;
pub(super) use status::{Refusal, Status};
