//! Services: methods as a trait, with a router for the server and a typed client from one definition.
//!
//! The attribute [`#[service]`](macro@crate::service) goes on a trait:
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
//! # A trait
//!
//! Each `async fn` becomes a function that returns a future which is [`Send`]; implementations write plain
//! `async fn`. A `fn` is called as it is. The trait gets the supertraits `Send + Sync + 'static`, and besides
//!
//! - `fn into_router(self) -> Router`, which serves the methods, with the service in an `Arc`;
//! - `NAMEClient`, the typed client: [`Clone`], made with `new` from a [`Peer`] or a [`Client`]. Its methods
//!   return a [`Call`], and for a notification a future of `Result<(), Error>`. Made from the [`Peers`] of a server,
//!   it sends each notification to all of them, and its calls fail with [`OneWay`](ErrorKind::OneWay);
//! - `NAMEClient::METHODS`, a list of [`MethodInfo`].
//!
//! A method returns `Result<T, E>` with an `E` that converts into a [`Failure`](crate::Failure), or a plain
//! value. The name `Result` decides, so an alias has to be called that, too. Methods with a body are provided
//! methods, which implementations need not write.
//!
//! # Params
//!
//! A server takes params by name and by position. The client sends them by name, or by position where
//! `positional` says so. A param of type `Option<T>` may be left out, and the client leaves out `None`; in the
//! middle of positional params it writes `null`. An `Option<Option<T>>` is refused, because `null` and a param that is
//! left out are the same. An argument named `params` says which it is: `whole`, or `name = "params"`. Doc comments of
//! params go into their [`ParamInfo`].
//!
//! Arguments of the type [`Context`](crate::Context) are not params: they are there for the asking, in any position. So is the
//! client of the caller's methods, where `callbacks` names their trait; it calls back over the same
//! connection. `#[rpc(context)]` marks an argument of any other type that implements [`FromContext`](crate::FromContext).
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
//! # An `impl` block
//!
//! Where no client is needed, the attribute goes on the block itself and makes `into_router` and `METHODS`. It
//! serves each `pub` method; a private one too if it has an `#[rpc]`. `#[rpc(skip)]` keeps a method private to
//! the program. Functions without `self`, such as constructors, are never served.
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
//! `METHODS` has names and doc comments. With `schema = FUNCTION` it has the types, too: the generic function
//! makes the JSON schema of a type, and each [`MethodInfo`] and [`ParamInfo`] has the function for its own type.
//! A service without the option asks nothing of its types. The trait that the function asks for is yours to
//! choose; with the crate `schemars` the function is
//! `fn schema_of<T: JsonSchema>() -> Value { schema_for!(T).into() }`.
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
//! # All options
//!
//! | on the trait or `impl` | |
//! |---|---|
//! | `callbacks = EditorUi` | handlers may ask for an `EditorUiClient`, which calls the caller |
//! | `crate = "path"` | the path of this library, if it is not `::duet_rpc` |
//! | `positional` | the client sends params by position (traits alone) |
//! | `prefix = "db/"` | stands before the name of each method |
//! | `rename_all = "camelCase"` | style of method names; also `snake_case`, `kebab-case`, `PascalCase` |
//! | `rename_params = "camelCase"` | style of the names of params |
//! | `schema = schema_of` | the function that makes the [schemas](#schemas) of params and results |
//!
//! | on a method, `#[rpc(...)]` | |
//! |---|---|
//! | `aliases("plus", "sum")` | further names, as they are on the wire |
//! | `blocking` | the handler may hold its thread; see [`blocking`](crate::blocking) |
//! | `deprecated = "use add"` | described, and a warning where the client's method is used |
//! | `idempotent` | described: calling it twice does no harm |
//! | `name = "$/add"` | the whole name on the wire, without prefix and style |
//! | `notification` | the client sends a notification; the method returns nothing, or `Result<(), E>` for the log |
//! | `positional` | the client sends the params by position (traits alone) |
//! | `quick` | the handler never holds its thread for long; see [`quick`](crate::quick) |
//! | `shutdown` | its arrival closes the connection; see [`Router::shutdown_method`](crate::Router::shutdown_method) |
//! | `since = "1.2"` | described |
//! | `skip` | not served |
//!
//! | on a param, `#[rpc(...)]` | |
//! |---|---|
//! | `context` | not a param: made of the [`Context`](crate::Context) |
//! | `default` | may be left out; then it is the default of its type |
//! | `default = EXPR` | may be left out; then it is this value |
//! | `name = "textDocument"` | the name on the wire |
//! | `whole` | takes the params as they are; it has to be the only param |
//!
//! A `#[cfg]` on a method holds for its handler, its client and its description. A mistake in any of this is
//! reported where it stands, with what to write instead.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::net::Client;
use crate::peer::{Peer, Peers};

