//! `Router::discover`: serves a document as `rpc.discover`.

use std::sync::OnceLock;

use serde_json::value::{RawValue, to_raw_value};

use super::Document;
use crate::error::{Failure, OrInternal};
use crate::handler::quick;
use crate::router::Router;

/// The method that OpenRPC defines for the document. JSON-RPC reserves the prefix for such extensions.
const DISCOVER: &str = "rpc.discover";

impl Router {
    /// Serves an OpenRPC document as the method `rpc.discover`. The first call makes the document; later calls get a
    /// copy of it.
    ///
    /// ```
    /// use duet_rpc::{Error, Peer, transport::memory};
    ///
    /// #[duet_rpc::service(openrpc)]
    /// trait Math {
    ///     async fn add(&self, a: i64, b: i64) -> i64;
    /// }
    ///
    /// struct Calculator;
    ///
    /// impl Math for Calculator {
    ///     async fn add(&self, a: i64, b: i64) -> i64 { a + b }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// let router = Calculator.into_router().discover(MathClient::openrpc);
    ///
    /// let (here, there) = memory::pair();
    /// let _server = Peer::builder(there).router(router).spawn();
    /// let client = Peer::builder(here).spawn();
    /// let document: serde_json::Value = client.call("rpc.discover", ()).await?;
    /// assert_eq!(document["methods"][0]["name"], "add");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A closure sets the title and version, or joins documents:
    /// `discover(|| MathClient::openrpc().version("2.1").merge(ClockClient::openrpc()))`. The document does not list
    /// `rpc.discover` itself. A second document replaces the first.
    #[cfg_attr(docsrs, doc(cfg(feature = "openrpc")))]
    #[must_use]
    pub fn discover(self, document: impl Fn() -> Document + Send + Sync + 'static) -> Self {
        // Making it takes far longer than sending it, and any client may ask again.
        let made: OnceLock<Box<RawValue>> = OnceLock::new();
        let handler = move || -> Result<Box<RawValue>, Failure> {
            if let Some(made) = made.get() {
                return Ok(made.clone());
            }
            let document = to_raw_value(&document()).or_internal()?;
            Ok(made.get_or_init(|| document).clone())
        };
        self.method(DISCOVER, quick(handler))
    }
}
