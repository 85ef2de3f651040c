//! The options of `trace`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Read trace files of `duet-rpc tap`
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    Cat(CatArgs),
}

/// Print the bytes that passed in one direction
///
/// The output equals the stream, framing included. If the trace does not have all of the bytes, the rest
/// is printed, stderr says what is missing, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    /// Direction
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: DirName,
    /// Trace file; `-` reads stdin; later parts of a rotated trace are found by their names
    pub(crate) file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DirName {
    /// From the client to the server
    C2s,
    /// From the server to the client
    S2c,
    /// The server's stderr
    Err,
}
