//! JSON-RPC 2.0 servers and clients over stdio, child processes, sockets, WebSocket and HTTP.
//!
//! `#[service]` makes a server and a typed client from a trait. This is a whole server:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use duet_rpc::Profile;
//!
//! #[duet_rpc::service]
//! pub trait Math {
//!     /// Adds two numbers.
//!     async fn add(&self, a: i64, b: i64) -> i64;
//! }
//!
//! struct Calculator;
//!
//! impl Math for Calculator {
//!     async fn add(&self, a: i64, b: i64) -> i64 {
//!         a + b
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     duet_rpc::serve(Profile::agent(), Calculator.into_router())
//! }
//! ```
//!
//! ```console
//! $ echo '{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}' | cargo run -q
//! {"jsonrpc":"2.0","id":1,"result":3}
//! ```
//!
//! The macro also generates `MathClient`. This client starts the server as a child process and calls it:
//!
//! ```no_run
//! use std::time::Duration;
//! use duet_rpc::{Peer, transport::Child};
//! use tokio::process::Command;
//! # #[duet_rpc::service]
//! # pub trait Math { async fn add(&self, a: i64, b: i64) -> i64; }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Peer::builder(Child::spawn(Command::new("target/debug/server"))?).spawn();
//!     let math = MathClient::new(&server);
//!     let sum = math.add(1, 2).timeout(Duration::from_secs(5)).await?;
//!     println!("1 + 2 = {sum}");
//!
//!     let end = server.close().await;
//!     println!("{end}"); // closed locally; the child process ended with exit status: 0
//!     Ok(())
//! }
//! ```
//!
//! `Cargo.toml` needs `duet-rpc`, and for a client `tokio` with the features `macros`, `process`
//! and `rt`. The module [`service`](mod@service) lists the options of the macro.
//!
//! # Without a trait
//!
//! A [`Router`] takes functions and closures, `async` or not, that return a value or a `Result`. The caller
//! passes the method's name:
//!
//! ```
//! use duet_rpc::{Error, Peer, Router, transport::memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let router = Router::new()
//!     .method("add", |(a, b): (i64, i64)| a + b)
//!     .method("greet", async |(name,): (String,)| format!("Hello, {name}!"));
//!
//! let (here, there) = memory::pair();
//! let _server = Peer::builder(there).router(router).spawn();
//! let client = Peer::builder(here).spawn();
//! assert_eq!(client.call::<i64>("add", (1, 2)).await?, 3);
//! assert_eq!(client.call::<String>("greet", ["Ada"]).await?, "Hello, Ada!");
//! # Ok(())
//! # }
//! ```
//!
//! # Calls in both directions
//!
//! A handler can call its caller back on the same connection. `callbacks` names the trait that the caller
//! serves, and the handler takes the client of that trait as an argument:
//!
//! ```
//! use duet_rpc::{Error, Peer, transport::memory};
//!
//! #[duet_rpc::service]
//! trait Visitor {
//!     fn name(&self) -> String;
//! }
//!
//! #[duet_rpc::service(callbacks = Visitor)]
//! trait Greeter {
//!     async fn greet(&self, visitor: VisitorClient) -> Result<String, Error>;
//! }
//!
//! struct Porter;
//!
//! impl Greeter for Porter {
//!     async fn greet(&self, visitor: VisitorClient) -> Result<String, Error> {
//!         Ok(format!("Hello, {}!", visitor.name().await?))
//!     }
//! }
//!
//! struct Ada;
//!
//! impl Visitor for Ada {
//!     fn name(&self) -> String {
//!         "Ada".to_owned()
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let (here, there) = memory::pair();
//! let _server = Peer::builder(there).router(Porter.into_router()).spawn();
//! let greeter = GreeterClient::new(Peer::builder(here).router(Ada.into_router()).spawn());
//! assert_eq!(greeter.greet().await?, "Hello, Ada!");
//! # Ok(())
//! # }
//! ```
//!
//! # Which type to use
//!
//! | you want to | use |
//! |---|---|
//! | serve on stdin and stdout, in a program that an editor, a desktop app or an agent starts | [`serve`] |
//! | serve on stdin and stdout with settings, or serve sockets in a program that does nothing else | [`Server`] |
//! | serve sockets inside a program that has its own runtime and other work | [`Hub`] with a [`Listener`](transport::Listener) |
//! | accept connections yourself, one by one | [`Listener`](transport::Listener) |
//! | call and serve over one connection until it closes | [`Peer`] |
//! | define methods as a trait, and call them with a typed client | [`#[service]`](mod@service) |
//! | call a server that may crash or disconnect, and reconnect or restart it | [`Client`] |
//!
//! [`serve`], [`Server`] and [`Hub`] make a [`Peer`] for each connection and pass it to handlers in
//! their [`Context`]. A [`Client`] makes one [`Peer`] after another.
//!
//! # Key facts
//!
//! - **Handlers** take any type that serde can read: a tuple takes params by position, a struct by
//!   name, [`Box<RawValue>`](serde_json::value::RawValue) takes the raw JSON. The library answers wrong params
//!   with an error that names the param and the expected type. See [`Handler`].
//! - **State** is `&self` in a service and [`State`] in a router. [`Peer::extension`] keeps values of one
//!   connection.
//! - **Errors**: a handler returns `Result<T, E>` with any `E` that converts into a [`Failure`]. A failure
//!   separates the answer from the cause, which goes to the log. [`RpcError`](derive@RpcError) derives the
//!   conversion. A call returns an [`Error`], which says which side failed and whether a retry makes sense. If a
//!   handler panics, the library answers with an error and serves the next message.
//! - **Middleware**: [`Router::guard`], [`Router::observe`], [`Router::wrap`], and layers of `tower`.
//! - **Order**: the [`Profile`] sets the order in which messages are handled: sequentially, concurrently with
//!   notifications as barriers, concurrently, or by key. Start from a profile and change its settings:
//!   `Profile::editor().max_in_flight(64)`.
//! - **Cancelling**: a call that is dropped or times out is cancelled at the remote. A cancelled request drops
//!   its handler at the handler's current `await`.
//! - **Limits**: [`Limits`] bound every queue. A remote that sends more than a peer can take gets the answer
//!   `Server busy`, or has to wait. Every call has a timeout unless you switch it off.
//! - **Logs** are events of the `tracing` crate, with method and id. They never contain params or results.
//! - **Framings**: one message per line, `Content-Length` headers, or a length prefix. The profile sets the
//!   framing. [`proto`] has everything that needs no I/O.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Input from outside must not end the process. Tests may panic.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __macro;
mod call;
mod connection;
mod context;
#[cfg(feature = "macros")]
mod describe;
pub mod error;
mod extensions;
mod handler;
#[cfg(feature = "http")]
pub mod http;
mod log_limit;
mod net;
#[cfg(feature = "openrpc")]
#[cfg_attr(docsrs, doc(cfg(feature = "openrpc")))]
pub mod openrpc;
#[doc(hidden)]
pub mod panic_guard;
#[doc(hidden)]
pub mod params;
mod peer;
mod random;
mod remote;
mod router;
mod server;
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub mod service;
mod stderr_log;
mod stdio;
mod sync;
mod sys;
#[doc(hidden)]
pub mod threads;
pub mod transport;

