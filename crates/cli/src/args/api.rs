//! The options of `api`.

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use duet_rpc_api::Language;

use super::{ReportFormat, ServerArgs};

/// Show, check and compare the API of a server, and generate clients for it
///
/// The API is an OpenRPC document: a file, or the answer of a server to `rpc.discover`. Any server's
/// document will do.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) command: ApiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    Show(ApiShowArgs),
    Gen(ApiGenArgs),
    Check(ApiCheckArgs),
    Diff(ApiDiffArgs),
}

const EXAMPLES: &str = "\
Examples:
  duet-rpc api show                                   the API of this program's own daemon
  duet-rpc api show openrpc.json get_pet
  duet-rpc api show --html api.html --connect ws://127.0.0.1:4000/
  duet-rpc api gen python --out src -- some-server
  duet-rpc api check released.json -- some-server     fails on a breaking change
  duet-rpc api diff old.json new.json >> CHANGELOG.md

Exit codes: 0 success, 1 a breaking change (check), or a document that cannot be used, 3 the server
answered with an error, 4 no answer in time, 5 the server could not be started or reached, 6 it
ended without an answer or sent one that cannot be used.";

/// Print the API of a server as a page
///
/// Methods with their params, results, errors and examples, then the types.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiShowArgs {
    /// OpenRPC document, `-` for stdin [default: ask the server, or this program's own daemon]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only this method; with a server instead of a file, this is the first word
    pub(crate) method: Option<String>,
    /// Write the page as HTML to this file; `-` writes to stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the document as the server sent it
    #[arg(long, conflicts_with_all = ["html", "method"])]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Generate a client for an API
///
/// One file with a typed client: methods, types, errors and the methods that the server calls. The same
/// document gives the same file. A file that this command did not write is not replaced.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiGenArgs {
    /// Language of the client
    #[arg(value_parser = language())]
    pub(crate) language: Language,
    /// OpenRPC document, `-` for stdin [default: ask the server, or this program's own daemon]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Folder of the generated file; `-` writes it to stdout
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

fn language() -> impl TypedValueParser<Value = Language> {
    PossibleValuesParser::new(Language::ALL.map(Language::name)).try_map(|name| {
        let named = Language::ALL.into_iter().find(|language| language.name() == name);
        named.ok_or("expected typescript, python or elisp")
    })
}

/// Fail on changes that break callers
///
/// Compares a new version of an API with an old one. Prints each breaking change with its path. Exits with
/// 0 if there is none, and with 1 if there is one.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiCheckArgs {
    /// Old OpenRPC document
    pub(crate) old: PathBuf,
    /// New OpenRPC document; `-` reads stdin [default: ask the server]
    #[arg(required_unless_present_any = ["connect", "command"])]
    pub(crate) new: Option<PathBuf>,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReportFormat,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Print the changes between two versions as a changelog
///
/// In Markdown: added, changed, deprecated, removed. Breaking changes are marked.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiDiffArgs {
    /// Old OpenRPC document
    pub(crate) old: PathBuf,
    /// New OpenRPC document; `-` reads stdin [default: ask the server]
    #[arg(required_unless_present_any = ["connect", "command"])]
    pub(crate) new: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
