//! Services: methods defined as a trait, which gives the server's router and a typed client.
//!
//! Put the attribute [`#[service]`](macro@crate::service) on a trait:
//!
//! ```
//! use duet_rpc::{Error, Peer, Profile, RpcError, Router, transport::memory};
//!
//! /// Arithmetic over a pipe.
//! #[duet_rpc::service]
//! pub trait Math {
//!     /// Adds two numbers.
//!     async fn add(&self, a: i64, #[rpc(default = 1)] b: i64) -> Result<i64, MathError>;
//!
//!     /// The number of calls so far.
//!     fn count(&self) -> u64;
//!
//!     /// Writes a line to the server's log.
//!     #[rpc(notification)]
//!     async fn log(&self, line: String);
//! }
//!
//! #[derive(Debug, RpcError)]
//! pub enum MathError {
//!     #[rpc(code = 1001, message = "Overflow")]
//!     Overflow { at: i64 },
//! }
//!
//! struct Calculator;
//!
//! impl Math for Calculator {
//!     async fn add(&self, a: i64, b: i64) -> Result<i64, MathError> {
//!         a.checked_add(b).ok_or(MathError::Overflow { at: a })
//!     }
//!     fn count(&self) -> u64 { 7 }
//!     async fn log(&self, line: String) { eprintln!("{line}") }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let (here, there) = memory::pair();
//! let server = Peer::builder(there).profile(Profile::agent()).router(Calculator.into_router()).spawn();
//! let math = MathClient::new(Peer::builder(here).profile(Profile::agent()).router(Router::new()).spawn());
//!
//! assert_eq!(math.add(1, 2).await?, 3);
//! math.log("added".to_owned()).await?;
//! let error = math.add(i64::MAX, 1).await.expect_err("it is too large");
//! let Some(MathError::Overflow { at }) = error.as_remote() else { panic!("{error}") };
//! assert_eq!(at, i64::MAX);
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! # Traits
//!
//! The macro turns each `async fn` of the trait into a function that returns a [`Send`] future. Implementations
//! write plain `async fn`. A `fn` stays as it is. The trait gets the supertraits `Send + Sync + 'static`. The macro
//! also generates
//!
//! - `fn into_router(self) -> Router`, which serves the methods, with the service in an `Arc`;
//! - `NAMEClient`, the typed client. It implements [`Clone`], and `new` makes it from a [`Peer`] or a [`Client`].
//!   Its methods return a [`Call`], or for a notification a future of `Result<(), Error>`. A client made from the
//!   [`Peers`] of a server sends each notification to all of them, and its calls fail with
//!   [`OneWay`](ErrorKind::OneWay);
//! - `NAMEClient::METHODS`, a list of [`MethodInfo`].
//!
//! A method returns a plain value, or `Result<T, E>` with an `E` that converts into a [`Failure`](crate::Failure).
//! The macro recognises a `Result` by its name, so an alias must also be called `Result`. A method with a body is
//! a provided method: implementations may leave it out.
//!
//! # Params
//!
//! The server takes params by name and by position. The client sends params by name, or by position with the
//! option `positional`. A param of type `Option<T>` is optional: the client leaves out `None`, and writes `null` in
//! the middle of positional params. An `Option<Option<T>>` is refused, because `null` equals a param that is left out.
//! An argument named `params` needs `whole` or `name = "params"`. Doc comments of params go into their [`ParamInfo`].
//!
//! An argument of type [`Context`](crate::Context) is not a param: a method may take it in any position. With the
//! option `callbacks`, a method may also take the client of the caller's trait, which calls back over the same
//! connection. `#[rpc(context)]` marks an argument of any other type that implements
//! [`FromContext`](crate::FromContext). Without the mark, such a type does not compile: the caller would
//! send it, and could forge it.
//!
//! ```
//! # use duet_rpc::Context;
//! #[duet_rpc::service]
//! trait EditorUi {
//!     async fn ask(&self, question: String) -> Option<String>;
//! }
//!
//! #[duet_rpc::service(callbacks = EditorUi)]
//! trait Editor {
//!     async fn save(&self, ui: EditorUiClient, path: String, cx: Context) -> bool;
//! }
//! ```
//!
//! # `impl` blocks
//!
//! If you need no client, put the attribute on an `impl` block. It then generates `into_router` and `METHODS`. The
//! router serves each `pub` method, and each private method with an `#[rpc]` attribute. `#[rpc(skip)]` excludes a
//! method. Functions without `self`, such as constructors, are never served.
//!
//! ```
//! struct Clock { offset: i64 }
//!
//! #[duet_rpc::service(rename_all = "camelCase")]
//! impl Clock {
//!     pub fn new() -> Self { Clock { offset: 0 } }
//!     pub async fn local_offset(&self) -> i64 { self.offset }
//!     #[rpc(skip)]
//!     pub fn reset(&self) {}
//! }
//!
//! assert_eq!(Clock::new().into_router().methods().collect::<Vec<_>>(), ["localOffset"]);
//! ```
//!
//! # Schemas
//!
//! `METHODS` has names and doc comments. With `schema = FUNCTION` it also has the types: the generic function
//! returns the JSON schema of a type, and each [`MethodInfo`] and [`ParamInfo`] has the function for its own type.
//! A service without the option requires no schema of its types. You choose the trait bound of the function. For
//! schemas of the crate `schemars`, see [documents](#documents).
//!
//! ```
//! use serde_json::{Value, json};
//!
//! trait Schema {
//!     fn schema() -> Value;
//! }
//!
//! impl Schema for String {
//!     fn schema() -> Value { json!({"type": "string"}) }
//! }
//!
//! impl<T: Schema> Schema for Vec<T> {
//!     fn schema() -> Value { json!({"type": "array", "items": T::schema()}) }
//! }
//!
//! fn schema_of<T: Schema>() -> Value { T::schema() }
//!
//! #[duet_rpc::service(schema = schema_of)]
//! trait Dictionary {
//!     async fn synonyms(&self, word: String) -> Vec<String>;
//! }
//!
//! let synonyms = &DictionaryClient::METHODS[0];
//! let word = synonyms.params[0].schema.map(|schema| schema());
//! assert_eq!(word, Some(json!({"type": "string"})));
//! let result = synonyms.result_schema.map(|schema| schema());
//! assert_eq!(result, Some(json!({"type": "array", "items": {"type": "string"}})));
//! ```
//!
//! # Documents
//!
//! With the option `openrpc`, the client of a trait, or the type of an `impl` block, has a function `openrpc()`. It
//! returns an OpenRPC document with types, defaults, errors and callbacks. The module `openrpc` (feature `openrpc`)
//! describes it.
//!
//! # Options
//!
//! | on the trait or `impl` | |
//! |---|---|
//! | `callbacks = EditorUi` | methods may take an `EditorUiClient`, which calls the caller |
//! | `crate = "path"` | the path of this library. Default: `::duet_rpc` |
//! | `openrpc` | generates [`openrpc()`](#documents), which returns the OpenRPC document (feature `openrpc`) |
//! | `positional` | the client sends params by position (traits only) |
//! | `prefix = "db/"` | a prefix for the name of each method |
//! | `rename_all = "camelCase"` | style of method names: `camelCase`, `snake_case`, `kebab-case` or `PascalCase` |
//! | `rename_params = "camelCase"` | style of param names |
//! | `schema = schema_of` | the function that returns the [schemas](#schemas) of params and results |
//!
//! | on a method, `#[rpc(...)]` | |
//! |---|---|
//! | `aliases("plus", "sum")` | further names on the wire, without prefix and style |
//! | `blocking` | the handler may block its thread; see [`blocking`](crate::blocking) |
//! | `deprecated = "use add"` | goes into [`MethodInfo`]; the compiler warns where the client's method is used |
//! | `idempotent` | goes into [`MethodInfo`]: calling the method twice does no harm |
//! | `name = "$/add"` | the whole name on the wire, without prefix and style |
//! | `notification` | the client sends a notification; the method returns nothing, or `Result<(), E>`, whose error the log shows |
//! | `positional` | the client sends the params by position (traits only) |
//! | `quick` | the handler never blocks its thread for long; see [`quick`](crate::quick) |
//! | `shutdown` | the arrival of the message closes the connection; see [`Router::shutdown_method`](crate::Router::shutdown_method) |
//! | `since = "1.2"` | goes into [`MethodInfo`] |
//! | `skip` | the router does not serve the method |
//!
//! | on a param, `#[rpc(...)]` | |
//! |---|---|
//! | `context` | not a param: the library makes the argument from the [`Context`](crate::Context) |
//! | `default` | an optional param; its default is `Default::default()` |
//! | `default = EXPR` | an optional param with this default |
//! | `name = "textDocument"` | the name on the wire |
//! | `whole` | takes the whole params object or array; the method has no other param |
//!
//! A `#[cfg]` on a method applies to its handler, its client method and its description. The compiler reports each
//! mistake at its position, with a suggestion.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::net::Client;
use crate::peer::{Peer, Peers};

