//! Options of `watch`.

use std::path::PathBuf;

/// Show recorded sessions on a live web page
///
/// Prints the address of the page, and serves it on 127.0.0.1 until SIGINT or SIGTERM. The page shows every
/// trace of the folder: of past sessions, and of those that are still running. The address contains a token:
/// only a browser that opens it can read the page.
#[derive(Debug, clap::Args)]
#[command(after_help = WATCHES)]
pub(crate) struct WatchArgs {
    /// Trace file, or folder of traces [default: where `duet-rpc tap` puts them]
    #[arg(value_name = "FILE|DIR")]
    pub(crate) target: Option<PathBuf>,
    /// Port to serve the page on; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value = "0")]
    pub(crate) port: u16,
}

const WATCHES: &str = "\
Examples:
  duet-rpc watch                   every session that `duet-rpc tap` records
  duet-rpc watch session.jsonl     one trace";
