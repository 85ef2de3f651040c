//! A service with every feature. Its document is the file `full.json`, which the tests of generated clients read, too.
//! After a change, `UPDATE=1 cargo test -p duet-rpc --all-features --test service openrpc` writes the file.

use std::collections::BTreeMap;
use std::path::Path;

use duet_rpc::{Context, Error, Failure, RpcError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A folder, with the folders in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Folder {
    /// Its name, without a slash.
    pub(super) folder_name: String,
    /// The folders in it.
    #[serde(default)]
    pub(super) folders: Vec<Folder>,
    /// The folder that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<Box<Folder>>,
}

/// A file or a link, told apart by `kind`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Entry {
    /// A file.
    PlainFile { name: String, size: u64 },
    /// A link to another entry.
    Link { name: String, target: String },
    /// Somebody else's lock.
    Lock,
}

/// The order of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum SortOrder {
    /// By name, from A to Z.
    #[default]
    ByName,
    /// The largest first.
    BySize,
}

/// A place in a text.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(super) struct Position(pub(super) u32, pub(super) u32);

/// A query.
///
/// Without words it finds everything.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct Query {
    /// The words to look for.
    #[schemars(example = ["draft", "2026"])]
    pub(super) words: Vec<String>,
    /// Only this many entries.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) limit: Option<u32>,
    /// Members of any name.
    #[serde(default)]
    pub(super) labels: BTreeMap<String, Value>,
}

/// Reasons to refuse a call.
#[derive(Debug, RpcError)]
pub(super) enum StoreError {
    /// There is no such file.
    ///
    /// It may have been removed a moment ago.
    #[rpc(code = 1001, message = "File not found")]
    NotFound { path: String, nearest: Option<Folder> },
    /// The store takes no changes.
    #[rpc(code = 1002)]
    ReadOnly,
    #[rpc(code = -32050, message = "Quota exceeded")]
    Quota(u64),
    #[rpc(code = 1004, message = "Edit conflict")]
    Conflict(Position, String),
    #[rpc(transparent)]
    Locked(Locked),
    #[rpc(internal, from)]
    Disk(std::io::Error),
}

/// Another user edits the file.
#[derive(Debug, RpcError)]
#[rpc(code = 1005)]
pub(super) struct Locked {
    pub(super) user: String,
}

/// The window of the user, which the client serves.
#[duet_rpc::service(openrpc, rename_all = "camelCase", prefix = "ui/")]
pub(super) trait Window {
    /// Asks the user.
    async fn ask_user(
        &self,
        question: String,
        choices: Option<Vec<String>>,
    ) -> Result<Option<String>, Locked>;

    /// Shows the progress of a task.
    #[rpc(notification)]
    async fn progress(
        &self,
        #[rpc(name = "taskName")] task: String,
        percent: f64,
        folder: Option<Folder>,
    );
}

/// Files over JSON-RPC.
///
/// This service exists to have *every* feature of a document.
#[duet_rpc::service(
    openrpc,
    callbacks = Window,
    prefix = "files/",
    rename_all = "camelCase",
    rename_params = "camelCase"
)]
pub(super) trait Files {
    /// Reads a file
    /// as text.
    ///
    /// Lines end with `\n`.
    ///
    /// The file may have "quotes", `*/` and \ in it.
    #[rpc(idempotent, since = "1.2", aliases("cat", "files/readText"))]
    async fn read(
        &self,
        /// The path from the root.
        ///
        /// Without a leading slash.
        file_path: String,
        /// The first line, from 0.
        #[rpc(default = 0)]
        first_line: u32,
        /// The number of lines; all if there is none.
        line_count: Option<u32>,
    ) -> Result<String, StoreError>;

    /// Lists a folder.
    fn list(
        &self,
        folder: Folder,
        #[rpc(default)] order: SortOrder,
        #[rpc(default = vec![Position(0, 0)])] marks: Vec<Position>,
    ) -> Result<Vec<Entry>, StoreError>;

    /// Finds files.
    async fn find(&self, #[rpc(whole)] query: Query) -> Vec<Folder>;

    /// Returns the params unchanged.
    async fn echo(&self, #[rpc(whole)] any: Value) -> Value;

    /// Moves a file, and asks before it replaces another one.
    #[rpc(positional)]
    async fn rename(
        &self,
        from: String,
        to: String,
        force: Option<bool>,
        ui: WindowClient,
    ) -> Result<(), Error>;

    /// An optional param before a required one.
    async fn touch(
        &self,
        time: Option<f64>,
        #[rpc(name = "file-path")] path: String,
        cx: Context,
    ) -> bool;

    /// Writes a line to the log of the server.
    #[rpc(notification)]
    async fn log(&self, line: String);

    /// Removes a file.
    #[rpc(deprecated = "use `files/rename` to move it to the bin", name = "files/rm")]
    async fn remove(&self, file_path: String) -> Result<(), Failure>;

    /// Counts the bytes of files by their endings.
    async fn sizes(&self) -> BTreeMap<String, u64>;

    async fn undocumented(&self) -> (Position, Option<Entry>);

    #[rpc(skip)]
    fn not_served(&self) {}
}

/// The file, which other tests read.
const GOLDEN: &str = "tests/service/openrpc/full.json";

#[test]
fn d1_document_of_every_feature_is_the_file() {
    let document = FilesClient::openrpc().title("Files").version("1.2.0");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{document:#}\n")).expect("the file is written");
    }
    let text = std::fs::read_to_string(&path).expect("the file is there");
    let golden: Value = serde_json::from_str(&text).expect("the file is JSON");
    assert_eq!(document.to_value(), golden, "see the top of this file");
}
