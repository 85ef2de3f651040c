//! JSON-RPC 2.0 services on many machines: workers and callers behind [NATS](https://nats.io).
//!
//! A service that outgrows one machine changes a URL and keeps its code. A [`Worker`] serves the same
//! [`Router`](duet_rpc::Router) as a server on a socket, and any number of workers share the requests. A [`NatsPeer`]
//! gives the same [`Peer`](duet_rpc::Peer) as a socket.
//!
//! ```no_run
//! use duet_rpc::Router;
//! use duet_rpc_nats::{NatsPeer, Worker};
//!
//! # async fn example() -> Result<(), duet_rpc::Error> {
//! let router = Router::new().method("add", async |(a, b): (i64, i64)| a + b);
//! let worker = Worker::connect("nats://127.0.0.1:4222").await?.service("math", "1.2.0");
//! tokio::spawn(worker.serve(router));
//!
//! let math = NatsPeer::connect("nats://127.0.0.1:4222").await?.service("math").await?;
//! assert_eq!(math.call::<i64>("add", (1, 2)).await?, 3);
//! # Ok(())
//! # }
//! ```
//!
//! | problem | effect on the call |
//! |---|---|
//! | no worker serves the service | [`Exchange`](duet_rpc::ErrorKind::Exchange), immediately; it was not sent |
//! | the worker dies | [`Interrupted`](duet_rpc::ErrorKind::Interrupted) after 3 s, or another worker if the method is [idempotent](NatsTransport::idempotent) |
//! | all workers are busy | two more deliveries, then the answer `Server busy` |
//! | the call is dropped or times out | the handler is cancelled |
//! | the message is larger than the broker takes | `Exchange`, immediately; it was not sent |
//! | the broker restarts | both sides reconnect; calls without a sign for 3 s are `Interrupted` |
//!
//! The payload of each message is the JSON-RPC message as it is, so other clients of NATS call a service with a plain
//! request to `rpc.SERVICE.METHOD`, and tools such as `nats micro` find it.

// Input from outside must not end the process. Tests may panic.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod broker;
mod callbacks;
mod caller;
mod calls;
mod header;
mod message;
mod peer;
mod publisher;
mod subject;
mod worker;

pub use async_nats::ConnectOptions;

pub use self::caller::NatsTransport;
pub use self::peer::NatsPeer;
pub use self::worker::{Serving, Worker};

/// Doc tests for the examples in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