/// The target of a typed client: one connection, a client that reconnects, or all connections of a server.
#[doc(hidden)]
#[derive(Clone, Debug)]
#[must_use = "a connection is closed when the last handle is dropped"]
pub struct CallTarget(Destination);

#[derive(Clone, Debug)]
enum Destination {
    Peer(Peer),
    Client(Client),
    Peers(Peers),
}

impl CallTarget {
    /// Calls a method; see [`Peer::call`] and [`Client::call`].
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> Call<T> {
        match &self.0 {
            Destination::Peer(peer) => peer.call(method, params),
            Destination::Client(client) => client.call(method, params),
            Destination::Peers(_) => {
                let cause = "only notifications can go to all peers, a call needs one connection";
                Call::refused(None, Error::new(ErrorKind::OneWay).caused_by(cause))
            }
        }
    }

    /// Sends a notification; see [`Peer::notify`], [`Client::notify`] and [`Peers::broadcast`].
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        match &self.0 {
            Destination::Peer(peer) => peer.notify(method, params).await,
            Destination::Client(client) => client.notify(method, params).await,
            Destination::Peers(peers) => peers.broadcast(method, params).map(|_| ()),
        }
    }
}

impl From<Peer> for CallTarget {
    fn from(peer: Peer) -> Self {
        CallTarget(Destination::Peer(peer))
    }
}