/// The remote of a typed client: one connection, a client that makes its connection anew, or all connections of
/// a server.
#[doc(hidden)]
#[derive(Clone, Debug)]
#[must_use = "a connection is closed when the last handle is dropped"]
pub struct CallTarget(Handle);

#[derive(Clone, Debug)]
enum Handle {
    Peer(Peer),
    Client(Client),
    Peers(Peers),
}

impl CallTarget {
    /// Calls a method, as [`Peer::call`] and [`Client::call`] do.
    pub fn call<T>(&self, method: &str, params: impl Serialize) -> Call<T> {
        match &self.0 {
            Handle::Peer(peer) => peer.call(method, params),
            Handle::Client(client) => client.call(method, params),
            Handle::Peers(_) => {
                let cause = "a call goes to one connection, and notifications alone to all";
                Call::refused(None, Error::new(ErrorKind::OneWay).caused_by(cause))
            }
        }
    }

    /// Sends a notification, as [`Peer::notify`] and [`Client::notify`] do, or as [`Peers::broadcast`] does.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        match &self.0 {
            Handle::Peer(peer) => peer.notify(method, params).await,
            Handle::Client(client) => client.notify(method, params).await,
            Handle::Peers(peers) => peers.broadcast(method, params).map(|_| ()),
        }
    }
}

impl From<Peer> for CallTarget {
    fn from(peer: Peer) -> Self {
        CallTarget(Handle::Peer(peer))
    }
}

impl From<&Peer> for CallTarget {
    fn from(peer: &Peer) -> Self {
        peer.clone().into()
    }
}

impl From<Client> for CallTarget {
    fn from(client: Client) -> Self {
        CallTarget(Handle::Client(client))
    }
}

impl From<&Client> for CallTarget {
    fn from(client: &Client) -> Self {
        client.clone().into()
    }
}

impl From<Peers> for CallTarget {
    fn from(peers: Peers) -> Self {
        CallTarget(Handle::Peers(peers))
    }
}

impl From<&Peers> for CallTarget {
    fn from(peers: &Peers) -> Self {
        peers.clone().into()
    }
}

/// The description of a method.
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
    /// Makes the JSON schema of the result. There is one if the service has the option
    /// [`schema`](self#schemas) and this is not a notification.
    pub result_schema: Option<fn() -> Value>,
    /// The form in which the client sends the params.
    pub params_form: ParamsForm,
    /// `true` if the client sends a notification.
    pub is_notification: bool,
    /// `true` if calling it twice does no harm.
    pub is_idempotent: bool,
    /// The reason why it is deprecated, and its replacement.
    pub deprecated: Option<&'static str>,
    /// The version that it came with.
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

/// The description of a param.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ParamInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// The doc comment.
    pub docs: &'static str,
    /// `true` if it is required.
    pub is_required: bool,
    /// Makes its JSON schema. There is one if the service has the option [`schema`](self#schemas).
    pub schema: Option<fn() -> Value>,
}

/// The form in which a client sends params. A server takes them by name and by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamsForm {
    /// As an object.
    Named,
    /// As an array.
    Positional,
    /// The one param is the params themselves.
    Whole,
}
