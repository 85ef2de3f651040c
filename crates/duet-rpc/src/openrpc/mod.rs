//! OpenRPC documents of services, from their types: one document for clients in any language.
//!
//! Write `openrpc` in the attribute of a [service](mod@crate::service), and derive `JsonSchema` of the crate `schemars`
//! for its types:
//!
//! ```
//! use duet_rpc::RpcError;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize, JsonSchema)]
//! struct Point { x: f64, y: f64 }
//!
//! #[derive(Debug, RpcError)]
//! enum PlotError {
//!     #[rpc(code = 1001, message = "Outside of the page")]
//!     Outside { width: f64 },
//! }
//!
//! /// Draws on a page.
//! #[duet_rpc::service(openrpc)]
//! trait Plotter {
//!     /// Draws a line to a point.
//!     async fn line(&self, to: Point, #[rpc(default = 1)] width: u32) -> Result<(), PlotError>;
//! }
//!
//! let document = PlotterClient::openrpc().version("2.1.0").to_value();
//! assert_eq!(document["info"]["title"], "Plotter");
//! let line = &document["methods"][0];
//! assert_eq!(line["summary"], "Draws a line to a point.");
//! assert_eq!(line["params"][0]["schema"]["$ref"], "#/components/schemas/Point");
//! assert_eq!(line["params"][1]["schema"]["default"], 1);
//! assert_eq!(line["errors"][0]["code"], 1001);
//! ```
//!
//! The document needs no instance of the service. [`Router::discover`](crate::Router::discover) serves it as
//! `rpc.discover`. `println!("{:#}", PlotterClient::openrpc())` prints it.
//!
//! # Contents
//!
//! | in the source | in the document |
//! |---|---|
//! | name of the trait, its doc comment | `info.title`, `info.description` |
//! | version of the crate that has the trait | `info.version` |
//! | doc comment of a method or a param | `summary` (its first paragraph), `description` (the rest) |
//! | params and result | `params`, `result`; named types are in `components.schemas` |
//! | `Option<T>`, `default` | `"required": false`, and `default` in the schema |
//! | `notification` | a method without `result` |
//! | `positional` | `"paramStructure": "by-position"`; otherwise a caller may send names or positions |
//! | `whole` | `x-params`, the schema of the params; the members of a struct are also in `params` |
//! | `deprecated`, `since`, `idempotent`, `aliases` | `deprecated` and `x-deprecated`, `x-since`, `x-idempotent`, `x-aliases` |
//! | errors of the method | `errors`, and `x-errors` with the name, text and data schema of each code |
//! | `callbacks = Ui` | `x-client-methods`: the methods that the client serves |
//!
//! Schemas are JSON Schema draft 7. A type can have two schemas, because serde may read more than it writes: a member
//! with `#[serde(default)]` is optional in params, and present in results. Then the schema of the values that the server
//! sends is in `components.schemas` under the name of the type and `Output`. An `Option` alone makes no second schema.
//!
//! # Errors
//!
//! [`#[derive(RpcError)]`](derive@crate::RpcError) describes an error type: code and message, and the schema of its
//! fields. Internal errors are not in the document. [`Failure`](crate::Failure) and other types without fixed codes have
//! no list. Implement [`DescribeErrors`] for error types that convert into a `Failure` by hand.

mod discover;
mod examples;
mod methods;
mod schemas;

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

pub use crate::describe::{DescribeErrors, ErrorInfo, HasSchema};
#[doc(hidden)]
pub use methods::{MethodTypes, Methods, SentBy};
#[doc(hidden)]
pub use schemas::{errors, schema};

/// The version of the OpenRPC specification.
const OPENRPC: &str = "1.3.2";

/// An OpenRPC document of one or several services. See the [module](self) for its contents.
///
/// `Display` writes it as JSON, and `{:#}` with line breaks.
///
/// ```
/// #[duet_rpc::service(openrpc)]
/// trait Math {
///     async fn add(&self, a: i64, b: i64) -> i64;
/// }
///
/// #[duet_rpc::service(openrpc)]
/// trait Clock {
///     async fn now(&self) -> u64;
/// }
///
/// let document = MathClient::openrpc()
///     .title("Tools")
///     .version("2.1.0")
///     .nest("clock/", ClockClient::openrpc())
///     .edit(|document| document["info"]["license"] = serde_json::json!({"name": "MIT"}));
/// let document = document.to_value();
/// assert_eq!(document["info"]["version"], "2.1.0");
/// assert_eq!(document["methods"][1]["name"], "clock/now");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Document {
    title: String,
    version: String,
    description: String,
    services: Vec<Described>,
    edits: Vec<Arc<Edit>>,
}

type Edit = dyn Fn(&mut Value) + Send + Sync;

/// A service in a document.
#[derive(Clone)]
struct Described {
    /// Comes before the name of each method.
    prefix: String,
    describe: fn(&mut Methods<'_>),
}

impl Document {
    /// Called by generated code.
    #[doc(hidden)]
    pub fn of_service(
        title: &str,
        version: Option<&str>,
        description: &str,
        describe: fn(&mut Methods<'_>),
    ) -> Self {
        Document {
            title: title.to_owned(),
            version: version.unwrap_or("0.0.0").to_owned(),
            description: description.to_owned(),
            services: vec![Described { prefix: String::new(), describe }],
            edits: Vec::new(),
        }
    }

    /// Sets the title. Default: the name of the trait or type.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the version of the interface. Default: the version of the crate that contains the service.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the description. Default: the doc comment of the trait or `impl` block.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds the methods of another document, as [`Router::merge`](crate::Router::merge) does. Title, version,
    /// description and edits of the other document do not count. Of two methods with the same name, the first counts.
    pub fn merge(self, other: Document) -> Self {
        self.nest("", other)
    }

    /// Adds the methods of another document with a prefix before each name, as [`Router::nest`](crate::Router::nest)
    /// does. See the example of the [type](Document).
    pub fn nest(mut self, prefix: &str, other: Document) -> Self {
        let others = other.services.into_iter();
        self.services
            .extend(others.map(|it| Described { prefix: format!("{prefix}{}", it.prefix), ..it }));
        self
    }

    /// Changes the finished document, for fields that a service does not have: servers, a license. Edits run in
    /// order, whenever the document is made.
    pub fn edit(mut self, edit: impl Fn(&mut Value) + Send + Sync + 'static) -> Self {
        self.edits.push(Arc::new(edit));
        self
    }

    /// Makes the document.
    pub fn to_value(&self) -> Value {
        let mut written = methods::MethodWriter::default();
        for service in &self.services {
            written.service(service, SentBy::Client);
        }
        let mut document = json!({
            "openrpc": OPENRPC,
            "info": {"title": self.title, "version": self.version},
        });
        if !self.description.is_empty() {
            document["info"]["description"] = json!(self.description);
        }
        written.finish(&mut document);
        for edit in &self.edits {
            edit(&mut document);
        }
        document
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_value(), f)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Document { title, version, .. } = self;
        f.debug_struct("Document")
            .field("title", title)
            .field("version", version)
            .finish_non_exhaustive()
    }
}

/// The client of a trait that has a document.
#[diagnostic::on_unimplemented(
    message = "the trait of `{Self}` has no document, which the document of this service includes as its callbacks",
    label = "no document of the trait of `{Self}`",
    note = "write `#[service(openrpc)]` on the trait of the callbacks"
)]
#[doc(hidden)]
pub trait HasDocument {
    fn document() -> Document;
}
