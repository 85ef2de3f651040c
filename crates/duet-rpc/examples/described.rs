//! A server with a document: every shape of params, errors with data, cancellation and callbacks. Generated clients
//! are tested with it.
//!
//! ```console
//! duet-rpc api gen python --out . -- described
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duet_rpc::{Profile, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node of a tree.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Tree {
    /// Its name.
    node_name: String,
    /// The nodes below it.
    #[serde(default)]
    children: Vec<Tree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
}

/// A figure, told apart by `kind`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
enum Figure {
    /// A circle.
    Circle { radius: f64 },
    /// A box.
    Box { width: f64, height: f64 },
}

/// Reasons to refuse a call.
#[derive(Debug, RpcError)]
enum CallError {
    /// The sum is too large.
    #[rpc(code = 1001, message = "Too large")]
    TooLarge { limit: i64 },
    /// There is no such thing.
    #[rpc(code = 1002, message = "No such thing")]
    NoSuchThing,
}

/// The user, at the client.
#[duet_rpc::service(openrpc, prefix = "user/", rename_all = "camelCase")]
trait User {
    /// Asks the user to choose.
    async fn choose(&self, question: String, choices: Vec<String>) -> Result<String, CallError>;

    /// Tells the user.
    #[rpc(notification)]
    async fn tell(&self, text: String);
}

/// Every kind of method.
///
/// The texts have "quotes", `*/`, """ and \ in them.
#[duet_rpc::service(openrpc, callbacks = User, rename_all = "camelCase", rename_params = "camelCase")]
trait Described {
    /// Adds numbers.
    async fn add(&self, a: i64, #[rpc(default = 1)] b: i64) -> Result<i64, CallError>;

    /// Returns the tree turned upside down.
    async fn reverse(&self, tree: Tree) -> Tree;

    /// Returns the area of each figure.
    async fn areas(&self, figures: BTreeMap<String, Figure>) -> BTreeMap<String, f64>;

    /// Returns a pair, in the other order.
    async fn swap(&self, pair: (i64, String)) -> (String, i64);

    /// Returns its params: one has the name of a keyword, one may be null, one may be left out.
    async fn echo(
        &self,
        class: String,
        none: Option<i64>,
        #[rpc(default)] flag: bool,
    ) -> (String, Option<i64>, bool);

    /// Waits for this many milliseconds.
    async fn sleep(&self, ms: u64) -> u64;

    /// Returns the number of calls of `sleep` that are running.
    async fn running(&self) -> u64;

    /// Always fails.
    async fn fail(&self) -> Result<(), CallError>;

    /// Counts.
    #[rpc(notification)]
    async fn count(&self, by: u64);

    /// Returns the count.
    async fn counted(&self) -> u64;

    /// Tells the user, and lets the user choose.
    async fn ask(&self, question: String, ui: UserClient) -> Result<String, CallError>;
}

#[derive(Default)]
struct Server {
    count: AtomicU64,
    running: AtomicU64,
}

/// Counts running calls, even those that are cancelled.
struct Running<'a>(&'a AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Described for Server {
    async fn add(&self, a: i64, b: i64) -> Result<i64, CallError> {
        let sum = a.checked_add(b).filter(|sum| *sum <= 1_000_000);
        sum.ok_or(CallError::TooLarge { limit: 1_000_000 })
    }

    async fn reverse(&self, mut tree: Tree) -> Tree {
        tree.children.reverse();
        tree
    }

    async fn areas(&self, figures: BTreeMap<String, Figure>) -> BTreeMap<String, f64> {
        let area = |figure: Figure| match figure {
            Figure::Circle { radius } => radius * radius * 3.0,
            Figure::Box { width, height } => width * height,
        };
        figures.into_iter().map(|(name, figure)| (name, area(figure))).collect()
    }

    async fn swap(&self, pair: (i64, String)) -> (String, i64) {
        (pair.1, pair.0)
    }

    async fn echo(
        &self,
        class: String,
        none: Option<i64>,
        flag: bool,
    ) -> (String, Option<i64>, bool) {
        (class, none, flag)
    }

    async fn sleep(&self, ms: u64) -> u64 {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(&self.running);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        ms
    }

    async fn running(&self) -> u64 {
        self.running.load(Ordering::SeqCst)
    }

    async fn fail(&self) -> Result<(), CallError> {
        Err(CallError::NoSuchThing)
    }

    async fn count(&self, by: u64) {
        self.count.fetch_add(by, Ordering::SeqCst);
    }

    async fn counted(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    async fn ask(&self, question: String, ui: UserClient) -> Result<String, CallError> {
        ui.tell(format!("asked: {question}")).await.map_err(to_call_error)?;
        let choices = vec!["yes".to_owned(), "no".to_owned()];
        ui.choose(question, choices).await.map_err(to_call_error)
    }
}

/// The error of the user, if it is one of ours.
fn to_call_error(error: duet_rpc::Error) -> CallError {
    error.as_remote().unwrap_or(CallError::TooLarge { limit: 0 })
}

fn main() -> ExitCode {
    let mut profile = Profile::agent();
    // Emacs and vscode-jsonrpc speak the framing of editors.
    if std::env::args().nth(1).is_some_and(|framing| framing == "lsp") {
        profile.framing = Profile::editor().framing;
    }
    duet_rpc::serve(profile, Server::default().into_router().discover(DescribedClient::openrpc))
}