pub use call::Call;
/// Targets of the spans, and the fault of an answer. For the command.
#[doc(hidden)]
pub use connection::{CONNECTION, REQUEST, UnusableAnswer};
pub use connection::{EventStream, Subscription, TRAFFIC};
pub use context::Context;
/// Derives the conversion of an enum or a struct into JSON-RPC errors, and back.
///
/// The derive implements
///
/// - `From<E> for Failure`, so that handlers return `Result<T, E>`;
/// - [`FromRemote`](error::FromRemote), so that a caller reads the error with [`Error::as_remote`];
/// - [`Display`](std::fmt::Display), which shows the message, and [`std::error::Error`]. With
///   `#[rpc(no_display)]` on the type it leaves both to you, or to another derive.
///
/// Fields become the error's `data`: named fields become an object, a single unnamed field becomes its own JSON
/// value, and several unnamed fields become an array.
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
///     /// The remote receives `Internal error`. The log shows the cause.
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
/// | `code = 1001` | the code: from -32099 to -32001, or any below -32768 or above -32000 |
/// | `message = "..."` | the message. Default: the words of the variant's name |
/// | `internal` | an internal error: its one field is the cause, which only the log shows. The caller cannot read it back |
/// | `transparent` | passes on the error in its one field |
/// | `from` | implements `From` for the one field of an `internal` or `transparent` variant, so that `?` converts it |
///
/// | on the type, `#[rpc(...)]` | |
/// |---|---|
/// | `crate = "path"` | the path of this library. Default: `::duet_rpc` |
/// | `no_display` | does not implement `Display` and `Error` |
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "macros")))]
pub use duet_rpc_macros::RpcError;
/// Makes the compiler explain why a function is not a valid handler.
///
/// Put it on a function that [`Router::method`](crate::Router::method) refuses. The compiler then points at the
/// param that serde cannot read, the result that serde cannot write, the error that does not convert into a
/// [`Failure`], or the value that makes the future not [`Send`].
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
/// Generates a router and a typed client from a trait, or a router from an `impl` block. The module
/// [`service`](mod@service) lists the options.
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
pub use duet_rpc_proto::frame::Framing;
pub use duet_rpc_proto::message::{Id, Params};
pub use duet_rpc_proto::policy::Order;
pub use duet_rpc_proto::session::Priority;
pub use duet_rpc_proto::{Limits, Profile};
pub use error::{
    CloseReason, ConnectionState, Disconnect, Error, ErrorKind, Failure, OrInternal, RemoteError,
};
pub use handler::{FromContext, Handler, Method, State, blocking, quick};
pub use net::{Backoff, Client, ClientBuilder, ClientState, Hub, HubBuilder};
pub use peer::{Broadcast, Peer, PeerBuilder, Peers, Stats};
pub use remote::{Identity, Remote};
pub use router::{Arrival, End, Ended, Next, Observer, Request, Router, SentMessage};
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub use router::{HandlerError, HandlerService};
pub use server::{Server, serve};