impl From<&Peer> for CallTarget {
    fn from(peer: &Peer) -> Self {
        peer.clone().into()
    }
}

impl From<Client> for CallTarget {
    fn from(client: Client) -> Self {
        CallTarget(Destination::Client(client))
    }
}

impl From<&Client> for CallTarget {
    fn from(client: &Client) -> Self {
        client.clone().into()
    }
}

impl From<Peers> for CallTarget {
    fn from(peers: Peers) -> Self {
        CallTarget(Destination::Peers(peers))
    }
}

impl From<&Peers> for CallTarget {
    fn from(peers: &Peers) -> Self {
        peers.clone().into()
    }
}

/// The description of a method of a service.
///
/// ```
/// #[duet_rpc::service(prefix = "db/")]
/// trait Store {
///     /// Reads a value.
///     ///
///     /// There is none for a key that was never written.
///     #[rpc(idempotent, aliases("get"))]
///     async fn read(&self, key: String, default: Option<String>) -> Option<String>;
/// }
///
/// let read = &StoreClient::METHODS[0];
/// assert_eq!((read.name, read.aliases), ("db/read", &["get"][..]));
/// assert_eq!(read.summary(), "Reads a value.");
/// assert!(read.is_idempotent && read.params[0].is_required && !read.params[1].is_required);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MethodInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// Further names on the wire.
    pub aliases: &'static [&'static str],
    /// The doc comment.
    pub docs: &'static str,
    /// The params, in order.
    pub params: &'static [ParamInfo],
    /// Returns the JSON schema of the result. `None` without the option [`schema`](self#schemas), and for a
    /// notification.
    pub result_schema: Option<fn() -> Value>,
    /// The form in which the client sends the params.
    pub params_form: ParamsForm,
    /// `true` if the client sends the method as a notification.
    pub is_notification: bool,
    /// `true` if calling the method twice does no harm.
    pub is_idempotent: bool,
    /// The reason for the deprecation, and the replacement.
    pub deprecated: Option<&'static str>,
    /// The version that added the method.
    pub since: Option<&'static str>,
}

impl MethodInfo {
    /// The first paragraph of the doc comment; see the example of the [type](MethodInfo).
    pub fn summary(&self) -> &'static str {
        self.docs.split("\n\n").next().unwrap_or_default()
    }
}

impl fmt::Display for MethodInfo {
    /// Shows the method as `add(a, b?)`.
    ///
    /// ```
    /// #[duet_rpc::service]
    /// trait Math {
    ///     async fn add(&self, a: i64, b: Option<i64>) -> i64;
    /// }
    ///
    /// assert_eq!(MathClient::METHODS[0].to_string(), "add(a, b?)");
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (place, param) in self.params.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let mark = if param.is_required { "" } else { "?" };
            write!(f, "{comma}{}{mark}", param.name)?;
        }
        f.write_str(")")
    }
}

/// The description of a param of a method.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParamInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// The doc comment.
    pub docs: &'static str,
    /// `true` if the caller must send the param.
    pub is_required: bool,
    /// Returns the JSON schema of the param. `None` without the option [`schema`](self#schemas).
    pub schema: Option<fn() -> Value>,
}

/// The form in which a client sends params. A server takes params by name and by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamsForm {
    /// An object with the names of the params.
    Named,
    /// An array in the order of the params.
    Positional,
    /// The value of the one param, which must be an object or an array.
    Whole,
}
