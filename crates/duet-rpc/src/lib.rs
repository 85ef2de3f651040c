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
//! use duet_rpc::{Context, Error, Peer, Profile, Router, transport::memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let server = Router::new().method("greet", async |cx: Context| {
//!     let name: String = cx.peer().call("name", ()).await?;
//!     Ok::<_, Error>(format!("Hello, {name}!"))
//! });
//! let client = Router::new().method("name", async || "Ada");
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
//! | define methods as a trait, and call them with a typed client | [`#[service]`](mod@service) |
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

#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __macro;
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
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub mod service;
#[cfg(unix)]
mod stdio;
mod sync;
pub mod transport;

pub use call::Call;
pub use connection::{
    CONNECTION, Driver, EventStream, REQUEST, Subscription, TRAFFIC, UnusableAnswer,
};
pub use context::Context;
/// Makes JSON-RPC errors of an enum or a struct, both ways.
///
/// It implements
///
/// - `From<E> for Failure`, so that handlers return `Result<T, E>`;
/// - [`FromRemote`](error::FromRemote), so that a caller reads the error with [`Error::as_remote`];
/// - [`Display`](std::fmt::Display), which shows the message, and [`std::error::Error`]. With
///   `#[rpc(no_display)]` on the type it leaves both to you, or to another derive.
///
/// Fields become the error's `data`: named ones an object, one without a name itself, several an array.
///
/// ```
/// use duet_rpc::{Failure, RpcError};
///
/// #[derive(Debug, RpcError)]
/// enum StoreError {
///     #[rpc(code = 1001, message = "Key not found")]
///     NotFound { key: String },
///     #[rpc(code = 1002)] // "Read only"
///     ReadOnly,
///     /// The remote is told `Internal error`, the log shows the cause.
///     #[rpc(internal, from)]
///     Disk(std::io::Error),
/// }
///
/// let failure = Failure::from(StoreError::NotFound { key: "a".to_owned() });
/// assert_eq!(failure.object().code().0, 1001);
/// let failure = Failure::from(StoreError::from(std::io::Error::other("the disk is full")));
/// assert_eq!(failure.object().message(), "Internal error");
/// assert_eq!(StoreError::ReadOnly.to_string(), "Read only");
/// ```
///
/// | on a variant or struct, `#[rpc(...)]` | |
/// |---|---|
/// | `code = 1001` | the code; one that JSON-RPC does not reserve, or from -32099 to -32000 |
/// | `message = "..."` | the message; else the words of the variant's name |
/// | `internal` | an internal error: its one field is the cause, for the log alone. It cannot be read back |
/// | `transparent` | the error that is its one field |
/// | `from` | `From` for the one field of an `internal` or `transparent` variant, so that `?` makes it |
///
/// | on the type, `#[rpc(...)]` | |
/// |---|---|
/// | `crate = "path"` | the path of this library, if it is not `::duet_rpc` |
/// | `no_display` | no `Display` and no `Error` |
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use duet_rpc_macros::RpcError;
/// Explains what is wrong with a handler: put it on a function that
/// [`Router::method`](crate::Router::method) refuses.
///
/// The compiler then points at the param that serde cannot read, the result that it cannot write, the error
/// that does not convert into a [`Failure`], or the value that makes the future not [`Send`].
///
/// ```
/// use duet_rpc::{Failure, Router};
///
/// #[duet_rpc::debug_handler]
/// async fn add((a, b): (i64, i64)) -> Result<i64, Failure> {
///     Ok(a + b)
/// }
///
/// let router = Router::new().method("add", add);
/// ```
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use duet_rpc_macros::debug_handler;
/// Makes a router and a typed client of a trait, or a router of an `impl` block. The module
/// [`service`](mod@service) has all options.
///
/// ```
/// use duet_rpc::{Error, Peer, Profile, Router, transport::memory};
///
/// #[duet_rpc::service]
/// trait Greeter {
///     /// Greets somebody.
///     async fn greet(&self, name: String) -> String;
/// }
///
/// struct Polite;
///
/// impl Greeter for Polite {
///     async fn greet(&self, name: String) -> String {
///         format!("Good morning, {name}!")
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let (here, there) = memory::pair();
/// let server = Peer::builder(there).profile(Profile::agent()).router(Polite.into_router()).spawn();
/// let greeter = GreeterClient::new(Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn());
/// assert_eq!(greeter.greet("Ada".to_owned()).await?, "Good morning, Ada!");
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use duet_rpc_macros::service;
pub use duet_rpc_proto as proto;
pub use duet_rpc_proto::Profile;
pub use duet_rpc_proto::session::Priority;
pub use error::{
    CloseReason, ConnectionState, Disconnect, Error, ErrorKind, Failure, OrInternal, RemoteError,
};
pub use handler::{FromContext, Handler, Method, Paced, State, blocking, quick};
pub use net::{Backoff, Broadcast, Client, ClientBuilder, ClientState, Hub, HubBuilder};
pub use peer::{Peer, PeerBuilder, Stats};
pub use remote::{Identity, Remote};
pub use router::{
    Arrival, CallEnd, End, Ended, EndedCall, Next, Observer, Request, Router, SentMessage,
};
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub use router::{HandlerError, HandlerService};
#[cfg(unix)]
pub use server::{Server, serve};

/// For the command, which receives signals, and watches its parent, before its server does.
#[cfg(unix)]
#[doc(hidden)]
pub use server::{Parent, is_signal_ignored};

/// The checks of a handler, see [`Handler`]. Nobody has to name them.
#[doc(hidden)]
pub mod checks {
    pub use crate::handler::{
        Argument, Arguments, AsExtractor, AsParams, Asynchronous, AtMostOneParams, Begun, Binding,
        Converts, Fallible, IntoFailure, OfContext, OfMessage, OfRouter, Output, Parts, Plain,
        Refusal, Returns, Speed, Synchronous, Writable,
    };
}

/// The code in the package's own page is compiled and run like all other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