/// For the command, which receives signals and watches its parent process before it starts a server.
#[doc(hidden)]
pub use server::{Parent, is_signal_ignored};
/// Calls of the system for the command, which has no `unsafe` of its own.
#[doc(hidden)]
pub use sys::command_support;

/// Traits that check a handler; see [`Handler`]. User code never names them.
#[doc(hidden)]
pub mod checks {
    pub use crate::handler::{
        Argument, Arguments, AsExtractor, AsParams, Asynchronous, AtMostOneParams, Begun, Binding,
        Converts, Fallible, IntoFailure, OfContext, OfMessage, OfRouter, Output, Paced, Parts,
        Plain, Refusal, Returns, Speed, Synchronous, Writable,
    };
}

/// Passes on the code for documents that `#[service(openrpc)]` generates. Without the feature, the code is an error.
#[cfg(feature = "openrpc")]
#[doc(hidden)]
#[macro_export]
macro_rules! __openrpc {
    ($($code:tt)*) => { $($code)* };
}

/// See above.
#[cfg(not(feature = "openrpc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __openrpc {
    ($($code:tt)*) => {
        ::core::compile_error!(
            "`#[service(openrpc)]` needs the feature `openrpc` of `duet-rpc`: write `features = [\"openrpc\"]` \
             behind its version in Cargo.toml"
        );
    };
}

/// Doc tests for the examples in the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
