//! JSON-RPC 2.0 for two programs that talk over pipes and streams: an editor and its language
//! backend, a desktop app and its core, an agent and its tools.
//!
//! A [`Peer`] is one end of a connection. It serves methods and calls the other end's, at the same
//! time, on one connection; it is typed, bounded in everything, and cannot hang.
//!
//! # A server
//!
//! A [`Router`] says which function serves which method. [`serve`] runs it on stdin and stdout, and
//! takes care of how a process has to end. This is all of `src/main.rs`:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use duet_rpc::{Failure, Profile, Router};
//!
//! async fn add((a, b): (i64, i64)) -> Result<i64, Failure> {
//!     Ok(a + b)
//! }
//!
//! fn main() -> ExitCode {
//!     let router = Router::new().method("add", add);
//!     duet_rpc::serve(Profile::agent(), router)
//! }
//! ```
//!
//! ```console
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}' | cargo run -q
//! {"jsonrpc":"2.0","id":1,"result":3}
//! ```
//!
//! # A client
//!
//! A client starts a program and calls it. [`transport::Child`] starts it, keeps what it says on
//! stderr, and ends it when the connection is closed.
//!
//! ```no_run
//! use std::time::Duration;
//! use duet_rpc::{Peer, Profile, Router, transport::Child};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let program = Child::spawn(tokio::process::Command::new("target/debug/server"))?;
//!     let server = Peer::builder(program).profile(Profile::agent()).router(Router::new()).spawn();
//!
//!     let sum: i64 = server.call("add", (1, 2)).timeout(Duration::from_secs(5)).await?;
//!     println!("1 + 2 = {sum}");
//!
//!     let end = server.close().await;
//!     println!("{end}"); // it was closed here; its process ended with exit status: 0
//!     Ok(())
//! }
//! ```
//!
//! `Cargo.toml` needs `duet-rpc`, and for a client `tokio` with the features `macros`, `process`
//! and `rt`.
//!
//! # Both at once
//!
//! A handler asks for a [`Context`] as a further argument, and calls back through it. In a test two
//! peers talk in memory:
//!
//! ```
//! use duet_rpc::{Context, Error, Failure, Peer, Profile, Router, transport::memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let server = Router::new().method("greet", async |cx: Context| {
//!     let name: String = cx.peer().call("name", ()).await?;
//!     Ok::<_, Error>(format!("Hello, {name}!"))
//! });
//! let client = Router::new().method("name", async || Ok::<_, Failure>("Ada"));
//!
//! let (here, there) = memory::pair();
//! let server = Peer::builder(there).profile(Profile::agent()).router(server).spawn();
//! let client = Peer::builder(here).profile(Profile::agent()).router(client).spawn();
//! let greeting: String = client.call("greet", ()).await?;
//! assert_eq!(greeting, "Hello, Ada!");
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! # Which type to use
//!
//! | you want to | use |
//! |---|---|
//! | serve on stdin and stdout, as a program that an editor, a desktop app or an agent starts | [`serve`] |
//! | the same with settings, or on sockets, as a program of its own | [`Server`] |
//! | serve sockets inside a program that has a runtime and goes on with other work | [`Hub`] with a [`Listener`](transport::Listener) |
//! | accept connections yourself, one by one | [`Listener`](transport::Listener) |
//! | talk over one connection, to call, to serve or both, until it closes | [`Peer`] |
//! | call a server that may crash or go away, and have it started or reached again | [`Client`] |
//!
//! [`serve`], [`Server`] and [`Hub`] make a [`Peer`] for each connection, and hand it to handlers in
//! their [`Context`]. A [`Client`] makes one [`Peer`] after another.
//!
//! # What to know
//!
//! - **Handlers** take any type that serde reads: a tuple takes params by position, a struct by
//!   name, [`Box<RawValue>`](serde_json::value::RawValue) as they are; no argument takes none. Wrong
//!   params are answered for you, and say what was expected. See [`Handler`].
//! - **Errors**: a handler returns `Result<T, E>` with any `E` that converts into a [`Failure`]:
//!   what the remote is told, and what only the log shows. A call returns an [`Error`], which knows
//!   whose fault it was and whether to try again makes sense. A panic is an answer, not an end.
//! - **Order**: the [`Profile`] says whether messages are handled one after the other, side by side
//!   with notifications as barriers, side by side, or by key. A profile is a struct: take one of
//!   the three, and change what you like.
//! - **Cancelling**: a call that is dropped, or whose time is over, is cancelled at the remote. A
//!   handler whose request is cancelled is dropped where it waits.
//! - **Limits**: everything that waits is bounded, by [`Limits`](proto::Limits). Who sends more than
//!   a peer can take is answered busy, or has to wait; nobody waits for ever.
//! - **Logs** are events of the `tracing` crate, with the method and the id that they are about. They
//!   never hold params or results.
//! - **Framings**: a line each, `Content-Length` headers, or a length prefix: a setting of the
//!   profile. [`proto`] has them and everything else that is pure.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Nothing that comes from outside may end the process; tests may.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod call;
mod connection;
mod context;
pub mod error;
mod extensions;
mod handler;
mod log_limit;
mod net;
pub mod panic_guard;
pub mod params;
mod peer;
mod random;
mod remote;
mod router;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod stdio;
mod sync;
pub mod transport;

pub use call::Call;
pub use connection::{
    CONNECTION, Driver, EventStream, REQUEST, Subscription, TRAFFIC, UnusableAnswer,
};
pub use context::Context;
pub use duet_rpc_proto as proto;
pub use duet_rpc_proto::Profile;
pub use duet_rpc_proto::session::Priority;
pub use error::{CloseReason, ConnectionState, Disconnect, Error, ErrorKind, Failure, RemoteError};
pub use handler::{Handler, Output};
pub use net::{Backoff, Broadcast, Client, ClientBuilder, ClientState, Hub, HubBuilder};
pub use peer::{Peer, PeerBuilder, Stats};
pub use remote::{Identity, Remote};
pub use router::Router;
#[cfg(unix)]
pub use server::{Server, serve};

/// For the command, which receives signals, and watches its parent, before its server does.
#[cfg(unix)]
#[doc(hidden)]
pub use server::{Parent, is_signal_ignored};

/// The code in the package's own page is compiled and run like all other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
